#!/usr/bin/env python3
"""docs.py FOLDER: writes into FOLDER what Doxygen reads for `make docs`, and prints the files in the site's order.

Pages: the README, the guides, the modules' READMEs; links between them lead to headings of the site, diagrams are
pictures. Headers: the public ones and all of ours that these include. A file has the lines that it had, so that a
warning names the right one.
"""

import pathlib
import re
import sys

sys.dont_write_bytecode = True
from sequence_diagram import svg

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODULES = ("messages", "transport", "actors", "autograd", "optim", "apps")
FENCE = re.compile(r"^(```+|~~~+)\s*(\w*)")
HEADING = re.compile(r"^(#+)\s+(.*?)\s*#*$")
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
LINK = re.compile(r"\[((?:`[^`]*`|[^\]`])*)\]\(\s*([^)\s]+)\s*\)")
CODE = re.compile(r"`[^`]+`")
DIAGRAM = "```mermaid"
INCLUDE = re.compile(r'^\s*#\s*include\s+["<](troupe/[^">]+)[">]', re.M)


def pages():
    out = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    out += [ROOT / module / "README.md" for module in MODULES]
    return [path for path in [*out, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"] if path.exists()]


def public_headers():
    return {f"troupe/{path.name}": path for module in MODULES
            for path in sorted((ROOT / module / "include" / "troupe").glob("*.hpp"))}


def headers():
    """The public headers, and those that they include by way of others."""
    known, out = public_headers(), []
    rest = list(known.values())
    while rest:
        path = rest.pop(0)
        if path in out:
            continue
        out.append(path)
        for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
            target = known.get(name, ROOT / name.removeprefix("troupe/"))
            if target.exists():
                rest.append(target)
    return out


def page_id(path):
    if path == ROOT / "README.md":
        return "mainpage"
    return "page_" + "_".join(path.relative_to(ROOT).with_suffix("").parts).lower()


def page_file(path):
    return "index.html" if path == ROOT / "README.md" else page_id(path) + ".html"


def anchor_of(heading):
    """The name by which GitHub links a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def link(path, found):
    """A link as the site has it; a link to what is no page becomes its text."""
    text, target = found[1], found[2]
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return found[0]
    name, _, anchor = target.partition("#")
    file = (path.parent / name).resolve() if name else path
    if file.is_dir() and (file / "README.md").exists():
        file = file / "README.md"
    if file not in pages():
        return text
    return f"[{text}]({page_file(file)}" + (f"#{page_id(file)}_{anchor})" if anchor else ")")


def change_links(path, text):
    """`text` with the site's links and pictures. Code stays as it is, but a link's text may have code."""
    out, end = "", 0
    for found in re.finditer(f"{IMAGE.pattern}|{LINK.pattern}|{CODE.pattern}", text):
        part = found[0]
        if image := IMAGE.fullmatch(part):
            part = f"![{image[1]}]({pathlib.PurePosixPath(image[2]).name})"
        elif not part.startswith("`"):
            part = link(path, LINK.fullmatch(part))
        out += text[end:found.start()] + part
        end = found.end()
    return out + text[end:]


def picture_name(path, number):
    return f"{page_id(path)}_{number}.svg"


def page(path):
    """A page, line by line as it was; what stands between two blocks of code is looked at as a whole."""
    out, prose, fence, diagrams = [], [], None, 0

    def end_prose():
        if prose:
            out.extend(change_links(path, "\n".join(prose)).split("\n"))
            prose.clear()

    for line in path.read_text(encoding="utf-8").splitlines():
        if fence:
            ends = line.strip() == fence.removesuffix("mermaid")
            out.append("" if fence == DIAGRAM else line)
            fence = None if ends else fence
        elif found := FENCE.match(line):
            end_prose()
            if line.startswith(DIAGRAM):
                diagrams += 1
                fence = DIAGRAM
                out.append(f"![]({picture_name(path, diagrams)})")
            else:
                fence = found[1]
                out.append(fence + {"text": ""}.get(found[2], found[2]))
        elif found := HEADING.match(line):
            end_prose()
            name = page_id(path) if found[1] == "#" else f"{page_id(path)}_{anchor_of(found[2])}"
            out.append(f"{found[1]} {found[2]} {{#{name}}}")
        elif line:
            prose.append(line)
        else:
            end_prose()
            out.append("")
    end_prose()
    return "\n".join(out) + "\n"


def diagrams_of(path):
    blocks = path.read_text(encoding="utf-8").split("\n" + DIAGRAM + "\n")[1:]
    for number, block in enumerate(blocks, 1):
        yield picture_name(path, number), svg(block.split("\n```")[0])


# The definition of a member of a class template, for which Doxygen finds no declaration.
DEFINITION = re.compile(r"^template <[^\n]*>\nconst bool [^;=]*=[^;]*;$", re.M)


def header(path):
    """Doxygen shows macros of files that have a description."""
    text = DEFINITION.sub(lambda found: "\n" * found[0].count("\n"), path.read_text(encoding="utf-8"))
    return "/** @file */ " + text


NAMESPACES = {"troupe": "What programs use: nodes, actors, calls, futures, remote references.",
              "troupe::autograd": "Backward passes over the nodes of a job.",
              "troupe::transport": "Stores and rendezvous; what programs use of them is in the namespace troupe, too."}


def reference():
    """A page of the public headers, and the namespaces, which have no docstring of their own."""
    lines = ["/** @page page_reference Public headers", "",
             "What programs include. Classes and functions are those of the namespace @ref troupe.", "",
             "| header | module | what |", "| --- | --- | --- |"]
    for name, path in sorted(public_headers().items()):
        comment = re.search(r"^// (.*?)$(?!\n// )", path.read_text(encoding="utf-8"), re.M | re.S)
        text = " ".join(comment[1].replace("\n// ", " ").split()) if comment else ""
        lines.append(f"| `<{name}>` | {path.relative_to(ROOT).parts[0]} | {text} |")
    lines.append("*/")
    return "\n".join(lines + [f"/** @namespace {name} {text} */" for name, text in NAMESPACES.items()]) + "\n"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1]).resolve()
    files = [write(out / path.relative_to(ROOT), page(path)) for path in pages()]
    files.append(write(out / "reference.dox", reference()))
    files += [write(out / path.relative_to(ROOT), header(path)) for path in headers()]
    for path in pages():
        for name, picture in diagrams_of(path):
            write(out / "pictures" / name, picture)
    print("\n".join(str(path) for path in files))


if __name__ == "__main__":
    main()
