"""The fenced blocks of a Markdown file."""

import re
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"^(\s*)(```+|~~~+)\s*(.*?)\s*$")


class DocError(Exception):
    """A document breaks the convention; the text names file and line."""


@dataclass
class Block:
    line: int  # of the first line inside, counted from 1
    language: str
    words: list = field(default_factory=list)  # of the fence, behind the language
    options: dict = field(default_factory=dict)  # name=value of the fence
    text: str = ""


def read_blocks(path: Path):
    """All fenced blocks, in order. Throws DocError for a block that does not end."""
    blocks, block, fence, lines = [], None, "", []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = FENCE.match(line)
        if block is None:
            if not match:
                continue
            info = match[3].split()
            block = Block(number + 1, info[0] if info else "")
            fence, lines = match[2], []
            for word in info[1:]:
                name, equals, value = word.partition("=")
                if equals:
                    block.options[name] = value
                else:
                    block.words.append(word)
            if block.language in ("c++", "C++", "cxx", "cc"):
                raise DocError(f"{path}:{number}: write ```cpp, so that the block is compiled")
            if block.language == "cpp" and match[1]:
                raise DocError(f"{path}:{number}: a ```cpp block must start at the line's beginning")
        elif match and match[2].startswith(fence) and not match[3]:
            block.text = "\n".join(lines) + "\n"
            blocks.append(block)
            block = None
        else:
            lines.append(line)
    if block is not None:
        raise DocError(f"{path}:{block.line - 1}: this block does not end")
    return blocks


def prose(path: Path):
    """The lines outside of blocks, with their numbers."""
    inside = set()
    for block in read_blocks(path):
        inside.update(range(block.line - 1, block.line + block.text.count("\n") + 1))
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if number not in inside:
            yield number, line
