#!/usr/bin/env python3
"""Writes one source out of several tests: join_tests.py OUTPUT TEST...

First all that they include; then each test, whose unnamed namespace becomes one that is named after its file, so that
what two tests call alike stays apart. It is an inline namespace where the test names something in it from outside.
Compilers name the tests' own lines.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r"^#\s*include .*$", re.M)
UNNAMED = re.compile(r"^namespace \{$", re.M)
END = re.compile(r"^\}  // namespace$", re.M)


def joined(path: pathlib.Path) -> str:
    text = INCLUDE.sub("", path.read_text())
    end = END.search(text)
    closed = end is not None and not re.search(r"^[^/}\s]", text[end.end():], re.M)
    named = re.search(r"\btest::\w", text) is not None
    inline = "" if closed and not named else "inline "
    return f'#line 1 "{path}"\n' + UNNAMED.sub(f"{inline}namespace {path.stem}_ {{", text)


def main() -> None:
    output, *tests = map(pathlib.Path, sys.argv[1:])
    includes = [line for test in tests for line in INCLUDE.findall(test.read_text())]
    parts = ["\n".join(dict.fromkeys(includes)), *map(joined, tests)]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
