#!/usr/bin/env python3
"""Starts a document's program as the document says, and compares what it prints."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from extract import expected


# The runtime's own log, behind the rank: "[0] [2026-01-31 12:00:00.000] [info] ...".
LOG = re.compile(r"^\[\d+\] \[\d{4}-\d\d-\d\d [\d:.]+\] \[\w+\]")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launcher", required=True)
    parser.add_argument("--ranks", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--document", type=Path, required=True)
    parser.add_argument("program")
    args = parser.parse_args()
    lines = expected(args.document, args.name)
    if not lines:
        sys.exit(f"{args.document} does not say what {args.name} prints: add a block "
                 f"```text output={args.name}")
    ended = subprocess.run([args.launcher, "-n", args.ranks, args.program], stdout=subprocess.PIPE,
                           stdin=subprocess.DEVNULL, text=True, timeout=100, check=False)
    printed = sorted(line.rstrip() for line in ended.stdout.splitlines() if not LOG.match(line))
    if ended.returncode != 0:
        sys.exit(f"{args.name} ended with {ended.returncode}; it printed:\n{ended.stdout}")
    if printed != sorted(line.rstrip() for line in lines):
        sys.exit(f"{args.document} says that {args.name} prints\n" + "\n".join(lines) +
                 f"\nand it printed\n{ended.stdout}")


if __name__ == "__main__":
    main()
