#!/usr/bin/env python3
"""check_layout.py [ROOT]: includes look down, and no units include one another.

order.txt lists the folders, the lowest first. A file may include files of its own folder and of folders listed
before it. A unit is a header with the sources of its name; `x_internal.hpp` and `x_part.cpp` belong to `x` where
`x.hpp` is in the same folder. Units form no cycle of includes. Prints each include that breaks a rule and exits with 1.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+["<]troupe/([^">]+)[">]', re.M)
OTHER = re.compile(r'^\s*#\s*include\s+"(?!troupe/)([^"]+)"', re.M)
MODULES = ("messages", "transport", "actors", "autograd", "optim", "apps")


def read_order(path):
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return {folder: place for place, folder in enumerate(line for line in lines if line)}


def sources(root):
    for module in MODULES:
        for path in sorted((root / module).rglob("*.[hc]pp")):
            yield path.relative_to(root).as_posix()


def folder_of(path, order):
    """The listed folder that `path` belongs to; None: there is none."""
    for parent in pathlib.PurePosixPath(path).parents:
        if parent.as_posix() in order:
            return parent.as_posix()
    return None


def is_listed(path, order):
    """Folders are listed themselves, but for public headers, whose row is include/."""
    folder = str(pathlib.PurePosixPath(path).parent)
    return folder in order or ("/include/" in path and folder_of(path, order) is not None)


def public_headers(files):
    """What <troupe/x.hpp> names: <module>/include/troupe/x.hpp."""
    return {path.split("/include/troupe/")[1]: path for path in files if "/include/troupe/" in path}


def includes(root, files):
    """[(file, what it includes, as it is written)] of our own headers; None: it is not there."""
    known, public = set(files), public_headers(files)
    found = []
    for path in files:
        for name in INCLUDE.findall((root / path).read_text()):
            target = public.get(name, name)
            if target in known:
                found.append((path, target, name))
            elif not name.endswith(".capnp.h"):
                found.append((path, None, name))
    return found


def unit_of(path, headers):
    """A header and its sources: the longest header name that the file's name continues."""
    stem = re.sub(r"_internal$", "", path[:-4])
    parts = stem.split("/")
    words = parts[-1].split("_")
    for length in range(len(words), 0, -1):
        name = "/".join(parts[:-1] + ["_".join(words[:length])])
        if name + ".hpp" in headers and (length == len(words) or path.endswith(".cpp")):
            return name
    return stem


def cycles(edges):
    """Strongly connected components of more than one unit (Tarjan's algorithm, without recursion)."""
    index, low, on_stack, stack, found = {}, {}, set(), [], []
    for root in sorted(edges):
        if root in index:
            continue
        work = [(root, iter(sorted(edges.get(root, ()))))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            unit, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(sorted(edges.get(other, ())))))
                    break
                if other in on_stack:
                    low[unit] = min(low[unit], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[unit])
                if low[unit] == index[unit]:
                    component = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == unit:
                            break
                    if len(component) > 1:
                        found.append(sorted(component))
    return sorted(found)


def check(root, order):
    """The breaches, as lines."""
    files = list(sources(root))
    headers = {path for path in files if path.endswith(".hpp")}
    lines, edges = [], {}
    for path in files:
        if not is_listed(path, order):
            lines.append(f"{path}: its folder is not in tests/layout/order.txt")
        edges.setdefault(unit_of(path, headers), set())
        lines += [f'{path}: includes "{name}", which is not named from the root: "troupe/..."'
                  for name in OTHER.findall((root / path).read_text())]
    for path, target, name in includes(root, files):
        if target is None:
            lines.append(f"{path}: includes troupe/{name}, which is not there")
            continue
        here, there = folder_of(path, order), folder_of(target, order)
        if here is not None and there is not None and order[there] > order[here]:
            lines.append(f"{path}: includes {target}, which is above it")
        mine, other = unit_of(path, headers), unit_of(target, headers)
        if mine != other:
            edges[mine].add(other)
    lines += ["cycle: " + " ".join(cycle) for cycle in cycles(edges)]
    return files, lines


def main():
    here = pathlib.Path(__file__).resolve().parent
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else here.parent.parent
    files, lines = check(root, read_order(here / "order.txt"))
    for line in lines:
        print(line)
    up = sum("above it" in line for line in lines)
    ring = sum(line.startswith("cycle") for line in lines)
    print(f"layout: {len(files)} files, {up} includes that go up, {ring} cycles of units")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
