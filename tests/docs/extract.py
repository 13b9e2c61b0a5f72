#!/usr/bin/env python3
"""Turns the C++ blocks of Markdown files into sources that the build compiles.

  ```cpp                         declarations: what stands outside of functions
  ```cpp body                    statements: a function with a `troupe::node node` around them
  ```cpp program=NAME ranks=N    a whole program, which CTest starts on N ranks (default 1)
  ```text output=NAME            lines that the program prints, in any order

Blocks of the first two kinds of one file become one source, in order, so that later ones use what
earlier ones declare. Compilers name the line of the Markdown file.
"""

import argparse
import re
import sys
from pathlib import Path

from blocks import DocError, read_blocks

HEAD = """#include <ATen/ATen.h>

#include <chrono>
#include <iostream>
#include <troupe/troupe.hpp>
"""


def identifier(path: Path, root: Path):
    relative = path.resolve().relative_to(root.resolve()).with_suffix("")
    return "_".join(relative.parts).replace("-", "_").lower()


def where(block, path: Path):
    return f'#line {block.line} "{path.resolve()}"\n'


def check(path: Path, block):
    """Throws DocError for a fence that this convention does not know."""
    program = "program" in block.options
    known = set(block.options) <= {"program", "ranks"} and set(block.words) <= {"body"}
    if not known or (program and block.words) or ("ranks" in block.options and not program):
        raise DocError(f"{path}:{block.line - 1}: a ```cpp block is followed by nothing, `body`, or "
                       "`program=NAME ranks=N`")
    if program != ("int main(" in block.text):
        raise DocError(f"{path}:{block.line - 1}: what has a main is a program (`program=NAME`), and "
                       "only that")
    # The compiler would not say so: these headers are precompiled.
    if program and "troupe::" in block.text and "#include <troupe/" not in block.text:
        raise DocError(f"{path}:{block.line - 1}: the program uses troupe:: and includes none of its headers")


def cpp_blocks(path: Path):
    blocks = [b for b in read_blocks(path) if b.language == "cpp"]
    for block in blocks:
        check(path, block)
    return blocks


def snippets(path: Path, root: Path):
    """The source of a document's declarations and statements."""
    includes, code, bodies = [], [], 0
    for block in cpp_blocks(path):
        if "program" in block.options:
            continue
        lines = block.text.splitlines()
        includes += [line for line in lines if line.startswith("#include")]
        text = "\n".join("" if line.startswith("#include") else line for line in lines) + "\n"
        if "body" in block.words:
            bodies += 1
            # A name of its own for each function, and no warning about what a text leaves unused.
            code.append(f"void block_{bodies}([[maybe_unused]] troupe::node node) {{\n"
                        f"{where(block, path)}{text}}}\n")
        else:
            code.append(where(block, path) + text)
    return (HEAD + "\n".join(includes) + f"\nnamespace docs_{identifier(path, root)} {{\n"
            "using namespace std::chrono_literals;\n" + "\n".join(code) + "\n}\n")


def programs(path: Path):
    """NAME, ranks and source of each program of a document."""
    for block in cpp_blocks(path):
        if name := block.options.get("program"):
            yield name, int(block.options.get("ranks", 1)), where(block, path) + block.text


def precompiled(source: str):
    """Which headers a program has precompiled (cmake/Precompiled.cmake): torch costs one that uses less 2 s."""
    return "torch" if re.search(r"#include <(torch/|troupe/(autograd|optim|remote_module))", source) else "troupe"


def expected(path: Path, name: str):
    """The lines that the document says a program prints; empty where it does not say."""
    lines = []
    for block in read_blocks(path):
        if block.options.get("output") == name:
            lines += [line for line in block.text.splitlines() if line.strip()]
    return lines


def write(path: Path, text: str):
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True, help="the repository's")
    parser.add_argument("--list", action="store_true",
                        help="print `snippets ID FILE` and `program NAME RANKS HEADERS FILE`, a line each")
    parser.add_argument("--out", type=Path, help="where the sources go: ID.cpp and NAME.cpp")
    parser.add_argument("files", nargs="+", type=Path)
    args = parser.parse_args()
    try:
        for path in args.files:
            blocks = cpp_blocks(path)
            has_snippets = any("program" not in b.options for b in blocks)
            name = identifier(path, args.root)
            if args.list:
                if has_snippets:
                    print("snippets", name, path)
                for program, ranks, source in programs(path):
                    print("program", program, ranks, precompiled(source), path)
            if args.out:
                if has_snippets:
                    write(args.out / f"{name}.cpp", snippets(path, args.root))
                for program, _, source in programs(path):
                    write(args.out / f"{program}.cpp", source)
    except DocError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
