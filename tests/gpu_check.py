#!/usr/bin/env python3
"""Runs everything of Troupe that needs a GPU, and reports what it saw.

Without a GPU it says so, names what it skips, and succeeds. With --bundle it packs the programs, at
most 64 MiB, for a machine that has a GPU and PyTorch's wheel and nothing else: copy that folder and run
`python3 gpu_check.py` in it there.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MOST_BYTES = 64 << 20
MOST_SECONDS = 600

# Program below the build's tests/, which of its tests, and what they show.
CHECKS = [
    ("messages/device_route_test", "*cuda*", "tensors to the device and back"),
    ("actors/device_maps_test", "*cuda*", "calls by device maps, over loopback, UCX and TCP"),
    ("actors/device_calls_test", "*cuda*", "streams of senders and receivers"),
    ("actors/device_values_test", "*cuda*", "references and values on devices"),
    ("actors/leased_devices_test", "*cuda*", "tensors from device to device between two processes"),
    ("autograd/gradient_devices_test", "*cuda*", "gradients by the inverse maps"),
    ("actors/nccl_interface_test", "*", "NCCL's library"),
    ("actors/nccl_gpu_test", "*/0", "NCCL with one rank"),
    ("actors/nccl_gpu_test", "*/1", "NCCL with two ranks, on one GPU from NCCL 2.30 on"),
]
INFO = "apps/troupe"


def output_of(*command, env=None):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, env=env,
                              check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def gpus():
    """A line for each: name, memory, driver."""
    text = output_of("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
    return [line for line in text.splitlines() if line and "failed" not in line.lower()]


def torch_folders():
    """Where PyTorch's wheel keeps its libraries and those of CUDA that it needs."""
    found = output_of(sys.executable, "-c",
                      "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])")
    if not found:
        return []
    site = Path(found).parent
    return [Path(found) / "lib", *sorted(site.glob("nvidia/*/lib"))]


def environment(bundled, libraries):
    out = dict(os.environ, OMP_NUM_THREADS="1")
    if bundled:
        paths = [str(HERE / "lib"), *map(str, torch_folders())]
        out["LD_LIBRARY_PATH"] = ":".join([*paths, out.get("LD_LIBRARY_PATH", "")]).rstrip(":")
        out["UCX_MODULE_DIR"] = str(HERE / "lib" / "ucx")
    if libraries and (nccl := sorted(library for folder in libraries for library in folder.glob("libnccl.so.2"))):
        out.setdefault("TROUPE_NCCL_LIBRARY", str(nccl[0]))
    if bundled:
        cuda = [folder / "libtorch_cuda.so" for folder in torch_folders() if (folder / "libtorch_cuda.so").exists()]
        if cuda and gpus():
            out["LD_PRELOAD"] = str(cuda[0])
    return out


def run(program, tests, env, seconds, scratch):
    """What became of the tests of one program."""
    report = scratch / "result.json"
    report.unlink(missing_ok=True)
    out = {"passed": 0, "failed": [], "skipped": {}, "measured": [], "seconds": 0.0}
    begun = time.monotonic()
    try:
        done = subprocess.run([program, f"--gtest_filter={tests}", f"--gtest_output=json:{report}"],
                              capture_output=True, text=True, timeout=seconds, env=env, check=False)
        text, status = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        text, status = (late.stdout or b"").decode(errors="replace"), f"not ended after {seconds:.0f} s"
    except OSError as error:
        text, status = "", str(error)
    out["seconds"] = time.monotonic() - begun
    out["measured"] = re.findall(r"^measured: (.*)$", text, re.MULTILINE)
    log = scratch / f"{Path(program).name}{re.sub('[^0-9]', '', tests)}.log"
    log.write_text(text, encoding="utf-8")
    if not report.exists() or status not in (0, 1):
        out["failed"].append(f"{Path(program).name}: ended with {status}, see {log}")
    if not report.exists():
        return out
    reason = (re.findall(r": Skipped\n(.+)", text) or ["it says not why"])[0].strip()
    for suite in json.loads(report.read_text(encoding="utf-8"))["testsuites"]:
        for test in suite["testsuite"]:
            if test.get("status") == "NOTRUN":
                continue
            name = f"{suite['name']}.{test['name']}"
            if test.get("result") == "SKIPPED":
                out["skipped"].setdefault(reason, []).append(name)
            elif test.get("failures"):
                out["failed"].append(name)
            else:
                out["passed"] += 1
    return out


def write_report(path, seen, results, took):
    lines = [f"## {datetime.date.today()}", "", "| what | value |", "| --- | --- |"]
    lines += [f"| {name} | {value} |" for name, value in seen.items()]
    lines += ["", "| check | passed | failed | skipped | s |", "| --- | --- | --- | --- | --- |"]
    for what, one in results.items():
        skipped = sum(map(len, one["skipped"].values()))
        lines.append(f"| {what} | {one['passed']} | {len(one['failed'])} | {skipped} | {one['seconds']:.1f} |")
    for what, one in results.items():
        lines += [f"- {what}: {text}" for text in one["measured"]]
    lines += ["", f"In {took:.0f} s.", ""]
    path.write_text("\n".join(lines), encoding="utf-8")


