#!/usr/bin/env python3
"""Prints how long a build folder's last build took: minutes per folder, and the slowest files.

Times are of compilers that ran side by side, read from ninja's log: a crowded machine stretches them.
  cmake/build_times.py [BUILD_FOLDER] [--slowest N] [--json]
"""
import argparse
import collections
import json
import pathlib
import re


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build/release", type=pathlib.Path)
    parser.add_argument("--slowest", type=int, default=5, metavar="N")
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
    slowest = sorted((s, source_of(o)) for o, s in steps.items() if o.endswith(".o"))[::-1][: options.slowest]
    if options.json:
        print(json.dumps({"folders": {k: {"files": n, "seconds": round(s, 1)} for k, (n, s) in folders.items()},
                          "slowest": [{"file": f, "seconds": s} for s, f in slowest]}))
        return
    print(f"built in {sum(s for _, s in folders.values()) / 60:.1f} minutes of one core:")
    for name, (files, seconds) in sorted(folders.items(), key=lambda item: -item[1][1]):
        print(f"  {seconds / 60:6.1f} min  {name} ({files})")
    for seconds, name in slowest:
        print(f"  slowest: {seconds:.0f} s  {name}")


if __name__ == "__main__":
    main()
