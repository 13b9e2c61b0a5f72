#!/usr/bin/env python3
"""Measures Troupe against its peers, side by side in one run, and writes a report.

    python3 tests/bench/run.py --rows call_actor,identity

Called by `make bench`. docs/benchmarks.md describes the rows and how they are measured.
"""

import argparse
import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # leaves nothing in the sources
sys.path.insert(0, str(Path(__file__).resolve().parent))

import measure  # noqa: E402
import plot  # noqa: E402
import programs  # noqa: E402
import report  # noqa: E402
import rows  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", help="only these, separated by commas")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each program (default: 3)")
    parser.add_argument(
        "--build", type=Path, default=programs.REPOSITORY / "build" / "release", help="build folder"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=programs.REPOSITORY / "build" / "bench",
        help="folder of the report",
    )
    parser.add_argument(
        "--no-peers", action="store_true", help="leave out peers that must be installed"
    )
    parser.add_argument("--list", action="store_true", help="list the rows and end")
    parser.add_argument(
        "--self-test", action="store_true", help="test this harness with programs that only pretend"
    )
    chosen = parser.parse_args()
    if chosen.repeats < 1:
        parser.error("--repeats must be at least 1")
    return chosen


def main():
    asked = arguments()
    if asked.list:
        for row in rows.ROWS:
            print(f"{row.name:16} {row.what}")
        return 0
    if asked.self_test:
        import self_test

        return self_test.main()
    chosen = rows.choose(asked.rows.split(",") if asked.rows else None)
    setup = programs.prepare(asked.build, chosen, install_peers=not asked.no_peers)
    load = os.getloadavg()[0]
    results = measure.measure_all(chosen, asked.repeats, programs.OURS, programs.PEERS, setup)
    lines = report.make_lines(chosen, results, programs.OURS, setup.missing)
    asked.out.mkdir(parents=True, exist_ok=True)
    picture = plot.draw(lines)
    if picture:
        (asked.out / "report.svg").write_text(picture)
    print(
        report.write(
            asked.out, lines, chosen, asked.repeats, load, "report.svg" if picture else None
        )
    )
    print(f"written to {asked.out}/report.md and report.json", file=sys.stderr)
    return 1 if any(program == "troupe" for _, program, _ in results.failures) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
