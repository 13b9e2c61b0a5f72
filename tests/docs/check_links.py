#!/usr/bin/env python3
"""Checks that every relative link and picture of Markdown files leads somewhere."""

import re
import sys
from pathlib import Path
from urllib.parse import unquote

from blocks import DocError, prose

LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|(?:src|srcset|href)=\"([^\"]+)\"")
CODE = re.compile(r"`[^`]*`")
HEADING = re.compile(r"^#+\s+(.*?)\s*#*$")


def anchors(path: Path):
    """The names by which a page's headings are linked."""
    names = set()
    for _, line in prose(path):
        if match := HEADING.match(line):
            text = re.sub(r"[^\w\- ]", "", match[1].lower()).replace(" ", "-")
            names.add(text)
    return names


def broken(path: Path):
    """A sentence for each link that leads nowhere."""
    for number, line in prose(path):
        for match in LINK.finditer(CODE.sub("", line)):
            target = match[1] or match[2]
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (path.parent / unquote(name)).resolve() if name else path.resolve()
            if not file.exists():
                yield f"{path}:{number}: {target} does not exist"
            elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                yield f"{path}:{number}: {file.name} has no heading '#{anchor}'"


def main():
    try:
        found = [sentence for path in sys.argv[1:] for sentence in broken(Path(path))]
    except DocError as error:
        found = [str(error)]
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
