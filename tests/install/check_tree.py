#!/usr/bin/env python3
"""check_tree.py PREFIX --public HEADERS...: an installed Troupe is whole, and has nothing that is not for others.

Looks at files and runs programs for their help; HEADERS are the names of the public headers.
"""
import argparse
import pathlib
import re
import subprocess
import sys

PROGRAMS = ("troupe", "troupe-run", "troupe-batch", "troupe-cartpole", "troupe-parameter-server", "troupe-pipeline",
            "troupe-rnn")
LIBRARIES = ("messages", "transport", "actors", "autograd", "optim")
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)


def missing_files(prefix, public):
    wanted = [f"bin/{name}" for name in PROGRAMS]
    wanted += [f"share/man/man1/{name}.1" for name in PROGRAMS]
    wanted += [f"share/bash-completion/completions/{name}" for name in PROGRAMS]
    wanted += [f"include/troupe/{name}" for name in public]
    wanted += ["share/doc/troupe/copyright"]
    found = {path.name for path in prefix.rglob("*") if path.is_file()}
    for path in wanted:
        if not (prefix / path).exists():
            yield f"{path} is not there"
    for name in LIBRARIES:
        if not {f"libtroupe_{name}.a", f"libtroupe_{name}.so"} & found:
            yield f"the library troupe_{name} is not there"
    for name in ("TroupeConfig.cmake", "TroupeConfigVersion.cmake", "TroupeTargets.cmake", "troupe.pc"):
        if name not in found:
            yield f"{name} is not there"


def stray_headers(prefix, public):
    """What is no header for others, and headers that include what is not there."""
    root = prefix / "include"
    for path in sorted(root.rglob("*")):
        if not path.is_file():
            continue
        name = path.relative_to(root).as_posix()
        if path.parent == root or path.suffix not in (".hpp", ".h"):
            yield f"include/{name} does not belong there"
        if name.endswith("_internal.hpp"):
            yield f"include/{name} is internal to its source"
        if path.parent == root / "troupe" and path.name not in public:
            yield f"include/{name} is not a public header"
        for quote, target in INCLUDE.findall(path.read_text(encoding="utf-8")):
            beside = quote == '"' and (path.parent / target).exists()
            if (target.startswith("troupe/") or quote == '"') and not beside and not (root / target).exists():
                yield f"include/{name} includes {target}, which is not there"


def silent_programs(prefix):
    """Programs that do not start, or find none of their libraries."""
    for name in PROGRAMS:
        ended = subprocess.run([prefix / "bin" / name, "--help"], stdin=subprocess.DEVNULL, capture_output=True,
                               text=True, timeout=100, check=False)
        if ended.returncode != 0 or "Usage:" not in ended.stdout:
            yield f"bin/{name} --help ended with {ended.returncode}: {ended.stderr}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prefix", type=pathlib.Path)
    parser.add_argument("--public", nargs="+", required=True)
    args = parser.parse_args()
    wrong = [*missing_files(args.prefix, args.public), *stray_headers(args.prefix, args.public),
             *silent_programs(args.prefix)]
    print("\n".join(wrong) or f"{args.prefix} is whole")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
