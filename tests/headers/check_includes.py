#!/usr/bin/env python3
"""check_includes.py ROOT: headers that are installed include only headers that are installed.

Public headers, MODULE/include/troupe/x.hpp, and others, which "troupe/MODULE/..." names, are; *_internal.hpp and what
programs of apps/ have are not.
"""

import pathlib
import re
import sys

MODULES = ("messages", "transport", "actors", "autograd", "optim")
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)


def installed_headers(root):
    """{as it is included: file}"""
    out = {}
    for module in MODULES:
        folder = root / module
        for path in sorted(folder.rglob("*.hpp")):
            name = path.relative_to(folder).as_posix()
            if name.startswith("include/"):
                out[name.removeprefix("include/")] = path
            elif not name.endswith("_internal.hpp"):
                out[f"troupe/{module}/{name}"] = path
    return out


def complaints(root):
    headers = installed_headers(root)
    for name, path in headers.items():
        for quote, target in INCLUDE.findall(path.read_text(encoding="utf-8")):
            place = path.relative_to(root)
            if target.startswith("troupe/"):
                if target not in headers and not target.endswith(".capnp.h"):
                    yield f"{place}: includes {target}, which is not installed"
            elif quote == '"':
                yield f'{place}: includes "{target}"; headers of ours are "troupe/..."'


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    wrong = list(complaints(root))
    print("\n".join(wrong) or f"{len(installed_headers(root))} headers are installed, with all that they include")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
