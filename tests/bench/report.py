"""Puts ours and the peers' measurements side by side, and writes them down."""

import json
import os
import platform
import time


def higher_is_better(unit):
    return unit.endswith("/s") or unit == "times"


def converted(value, unit, to):
    """`value` in `to`: a time per call and calls a second mean the same."""
    if value is None or unit == to:
        return value
    if {unit == "us", to == "us"} == {True, False} and (unit.endswith("/s") or to.endswith("/s")):
        return 1e6 / value
    raise ValueError(f"cannot compare {unit} with {to}")


def ratio(ours, peer, unit):
    """How many times better ours is."""
    if not ours or not peer:
        return None
    return ours / peer if higher_is_better(unit) else peer / ours


def line_of(row, key, ours, peer_name, peer, note):
    size, ranks = key
    unit = (ours or peer).unit
    value = ours.value if ours else None
    peer_value = converted(peer.value, peer.unit, unit) if peer else None
    return {
        "row": row.name, "bytes": size, "ranks": ranks, "unit": unit,
        "ours": value, "peer": peer_name, "peer_value": peer_value,
        "ratio": ratio(value, peer_value, unit),
        "spread": ours.spread if ours else None,
        "p99": ours.p99 if ours else None,
        "peer_spread": peer.spread if peer else None,
        "note": note,
    }  # fmt: skip


def empty_line(row, peer_name, note):
    names = (
        "bytes",
        "ranks",
        "unit",
        "ours",
        "peer_value",
        "ratio",
        "spread",
        "p99",
        "peer_spread",
    )
    return {"row": row.name, "peer": peer_name, **dict.fromkeys(names), "note": note}


def row_lines(row, ours_name, results, missing):
    ours = results.of(row, ours_name)
    for peer_name in row.peers or (None,):
        peer = results.of(row, peer_name)
        failures = [
            f"{program}: {reason}"
            for (name, program, _), reason in (results.failures | results.not_here).items()
            if name == row.name and program in (ours_name, peer_name)
        ]
        if peer_name in missing:
            failures.append(f"{peer_name}: {missing[peer_name]}")
        note = "; ".join(dict.fromkeys(failures))
        keys = sorted(ours.keys() | peer.keys(), key=lambda key: (key[1], key[0] or 0))
        if not keys:
            yield empty_line(row, peer_name, note)
        for key in keys:
            yield line_of(row, key, ours.get(key), peer_name, peer.get(key), note)


def add_targets(lines, chosen):
    for row in chosen:
        for line in lines:
            wanted = [
                each for each in row.targets if line["row"] == row.name and each.applies_to(line)
            ]
            if not wanted:
                continue
            answers = [each.reached(line, lines) for each in wanted]
            line["target"] = ", ".join(each.text for each in wanted)
            line["met"] = None if None in answers else all(answers)
    for line in lines:
        line.setdefault("target", "")
        line.setdefault("met", None)


def make_lines(chosen, results, ours, missing):
    lines = [
        line for row in chosen for line in row_lines(row, ours[row.program].name, results, missing)
    ]
    add_targets(lines, chosen)
    return lines


def size_text(size):
    if size is None:
        return ""
    for unit, factor in (("MiB", 1 << 20), ("MB", 1_000_000), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def number_text(value):
    if value is None:
        return ""
    if value != 0 and abs(value) < 0.01:
        return f"{value:.2g}"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    return f"{value:,.{digits}f}"


def met_text(line):
    if not line["target"]:
        return ""
    return {True: "met", False: "**missed**", None: "not measured"}[line["met"]]


def processor():
    try:
        with open("/proc/cpuinfo") as file:
            return next(
                line.split(":", 1)[1].strip() for line in file if line.startswith("model name")
            )
    except (OSError, StopIteration):
        return platform.machine()


def conditions(repeats, load):
    return (
        f"{time.strftime('%Y-%m-%d %H:%M')}, {len(os.sched_getaffinity(0))} cores ({processor()}), "
        f"Linux {platform.release()}, load {load:.1f} at the start, "
        f"{repeats} repeats (of some rows more), interleaved. "
        "Values are medians over the repeats; spread is the largest over the smallest of them."
    )


def markdown(lines, chosen, repeats, load, plotted):
    columns = (
        "row",
        "bytes",
        "ranks",
        "unit",
        "ours",
        "99 %",
        "peer",
        "peer's",
        "times better",
        "spread",
        "target",
        "",
    )
    text = ["# Benchmark", "", conditions(repeats, load), ""]
    text += ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    for line in lines:
        cells = (
            line["row"],
            size_text(line["bytes"]),
            number_or_empty(line["ranks"]),
            line["unit"] or "",
            number_text(line["ours"]),
            number_text(line["p99"]),
            line["peer"] or "",
            number_text(line["peer_value"]),
            number_text(line["ratio"]),
            number_text(line["spread"]),
            line["target"],
            met_text(line),
        )
        text.append("| " + " | ".join(cells) + " |")
    text += grid(lines, chosen)
    notes = dict.fromkeys(line["note"] for line in lines if line["note"])
    if notes:
        text += ["", "Not measured:", "", *(f"- {note}" for note in notes)]
    text += ["", *(f"- `{row.name}`: {row.what}" for row in chosen)]
    if plotted:
        text += ["", f"![How many times better than the peer]({plotted})"]
    return "\n".join(text) + "\n"


def grid(lines, chosen):
    """Tables with all programs side by side: a line for each function, bytes and ranks of the rows
    that are a grid, a table for all rows with the same peers."""
    text = []
    for peers in dict.fromkeys(row.peers for row in chosen if row.grid):
        text += one_grid(lines, [row for row in chosen if row.grid and row.peers == peers], peers)
    return text


def one_grid(lines, chosen, peers):
    rows = {row.name: row for row in chosen}
    cells = {}
    for line in lines:
        row = rows.get(line["row"])
        if row is None or (line["bytes"] is None and not row.suite) or line["ranks"] is None:
            continue
        function = f"{row.grid}, {line['ranks']} ranks" if row.suite else row.grid
        at = cells.setdefault((function, line["bytes"]), {})
        at["troupe"] = (line["ours"], line["spread"])
        at[line["peer"]] = (line["peer_value"], line["peer_spread"])
    if not cells:
        return []
    heads = [head for name in ("troupe", *peers) for head in (f"{name}, us", "spread")]
    text = ["", "| function | bytes | " + " | ".join(heads) + " |"]
    text.append("|" + " --- |" * (2 + len(heads)))
    for (function, size), measured in cells.items():
        numbers = [
            number_text(number)
            for name in ("troupe", *peers)
            for number in measured.get(name, (None, None))
        ]
        text.append("| " + " | ".join((function, size_text(size), *numbers)) + " |")
    return text


def number_or_empty(value):
    return "" if value is None else str(value)


def write(folder, lines, chosen, repeats, load, plotted):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(lines, indent=1) + "\n")
    text = markdown(lines, chosen, repeats, load, plotted)
    (folder / "report.md").write_text(text)
    return text
