#!/usr/bin/env python3
"""A source file is the program of that name in a document, to the letter."""

import argparse
import difflib
import sys
from pathlib import Path

from extract import cpp_blocks


def difference(document: Path, name: str, source: Path):
    """What differs, as a diff; empty where nothing does. Throws KeyError where there is no such program."""
    for block in cpp_blocks(document):
        if block.options.get("program") == name:
            return "".join(difflib.unified_diff(block.text.splitlines(True),
                                                source.read_text(encoding="utf-8").splitlines(True),
                                                str(document), str(source)))
    raise KeyError(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--document", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("source", type=Path)
    args = parser.parse_args()
    try:
        sys.exit(difference(args.document, args.name, args.source) or None)
    except KeyError:
        sys.exit(f"{args.document} has no program called {args.name}")


if __name__ == "__main__":
    main()
