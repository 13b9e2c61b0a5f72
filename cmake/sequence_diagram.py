"""Mermaid's sequence diagrams as SVG, for the site, which loads nothing from elsewhere.

Knows `participant A as text`, `box text` ... `end`, `A->>B: text`, `A-->>B: text` and `Note over A,B: text`.
"""

import re
from html import escape

WIDE, HIGH, TOP = 150, 34, 20  # of a participant, of a step, above all
CHARACTER = 6.6  # width of one, at 12 px
PARTICIPANT = re.compile(r"participant (\w+)(?: as (.*))?$")
ARROW = re.compile(r"(\w+)(--?)>>(\w+): *(.*)$")
NOTE = re.compile(r"Note over (\w+)(?:, *(\w+))?: *(.*)$")


class DiagramError(Exception):
    """A line that this does not know; the text has it."""


def read(text):
    """(participants: {id: name}, boxes: [(name, ids)], steps) of a diagram."""
    participants, boxes, steps, box = {}, [], [], None
    for line in map(str.strip, text.strip().splitlines()[1:]):
        if found := PARTICIPANT.match(line):
            participants[found[1]] = found[2] or found[1]
            if box is not None:
                box[1].append(found[1])
        elif found := ARROW.match(line):
            steps.append(("arrow", found[1], found[3], found[4], found[2] == "--"))
        elif found := NOTE.match(line):
            steps.append(("note", found[1], found[2] or found[1], found[3], False))
        elif line.startswith("box "):
            box = (line[len("box "):], [])
            boxes.append(box)
        elif line == "end":
            box = None
        elif line:
            raise DiagramError(f"a sequence diagram has an unknown line: {line}")
    for _, first, last, text, _ in steps:
        for name in (first, last):
            if name not in participants:
                raise DiagramError(f"a sequence diagram has no participant {name}: {text}")
    return participants, boxes, steps


def text_at(x, y, text, extra="", halo=False):
    at = f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle"'
    out = f'{at} fill="#222"{extra}>{escape(text)}</text>'
    if halo:  # lines that the text crosses stay behind it
        out = f'{at} fill="#fff" stroke="#fff" stroke-width="4" stroke-linejoin="round">{escape(text)}</text>' + out
    return out


def arrow(start, end, y, text, dashed):
    if start == end:
        end = start + 40
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    tip = 7 if end > start else -7
    return (f'<line x1="{start}" y1="{y}" x2="{end}" y2="{y}" stroke="#346" stroke-width="1.3"{dash}/>'
            f'<path d="M{end} {y}l{-tip} -4v8z" fill="#346"/>' + text_at((start + end) / 2, y - 6, text, halo=True))


def note(start, end, y, text):
    middle, width = (start + end) / 2, max(abs(end - start) + 60, len(text) * CHARACTER + 20)
    return (f'<rect x="{middle - width / 2:.0f}" y="{y - 18}" width="{width:.0f}" height="24" fill="#fff5cc" '
            f'stroke="#ca6"/>' + text_at(middle, y - 2, text))


def svg(text):
    """The picture of a diagram. Throws DiagramError."""
    participants, boxes, steps = read(text)
    place = {name: WIDE * i + WIDE // 2 for i, name in enumerate(participants)}
    # A text at the border may be wider than what it belongs to.
    margin = max([0] + [len(s[3]) * CHARACTER / 2 - min(place[s[1]], place[s[2]]) + 10 for s in steps
                        if min(place[s[1]], place[s[2]]) < WIDE])
    above = TOP + (26 if boxes else 0)
    width, height = WIDE * len(participants) + 2 * margin, above + 50 + HIGH * len(steps) + 20
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-margin:.0f} 0 {width:.0f} {height}" '
           f'width="{width:.0f}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect x="{-margin:.0f}" width="{width:.0f}" height="{height}" fill="#fff"/>']
    for name, members in boxes:
        left, right = place[members[0]] - WIDE // 2 + 4, place[members[-1]] + WIDE // 2 - 4
        out.append(f'<rect x="{left}" y="6" width="{right - left}" height="{height - 12}" fill="#eef3fa" stroke="#bcd"/>')
        out.append(text_at((left + right) / 2, 24, name, ' font-weight="bold"'))
    for name, x in place.items():
        out.append(f'<line x1="{x}" y1="{above + 30}" x2="{x}" y2="{height - 10}" stroke="#999"/>')
        out.append(f'<rect x="{x - WIDE // 2 + 12}" y="{above}" width="{WIDE - 24}" height="30" rx="4" fill="#dde7f5" '
                   f'stroke="#468"/>')
        out.append(text_at(x, above + 19, participants[name]))
    for number, (kind, first, last, words, dashed) in enumerate(steps):
        y = above + 60 + HIGH * number
        draw = arrow(place[first], place[last], y, words, dashed) if kind == "arrow" else \
            note(place[first], place[last], y, words)
        out.append(draw)
    return "\n".join(out + ["</svg>"]) + "\n"
