#!/usr/bin/env python3
"""Writes one source out of several tests: join_tests.py OUTPUT TEST...

First all that they include; then each test, whose unnamed namespace becomes one that is named after its file, so that
what two tests call alike stays apart. It is an inline namespace where the test names something in it from outside.
Compilers name the tests' own lines. Refuses tests that cannot be joined: those with directives among their includes,
and two with a case of one name or a fixture of one name.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r"^#\s*include .*$", re.M)
UNNAMED = re.compile(r"^namespace \{$", re.M)
END = re.compile(r"^\}  // namespace$", re.M)
DIRECTIVE = re.compile(r"^#\s*(?!include|pragma)\w+", re.M)
CASE = re.compile(r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+,\s*\w+)", re.M)
FIXTURE = re.compile(r"^(?:class|struct) (\w+)[^;]*\{$", re.M)


def joined(path: pathlib.Path, text: str) -> str:
    text = INCLUDE.sub("", text)
    end = END.search(text)
    closed = end is not None and not re.search(r"^[^/}\s]", text[end.end():], re.M)
    named = re.search(r"\btest::\w", text) is not None
    inline = "" if closed and not named else "inline "
    return f'#line 1 "{path}"\n' + UNNAMED.sub(f"{inline}namespace {path.stem}_ {{", text)


def complaints(tests: dict[pathlib.Path, str]):
    seen = {}
    for path, text in tests.items():
        last = max((include.start() for include in INCLUDE.finditer(text)), default=0)
        if DIRECTIVE.search(text, 0, last):
            yield f"{path} has a directive before its last include"
        fixtures = set(FIXTURE.findall(text)) & {case.split(",")[0] for case in CASE.findall(text)}
        for name in {*CASE.findall(text), *fixtures}:
            if (other := seen.setdefault(name, path)) != path:
                yield f"{path} and {other} both have {name}"


def main() -> None:
    output, *paths = map(pathlib.Path, sys.argv[1:])
    tests = {path: path.read_text() for path in paths}
    if wrong := list(complaints(tests)):
        sys.exit("\n".join(wrong + ["rename it, or list the test in `alone` (tests/CMakeLists.txt)"]))
    includes = [line for text in tests.values() for line in INCLUDE.findall(text)]
    parts = ["\n".join(dict.fromkeys(includes)), *(joined(path, text) for path, text in tests.items())]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
