"""Draws how many times better ours is than the peers, on a logarithmic scale, as SVG."""

import math
from xml.sax.saxutils import escape

from report import size_text

BAR, GAP, LEFT, WIDTH, TOP = 16, 6, 300, 560, 30
COLOURS = {True: "#2a7f4f", False: "#c0392b", None: "#5b7aa5"}


def label(line):
    parts = [
        line["row"],
        size_text(line["bytes"]),
        f"{line['ranks']} ranks" if line["ranks"] != 2 else "",
    ]
    return " ".join(part for part in parts if part) + f" / {line['peer']}"


def draw(lines):
    """The picture as text; None when there is nothing to compare."""
    shown = [line for line in lines if line["ratio"]]
    if not shown:
        return None
    exponents = [math.log10(line["ratio"]) for line in shown]
    low, high = min(0, math.floor(min(exponents))), max(1, math.ceil(max(exponents)))
    place = lambda exponent: LEFT + WIDTH * (exponent - low) / (high - low)
    height = TOP + len(shown) * (BAR + GAP) + 10
    picture = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 80}" height="{height}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
    ]
    for exponent in range(low, high + 1):
        x = place(exponent)
        picture.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height - 8}" stroke="#ccc"/>'
        )
        picture.append(
            f'<text x="{x:.1f}" y="{TOP - 12}" text-anchor="middle">{10.0**exponent:g}x</text>'
        )
    for index, (line, exponent) in enumerate(zip(shown, exponents)):
        y = TOP + index * (BAR + GAP)
        start, end = sorted((place(0), place(exponent)))
        picture.append(
            f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(label(line))}</text>'
        )
        picture.append(
            f'<rect x="{start:.1f}" y="{y}" width="{max(1, end - start):.1f}" height="{BAR}" '
            f'fill="{COLOURS[line["met"]]}"/>'
        )
        picture.append(f'<text x="{end + 4:.1f}" y="{y + 12}">{line["ratio"]:.3g}</text>')
    return "\n".join([*picture, "</svg>", ""])
