#!/usr/bin/env python3
"""Counts the lines that one program of a document has and another one has not.

Fails when these are more than --most, or when the document says another number: "**10 lines**".
"""

import argparse
import difflib
import re
import sys
from pathlib import Path

from extract import cpp_blocks

STATED = re.compile(r"\*\*(\d+) lines\*\*")


def program(path: Path, name: str):
    """The lines of a document's program, without empty ones. Throws KeyError where there is none."""
    for block in cpp_blocks(path):
        if block.options.get("program") == name:
            return [line.rstrip() for line in block.text.splitlines() if line.strip()]
    raise KeyError(name)


def changed_lines(before, after):
    """Those of `after` that are new or not as they were before."""
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [
        line
        for kind, _, _, first, last in matcher.get_opcodes()
        if kind != "equal"
        for line in after[first:last]
    ]


def complaint(path: Path, before: str, after: str, most: int):
    """A sentence if the difference is not as it should be, else None."""
    try:
        changed = changed_lines(program(path, before), program(path, after))
    except KeyError as name:
        return f"{path} has no program called {name}"
    listed = "".join(f"\n  {line}" for line in changed)
    stated = STATED.search(path.read_text(encoding="utf-8"))
    if not stated:
        return f"{path} does not say by how many lines {before} and {after} differ: **N lines**"
    if int(stated[1]) != len(changed):
        return f"{path} says {stated[1]} lines, and {len(changed)} differ:{listed}"
    if len(changed) > most:
        return f"{len(changed)} lines differ, more than {most}:{listed}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--document", type=Path, required=True)
    parser.add_argument("--most", type=int, required=True)
    parser.add_argument("before", help="the program without")
    parser.add_argument("after", help="the program with the lines that are counted")
    args = parser.parse_args()
    sys.exit(complaint(args.document, args.before, args.after, args.most))


if __name__ == "__main__":
    main()
