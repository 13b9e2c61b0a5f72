"""How collectives are timed: what tests/bench/collective_plan.hpp says, for the peers' scripts."""

import re

SIZES = (4, 1 << 10, 64 << 10, 1 << 20, 4 << 20, 64 << 20)
PROBE = (1, 2)


def effort_of(seconds):
    """How often an operation that takes so long is done first, and then timed."""
    times = int(min(max(0.03 / max(seconds, 1e-9), 5), 3000))
    return 0 if seconds > 1e-3 else 3, times


def timed_operation(row):
    """The name of what a row times, which several rows may share."""
    return re.sub("^tcp_|(_two_a_host)?(_10?g)?$|_(staged|oversubscribed)$", "", row)


def is_timed(row, size):
    if row == "all_reduce_async":
        return size == 4
    if row == "broadcast_rewrite" or row.endswith("_staged"):
        return size >= 64 << 10
    if row.endswith("_oversubscribed"):
        return size in (4, 64 << 10, 4 << 20)
    return True


def document(rows, ranks, measured):
    """The measurements of `rows`: `measured` has those of operations, by name and bytes."""
    return [
        {"row": row, "bytes": size or None, "ranks": ranks, "unit": "us", **measured[what, size]}
        for row in rows
        for what, size in measured
        if what == timed_operation(row) and (what == "barrier" or is_timed(row, size))
    ]
