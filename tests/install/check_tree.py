#!/usr/bin/env python3
"""check_tree.py --build FOLDER --foreign FOLDERS... --public HEADERS... --data FILES... -- PREFIX

An installed Troupe is whole, and has nothing that is not for others. Looks at files and runs programs; FOLDER has the
programs of the build, FOLDERS are of the machine that built it, HEADERS are the names of the public headers, FILES
those of the examples' data.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAMS = ("troupe", "troupe-run", "troupe-batch", "troupe-cartpole", "troupe-collectives", "troupe-mesh-matmul",
            "troupe-parameter-server", "troupe-pipeline", "troupe-rnn", "troupe-weight-sync")
LIBRARIES = ("messages", "transport", "actors", "autograd", "optim")
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)


def missing_files(prefix, public, data):
    wanted = [f"bin/{name}" for name in PROGRAMS]
    wanted += [f"share/man/man1/{name}.1" for name in PROGRAMS]
    wanted += [f"share/bash-completion/completions/{name}" for name in PROGRAMS]
    wanted += [f"include/troupe/{name}" for name in public]
    wanted += [f"share/troupe/{name}" for name in data]
    wanted += ["share/troupe/install_wheels.sh", "share/doc/troupe/copyright", "share/doc/troupe/DATA.md",
               "share/doc/troupe/copyright.libaegis"]
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


def needless_headers(prefix, public):
    """Headers that no public header includes, directly or not: they are for Troupe's own sources."""
    root = prefix / "include"
    todo = [f"troupe/{name}" for name in public if (root / "troupe" / name).exists()]
    needed = set(todo)
    while todo:
        for _, target in INCLUDE.findall((root / todo.pop()).read_text(encoding="utf-8")):
            if (root / target).exists() and target not in needed:
                needed.add(target)
                todo.append(target)
    for path in sorted(root.rglob("*.h*")):
        name = path.relative_to(root).as_posix()
        if name not in needed:
            yield f"include/{name} is needed by no public header"


def silent_programs(prefix):
    """Programs that do not start, or find none of their libraries."""
    for name in PROGRAMS:
        ended = subprocess.run([prefix / "bin" / name, "--help"], stdin=subprocess.DEVNULL, capture_output=True,
                               text=True, timeout=100, check=False)
        if ended.returncode != 0 or "Usage:" not in ended.stdout:
            yield f"bin/{name} --help ended with {ended.returncode}: {ended.stderr}"


def dynamic_entries(program, tags):
    """What a program tells the loader: the values of its dynamic section's entries of these tags."""
    printed = subprocess.run(["readelf", "-d", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.findall(rf"\((?:{tags})\).*\[(.*)\]", printed)


def paths_of_the_build(prefix, folders):
    """What users read or the loader follows, and that names a folder of the build."""
    read = {}
    for path in [*(prefix / "share").rglob("*"), *prefix.rglob("*.cmake"), *prefix.rglob("troupe.pc")]:
        if path.is_file():
            read[path.relative_to(prefix)] = path.read_bytes()
    for name in PROGRAMS:
        read[f"bin/{name}"] = ":".join(dynamic_entries(prefix / "bin" / name, "RPATH|RUNPATH")).encode()
    for what, text in read.items():
        for folder in folders:
            if folder.encode() in text:
                yield f"{what} names {folder}"


def misled_programs(programs):
    """Programs that load libraries from the working folder, as a run path with an empty part asks for."""
    with tempfile.TemporaryDirectory() as folder:
        for path in programs:
            for library in dynamic_entries(path, "NEEDED"):
                (pathlib.Path(folder) / library).write_text("no library\n", encoding="utf-8")
            ended = subprocess.run([path, "--version"], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                                   text=True, timeout=100, check=False)
            if ended.returncode != 0:
                yield f"{path} --version in a folder with other libraries ended with {ended.returncode}: {ended.stderr}"


def strange_data(prefix):
    """An example reads its data from beside itself: here from a copy of its tree, where they are no digits."""
    program = (prefix / "bin" / "troupe-parameter-server").resolve()
    lib = program.parents[2]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        copy = root / lib.relative_to(prefix.resolve())
        (copy / "troupe" / "examples").mkdir(parents=True)
        for path in [*lib.glob("*.so*"), lib / "troupe" / "site"]:
            (copy / path.relative_to(lib)).symlink_to(path)
        data = root / "share" / "troupe" / "digits.csv.gz"
        data.parent.mkdir(parents=True)
        data.write_text("no digits\n", encoding="utf-8")
        command = [shutil.copy(program, copy / "troupe" / "examples"), "--local", "--epochs", "1"]
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100,
                               check=False)
        if str(data) not in ended.stderr:
            yield f"parameter_server does not read {data}: it ended with {ended.returncode}, {ended.stderr}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prefix", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--foreign", nargs="+", required=True)
    parser.add_argument("--public", nargs="+", required=True)
    parser.add_argument("--data", nargs="*", required=True)
    args = parser.parse_args()
    wrong = [*missing_files(args.prefix, args.public, args.data), *stray_headers(args.prefix, args.public),
             *needless_headers(args.prefix, args.public),
             *silent_programs(args.prefix), *paths_of_the_build(args.prefix, args.foreign), *strange_data(args.prefix),
             *misled_programs(args.prefix / "bin" / name for name in PROGRAMS),
             *misled_programs(path for path in args.build.iterdir() if path.is_file() and os.access(path, os.X_OK))]
    print("\n".join(wrong) or f"{args.prefix} is whole")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
