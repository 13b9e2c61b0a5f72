"""What the peers' scripts share: timing loops and the form of their output."""

import json
import statistics
import time

now = time.perf_counter


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def call_times(call, seconds=2.0, least=3, most=20_000, warm_up=None):
    """Seconds of each call, for about `seconds`."""
    started = now()
    for _ in range(warm_up if warm_up is not None else 200):
        call()
        if now() - started > seconds / 4:
            break
    taken = []
    started = now()
    while len(taken) < least or (len(taken) < most and now() - started < seconds):
        before = now()
        call()
        taken.append(now() - before)
    return taken


def times_of(taken):
    """Median and 99th percentile in microseconds."""
    return {
        "unit": "us",
        "value": statistics.median(taken) * 1e6,
        "p99": percentile(taken, 0.99) * 1e6,
    }


def rate_of(counts_and_seconds, unit="calls/s"):
    """Median of batches, each a number of calls and the seconds they took."""
    return {
        "unit": unit,
        "value": statistics.median(count / taken for count, taken in counts_and_seconds),
    }


def write(path, row, ranks, measurements):
    """`measurements`: objects with unit and value, and perhaps bytes and p99."""
    document = [{"row": row, "bytes": None, "ranks": ranks, **each} for each in measurements]
    with open(path, "w") as file:
        json.dump(document, file, indent=1)
