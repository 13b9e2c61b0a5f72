#!/usr/bin/env python3
"""Which macros a public header leaves defined, and which headers it reads.

Ours are called TROUPE_*. No header but <troupe/schema.hpp>, which is about Cap'n Proto, defines any of Cap'n Proto's.
<troupe/troupe.hpp>, which every program includes, reads neither Cap'n Proto nor what is inside a node. Macros of the
standard library, CAF, libtorch and fmt come with their headers. --root names the folders in which files are ours.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

MARKER = re.compile(r'^# \d+ "([^"]*)"((?: \d)*)')
DEFINE = re.compile(r"^#define (\w+)")
UNDEF = re.compile(r"^#undef (\w+)")
OF_CAPNP = re.compile(r"^(CAPNP|KJ)_")
CAPNP_FILE = re.compile(r"/(capnp|kj)/[^/]+\.h$|\.capnp\.h$")
ABOUT_CAPNP = ("schema",)
# What <troupe/troupe.hpp> leaves out.
HEAVY = re.compile(r"/actors/(membership/membership|node/node_core|node/termination)\.hpp$|\.capnp\.h$")


def read_macros(text):
    """({macro: the file that defined it last}, {file: the files that include one another down to it}) of what the
    compiler prints for -E -dD."""
    macros, files, stack, file = {}, {}, [], ""
    for line in text.splitlines():
        if not line.startswith("#"):
            continue
        if found := MARKER.match(line):
            file, flags = found[1], found[2].split()
            if "1" in flags:  # begins
                stack.append(file)
            elif "2" in flags and stack:  # another one has ended
                stack.pop()
            files.setdefault(file, list(stack))
        elif found := DEFINE.match(line):
            macros[found[1]] = file
        elif found := UNDEF.match(line):
            macros.pop(found[1], None)
    return macros, files


def is_ours(file, roots):
    return any(file.startswith(root.rstrip("/") + "/") for root in roots) and "/.deps/" not in file


def way_to(file, files, roots):
    """The headers of ours on the way to a file."""
    chain = [name for name in files.get(file, []) if is_ours(name, roots)]
    return " -> ".join(re.sub(r".*/include/(?=troupe/)", "", name) for name in chain)


def complaints(name, macros, files, roots):
    """What is wrong with the public header `name`: a line each."""
    leaks = [macro for macro, file in macros.items() if OF_CAPNP.match(macro) or CAPNP_FILE.search(file)]
    if leaks and name not in ABOUT_CAPNP:
        first = next((file for file in files if CAPNP_FILE.search(file)), macros[leaks[0]])
        yield (f"<troupe/{name}.hpp> leaves {len(leaks)} macros of Cap'n Proto defined, {leaks[0]} among them, by way "
               f"of {way_to(first, files, roots)}")
    for macro, file in sorted(macros.items()):
        if macro not in leaks and is_ours(file, roots) and not macro.startswith("TROUPE_"):
            yield f"<troupe/{name}.hpp> leaves {macro} defined ({file})"
    if name == "troupe":
        for file in files:
            if is_ours(file, roots) and HEAVY.search(file):
                yield f"<troupe/troupe.hpp> reads {way_to(file, files, roots)}"


def preprocess(source, commands, compiler):
    """What the compiler prints for a source with its own flags: -E -dD."""
    entry = next((e for e in commands if os.path.join(e["directory"], e["file"]) == source), None)
    if entry is None:
        sys.exit(f"{source} is not in compile_commands.json")
    given = entry.get("arguments") or shlex.split(entry["command"])
    given = given[given.index(compiler):] if compiler in given else given
    words, skip = [], False
    for word in given:
        if skip or word == "-c":
            skip = False
        elif word in ("-o", "-MF", "-MT", "-MQ"):
            skip = True
        elif word not in ("-MD", "-MMD"):
            words.append(word)
    ended = subprocess.run(words + ["-E", "-dD"], cwd=entry["directory"], stdout=subprocess.PIPE, text=True,
                           errors="replace", check=False)
    if ended.returncode != 0:
        sys.exit(f"{source} cannot be preprocessed (the message is above)")
    return ended.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commands", required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--root", nargs="+", required=True)
    parser.add_argument("sources", nargs="+", help="NAME.cpp, which includes <troupe/NAME.hpp> and nothing else")
    args = parser.parse_args()
    with open(args.commands, encoding="utf-8") as file:
        commands = json.load(file)
    wrong = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        texts = pool.map(lambda source: preprocess(source, commands, args.compiler), args.sources)
        for source, text in zip(args.sources, texts):
            name = os.path.splitext(os.path.basename(source))[0]
            wrong += complaints(name, *read_macros(text), args.root)
    print("\n".join(wrong) or f"{len(args.sources)} public headers leave no macro that is not theirs")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