def check(asked):
    bundled = (HERE / "bin").is_dir()
    programs = HERE / "bin" if bundled else asked.build / "tests"
    scratch = asked.out
    scratch.mkdir(parents=True, exist_ok=True)
    found = gpus()
    begun = time.monotonic()
    libraries = torch_folders() if bundled else [Path(".deps/site") / "nvidia" / "nccl" / "lib"]
    env = environment(bundled, libraries)
    seen = {"GPUs": "; ".join(found) or "none: nvidia-smi finds none", "machine": output_of("uname", "-rm")}
    info = programs / "troupe" if bundled else asked.build / INFO
    if found and info.exists():
        text = output_of(info, "info", env=env)
        for name in ("libtorch", "GPU", "CUDA", "UCX"):
            if lines := [line.strip() for line in text.splitlines() if name in line]:
                seen[f"troupe info: {name}"] = " / ".join(lines)[:400]
    results = {}
    for program, tests, what in CHECKS:
        path = programs / (Path(program).name if bundled else program)
        left = MOST_SECONDS - (time.monotonic() - begun)
        one = run(path, tests, env, max(left, 1), scratch) if path.exists() else {
            "passed": 0, "failed": [f"{path} was not built"], "skipped": {}, "measured": [], "seconds": 0.0}
        # Each check has something that one GPU can do; two ranks may need two.
        if found and not one["passed"] and not one["failed"] and not tests.endswith("/1"):
            one["failed"].append("nothing was run, although there is a GPU: see the reasons")
        results[what] = one
        skipped = sum(map(len, one["skipped"].values()))
        print(f"{what}: {one['passed']} passed, {len(one['failed'])} failed, {skipped} skipped, "
              f"{one['seconds']:.1f} s", flush=True)
        for text in one["measured"]:
            print(f"  {text}")
        for name in one["failed"]:
            print(f"  FAILED {name}")
        for reason, names in one["skipped"].items():
            print(f"  skipped, since {reason}:\n    " + "\n    ".join(names))
    took = time.monotonic() - begun
    write_report(scratch / "report.md", seen, results, took)
    (scratch / "report.json").write_text(json.dumps({"seen": seen, "results": results}, indent=1), encoding="utf-8")
    failed = sum(len(one["failed"]) for one in results.values())
    print(f"\n{'no GPU here: nothing of what needs one was run' if not found else '; '.join(found)}; "
          f"{took:.1f} s; report: {scratch / 'report.md'}" + (f"; {failed} FAILED" if failed else ""))
    return 1 if failed else 0


def shared_libraries(program):
    """Those that a program needs and PyTorch's wheel and any Linux do not bring."""
    for line in output_of("ldd", str(program)).splitlines():
        name, _, rest = line.strip().partition(" => ")
        path = Path(rest.split(" ")[0]) if rest else None
        if not path or not path.is_file():
            continue
        if re.match(r"(libtorch|libc10|libgomp|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so|libcu|libnv|ld-linux)", name):
            continue
        yield path


def bundle(asked):
    to = asked.bundle
    shutil.rmtree(to, ignore_errors=True)
    (to / "bin").mkdir(parents=True)
    (to / "lib" / "ucx").mkdir(parents=True)
    names = sorted({program for program, _, _ in CHECKS})
    joined = {}  # several names of one file
    for source, name in [*((asked.build / "tests" / one, Path(one).name) for one in names),
                         (asked.build / INFO, "troupe")]:
        real = source.resolve(strict=True)
        target = to / "bin" / real.name
        if real not in joined:
            subprocess.run(["strip", "-o", target, real], check=True)
            joined[real] = target
            for library in shared_libraries(real):
                shutil.copy(library, to / "lib" / library.name)
        if name != real.name:
            (to / "bin" / name).symlink_to(real.name)
    site = Path(".deps/site")
    for library in [*site.glob("libucx/lib/*.so.0"), *site.glob("libucx_cu13.libs/*.so*")]:
        shutil.copy(library, to / "lib" / library.name)
    for module in site.glob("libucx/lib/ucx/*.so*"):
        shutil.copy(module, to / "lib" / "ucx" / module.name)
    for library in to.glob("lib/**/*.so*"):
        subprocess.run(["strip", "--strip-unneeded", library], check=False, capture_output=True)
    shutil.copy(__file__, to / "gpu_check.py")
    size = sum(one.stat().st_size for one in to.rglob("*") if one.is_file() and not one.is_symlink())
    print(f"{to}: {size / (1 << 20):.1f} MiB; on a machine with a GPU and PyTorch: python3 gpu_check.py")
    if size > MOST_BYTES:
        sys.exit(f"that is more than {MOST_BYTES >> 20} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build/release"), help="the folder that was built")
    parser.add_argument("--out", type=Path, default=Path("build/gpu_check"), help="where the report goes")
    parser.add_argument("--bundle", type=Path, help="packs the programs into this folder instead")
    asked = parser.parse_args()
    if asked.bundle:
        return bundle(asked)
    return check(asked)


if __name__ == "__main__":
    sys.exit(main())
