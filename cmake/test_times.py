#!/usr/bin/env python3
"""Prints what the last run of the tests took: minutes per folder, the slowest cases, and what was skipped.

Reads what GoogleTest wrote to BUILD_FOLDER/tests/*/results; a program that crashed or was not run has written
nothing there. Programs run side by side: a crowded machine
stretches their times.
  cmake/test_times.py [BUILD_FOLDER] [--slowest N]
"""
import argparse
import collections
import pathlib
import xml.etree.ElementTree as ElementTree


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build/release", type=pathlib.Path)
    parser.add_argument("--slowest", type=int, default=5, metavar="N")
    options = parser.parse_args()
    folders = collections.defaultdict(lambda: [0, 0.0])
    cases, skipped = [], collections.defaultdict(list)
    silent = []
    for program in sorted(options.build.glob("tests/*/*_test")):
        folder = program.parts[-2]
        try:
            results = ElementTree.parse(program.parent / "results" / f"{program.name}.xml")
        except (OSError, ElementTree.ParseError):
            if not program.name.endswith("_soak_test"):
                silent.append(f"{folder}.{program.name}")
            continue
        for case in results.iter("testcase"):
            if case.get("status") == "notrun":
                continue
            name, seconds = f"{folder}.{case.get('classname')}.{case.get('name')}", float(case.get("time"))
            folders[folder][0] += 1
            folders[folder][1] += seconds
            cases.append((seconds, name))
            reason = case.find("skipped")
            if reason is not None:
                skipped[(reason.get("message") or "no reason given").splitlines()[-1]].append(name)
    for name, (count, seconds) in sorted(folders.items(), key=lambda item: -item[1][1]):
        print(f"  {seconds / 60:6.1f} min  tests/{name} ({count} cases)")
    for seconds, name in sorted(cases)[::-1][: options.slowest]:
        print(f"  slowest: {seconds:.0f} s  {name}")
    for name in silent:
        print(f"  without results: {name}")
    for reason, names in skipped.items():
        print(f"  skipped: {len(names)}, {names[0]} among them: {reason}")


if __name__ == "__main__":
    main()
