#!/usr/bin/env python3
"""Prints how long a build folder's last build took: minutes per folder, and the slowest files.

Times are of compilers that ran side by side, read from ninja's log: a crowded machine stretches them.
  cmake/build_times.py [BUILD_FOLDER] [--slowest N] [--includes] [--json]
--includes: how many headers each of the slowest files reads, and whose they are. What is precompiled is not read anew.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess


def steps_of(log: pathlib.Path) -> dict[str, float]:
    """Seconds of each output's last build."""
    steps = {}
    for line in log.read_text().splitlines():
        if line.startswith("#"):
            continue
        begin, end, _, output, _ = line.split("\t")
        steps[output] = (int(end) - int(begin)) / 1000
    return steps


def source_of(output: str) -> str:
    """apps/CMakeFiles/common/CMakeFiles/troupe_app_common.dir/a.cpp.o is apps/common/a.cpp.

    Sources that are compiled as one are called together_N.
    """
    output = re.sub(r"Unity/unity_(\d+)_cxx\.cxx", r"together_\1", output)
    output = re.sub(r"^apps/CMakeFiles/troupe_app_(\w+)\.dir/together", r"apps/\1/together", output)
    path = re.sub(r"CMakeFiles/(?:[^/]+\.dir/)?", "", output)
    path = path.replace("__/", "")
    return re.sub(r"\.o$", "", path)


def folder_of(output: str) -> str:
    if "precompiled" in output or output.endswith(".gch"):
        return "precompiled headers"
    if not output.endswith(".o"):
        return "linking and the rest"
    parts = source_of(output).split("/")
    return "/".join(parts[:2]) if parts[0] in ("apps", "tests") and len(parts) > 2 else parts[0]


# Whose a header is, by its path; what none of these names is the system's.
OWNERS = (("Troupe", re.compile(r"/include/troupe/|/include/tests/|/generated/troupe/")),
          ("libtorch", re.compile(r"/torch/include/")), ("CAF", re.compile(r"/caf/")),
          ("Cap'n Proto", re.compile(r"/(capnp|kj)/")), ("GoogleTest", re.compile(r"/(gtest|gmock)/")),
          ("fmt and spdlog", re.compile(r"/(fmt|spdlog)/")), ("standard library", re.compile(r"/c\+\+/")))
PRECOMPILED = re.compile(r"cmake_pch\.hxx(\.gch|\.pch)?$")


def owner_of(header: str) -> str:
    return next((name for name, pattern in OWNERS if pattern.search(header)), "system")


def includes_of(build: pathlib.Path, outputs: list[str]) -> dict[str, list[str]]:
    """What each output was compiled from, as ninja has noted it."""
    text = subprocess.run(["ninja", "-C", build, "-t", "deps", *outputs], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    found, output = {}, None
    for line in text.splitlines():
        if line.startswith("    "):
            found[output].append(line.strip())
        elif ": #deps" in line:
            output = line.split(":")[0]
            found[output] = []
    return found


def line_of_includes(headers: list[str]) -> str:
    counts = collections.Counter(owner_of(header) for header in headers[1:] if not PRECOMPILED.search(header))
    text = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    precompiled = any(PRECOMPILED.search(header) for header in headers)
    return (text or "nothing") + (", beside what is precompiled" if precompiled else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build/release", type=pathlib.Path)
    parser.add_argument("--slowest", type=int, default=5, metavar="N")
    parser.add_argument("--includes", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    log = options.build / ".ninja_log"
    if not log.exists():
        parser.error(f"{log} is not there: build with `make build` first")
    steps = steps_of(log)
    folders = collections.defaultdict(lambda: [0, 0.0])
    for output, seconds in steps.items():
        entry = folders[folder_of(output)]
        entry[0] += 1
        entry[1] += seconds
    slowest = sorted((s, o) for o, s in steps.items() if o.endswith(".o"))[::-1][: options.slowest]
    includes = includes_of(options.build, [o for _, o in slowest]) if options.includes and slowest else {}
    if options.json:
        print(json.dumps({"folders": {k: {"files": n, "seconds": round(s, 1)} for k, (n, s) in folders.items()},
                          "slowest": [{"file": source_of(o), "seconds": s} for s, o in slowest]}))
        return
    print(f"built in {sum(s for _, s in folders.values()) / 60:.1f} minutes of one core:")
    for name, (files, seconds) in sorted(folders.items(), key=lambda item: -item[1][1]):
        print(f"  {seconds / 60:6.1f} min  {name} ({files})")
    for seconds, output in slowest:
        print(f"  slowest: {seconds:.0f} s  {source_of(output)}")
        if output in includes:
            print(f"             {line_of_includes(includes[output])}")


if __name__ == "__main__":
    main()
