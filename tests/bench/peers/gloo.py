"""Measures torch.distributed's collectives over gloo, on the ranks that troupe-run starts.

    troupe-run -n 2 python3 gloo.py --row all_reduce,barrier --json FILE

All ranks measure; rank 0 writes FILE.
"""

import argparse
import json
import os
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import collective_plan as plan  # noqa: E402
from timing import now, times_of  # noqa: E402

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def exercise(what, size):
    """What is written between two operations, the operation, and whether its result is right."""
    elements = size // 4
    part = max(1, elements // RANKS)
    new = lambda count: torch.zeros(count)
    if what == "barrier":
        return lambda: None, dist.barrier, lambda: True
    if what in ("all_reduce", "all_reduce_async"):
        x = new(elements)
        run = {
            "all_reduce": lambda: dist.all_reduce(x),
            "all_reduce_async": lambda: dist.all_reduce(x, async_op=True).wait(),
        }[what]
        return lambda: x.fill_(1), run, lambda: x[-1] == RANKS
    if what in ("broadcast", "broadcast_rewrite"):
        x = new(elements)

        def run():
            dist.broadcast(x, 0)
            if what == "broadcast_rewrite":
                x.fill_(0)

        return lambda: x.fill_(RANK), run, lambda: x[-1] == 0
    if what == "all_gather":
        x, all_of_them = new(elements), new(elements * RANKS)
        run = lambda: dist.all_gather_into_tensor(all_of_them, x)
        return lambda: x.fill_(RANK), run, lambda: all_of_them[-1] == RANKS - 1
    if what == "all_gather_list":
        x, each = new(elements), [new(elements) for _ in range(RANKS)]
        run = lambda: dist.all_gather(each, x)
        return lambda: x.fill_(RANK), run, lambda: each[-1][-1] == RANKS - 1
    x = new(part * RANKS)
    if what == "reduce_scatter":
        mine = new(part)
        run = lambda: dist.reduce_scatter_tensor(mine, x)
        return lambda: x.fill_(1), run, lambda: mine[-1] == RANKS
    parts = new(part * RANKS)
    run = lambda: dist.all_to_all_single(parts, x)
    return lambda: x.fill_(RANK), run, lambda: parts[-1] == RANKS - 1


def times_of_slowest(write, run, is_right, warm_up, times):
    taken = torch.empty(times, dtype=torch.float64)
    for i in range(-warm_up, times):
        write()
        dist.barrier()
        dist.barrier()
        before = now()
        run()
        if i >= 0:
            taken[i] = now() - before
    assert is_right(), "a result is wrong"
    dist.all_reduce(taken, op=dist.ReduceOp.MAX)
    return taken.tolist()


def measure(what, size):
    case = exercise(what, size)
    probe = times_of_slowest(*case, *plan.PROBE)
    warm_up, times = plan.effort_of(min(probe))
    return times_of(times_of_slowest(*case, warm_up, min(times, 3 if min(probe) > 0.01 else times)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--row", required=True)
    parser.add_argument("--json", required=True)
    asked = parser.parse_args()
    rows = asked.row.split(",")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    measured = {}
    for what in dict.fromkeys(map(plan.timed_operation, rows)):
        for size in (0,) if what == "barrier" else plan.SIZES:
            if any(
                plan.timed_operation(row) == what and (not size or plan.is_timed(row, size))
                for row in rows
            ):
                measured[what, size] = measure(what, size)
    if RANK == 0:
        with open(asked.json, "w") as file:
            json.dump(plan.document(rows, RANKS, measured), file, indent=1)
    dist.barrier()
    dist.destroy_process_group()


main()
