"""Measures torch.distributed.rpc over TensorPipe: one row, on the ranks that troupe-run starts.

    troupe-run -n 2 python3 torch_rpc.py --row identity --json FILE

Rank 0 calls, the others serve. Rank 0 writes FILE.
"""

import argparse
import json
import os
import threading
import time
import warnings
from collections import deque

warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed.autograd as autograd  # noqa: E402
import torch.distributed.rpc as rpc  # noqa: E402
from torch.distributed.optim import DistributedOptimizer  # noqa: E402

from timing import call_times, now, percentile, rate_of, times_of, write  # noqa: E402

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
SIZES = (4, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 64 << 20, 400_000_000)
PEER = "rank1"


def name_of(rank):
    return f"rank{rank}"


# What the other side runs.


def nothing():
    return None


def echo(tensor):
    return tensor


def add_200_times(tensor):
    for _ in range(200):
        tensor.add_(1)
    return tensor


def sleep_for(seconds):
    time.sleep(seconds)


def compute_for(seconds):
    matrix = torch.rand(256, 256)
    end = now() + seconds
    while now() < end:
        matrix = torch.mm(matrix, matrix).clamp_(0, 1)


def processor_seconds():
    return time.process_time()


class Counter:
    """An object to call, the nearest thing to an actor."""

    def __init__(self):
        self.value = 0

    def next(self):
        self.value += 1
        return self.value


def call_next(reference):
    return reference.local_value().next()


def keep_calling(seconds, outstanding):
    """Calls the next rank with so many calls under way; returns how many were answered."""
    target = name_of((RANK + 1) % RANKS)
    waiting = deque(rpc.rpc_async(target, nothing) for _ in range(outstanding))
    answered = 0
    end = now() + seconds
    while now() < end:
        waiting.popleft().wait()
        answered += 1
        waiting.append(rpc.rpc_async(target, nothing))
    for future in waiting:
        future.wait()
    return answered


# The rows.


def call_actor():
    counter = rpc.remote(PEER, Counter)
    return [times_of(call_times(lambda: rpc.rpc_sync(PEER, call_next, args=(counter,))))]


def call_function():
    return [times_of(call_times(lambda: rpc.rpc_sync(PEER, nothing)))]


def identity():
    measured = []
    for size in SIZES:
        tensor = torch.ones(size // 4)
        warm_up = 1 if size > 1 << 25 else None
        taken = call_times(lambda: rpc.rpc_sync(PEER, echo, args=(tensor,)), warm_up=warm_up)
        measured.append({"bytes": size, **times_of(taken)})
    return measured


def identity_cuda():
    measured = []
    for size in (4, 64 << 10, 1 << 20, 4 << 20, 64 << 20, 400_000_000):
        tensor = torch.ones(size // 4, device="cuda:0")

        def call():
            rpc.rpc_sync(PEER, echo, args=(tensor,))
            torch.cuda.synchronize()

        measured.append({"bytes": size, **times_of(call_times(call, least=5, warm_up=5))})
    return measured


def identity_first():
    call_times(lambda: rpc.rpc_sync(PEER, nothing), seconds=0.5)
    measured = []
    for size in (1 << 20, 4 << 20, 64 << 20, 400_000_000):
        tensor = torch.ones(size // 4)
        once = {"seconds": 0, "least": 1, "most": 1, "warm_up": 0}
        taken = call_times(lambda: rpc.rpc_sync(PEER, echo, args=(tensor,)), **once)
        measured.append({"bytes": size, **times_of(taken)})
    return measured


def ops200():
    measured = []
    for size, least in ((4_000_000, 3), (400_000_000, 1)):
        tensor = torch.zeros(size // 4)
        warm_up = 0 if size > 1 << 25 else 1
        call = lambda: rpc.rpc_sync(PEER, add_200_times, args=(tensor,))
        measured.append({"bytes": size, **times_of(call_times(call, least=least, warm_up=warm_up))})
    return measured


def grid_identity():
    measured = []
    for size in (4_000_000, 400_000_000):
        tensor = torch.zeros(size // 4)
        warm_up = 1 if size > 1 << 25 else 200
        taken = call_times(lambda: rpc.rpc_sync(PEER, echo, args=(tensor,)), warm_up=warm_up)
        measured.append({"bytes": size, **times_of(taken)})
    return measured


def grid_ops200():
    return ops200()


def calls_in_flight(outstanding=1000):
    def batch():
        for future in [rpc.rpc_async(PEER, nothing) for _ in range(outstanding)]:
            future.wait()

    return [rate_of([(outstanding, taken) for taken in call_times(batch, warm_up=1)])]


def calls_threads(threads=4, calls=250):
    def body():
        for _ in range(calls):
            rpc.rpc_sync(PEER, nothing)

    def batch():
        running = [threading.Thread(target=body) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    return [rate_of([(threads * calls, taken) for taken in call_times(batch, warm_up=1)])]


def long_handler(seconds=2.0):
    call_times(lambda: rpc.rpc_sync(PEER, nothing), seconds=0.5)
    busy = [rpc.rpc_async(PEER, work, args=(seconds,)) for work in (sleep_for, compute_for)]
    taken = []
    while not all(future.done() for future in busy):
        before = now()
        rpc.rpc_sync(PEER, nothing)
        taken.append(now() - before)
    return [{"unit": "us", "value": percentile(taken, 0.99) * 1e6}]


def idle_cpu(seconds=5.0):
    before, used = now(), rpc.rpc_sync(PEER, processor_seconds)
    time.sleep(seconds)
    used = rpc.rpc_sync(PEER, processor_seconds) - used
    return [{"unit": "share", "value": used / (now() - before)}]


def oversubscribed(seconds=3.0, outstanding=32):
    rpc.rpc_sync(PEER, keep_calling, args=(0.5, outstanding))
    counts = [
        rpc.rpc_async(name_of(rank), keep_calling, args=(seconds, outstanding))
        for rank in range(RANKS)
    ]
    return [rate_of([(sum(count.wait() for count in counts), seconds)])]


def one():
    return 1


def plus_one(value):
    return value + 1


def plus_one_of(reference):
    return reference.to_here() + 1


def rref_remote_to_here():
    return [times_of(call_times(lambda: rpc.remote(PEER, plus_one, args=(1,)).to_here()))]


def values_here():
    return int(torch._C._distributed_rpc._rref_context_get_debug_info()["num_owner_rrefs"])


def rref_churn(together=1000):
    def batch():
        references = [rpc.remote(PEER, one) for _ in range(together)]
        references[-1].to_here()
        references.clear()
        while rpc.rpc_sync(PEER, values_here) > 0:
            pass

    return [rate_of([(together, taken) for taken in call_times(batch, warm_up=1)])]


def rref_chain():
    def chain():
        last = rpc.remote(name_of(1), one)
        for rank in range(2, RANKS + 1):
            last = rpc.remote(name_of(rank % RANKS), plus_one_of, args=(last,))
        assert last.to_here() == RANKS

    return [times_of(call_times(chain))]


waiting = []
waiting_lock = threading.Lock()


@rpc.functions.async_execution
def wait_for_release(value):
    future = torch.futures.Future()
    with waiting_lock:
        waiting.append((future, value))
    return future


def waiting_here():
    return len(waiting)


def release_all():
    while waiting:
        future, value = waiting.pop()
        future.set_result(value)


def resident_bytes():
    with open("/proc/self/statm") as memory:
        return int(memory.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def coroutines_in_flight(calls=10_000):
    before = rpc.rpc_sync(PEER, resident_bytes)
    futures = [rpc.rpc_async(PEER, wait_for_release, args=(i,)) for i in range(calls)]
    while rpc.rpc_sync(PEER, waiting_here) != calls:
        pass
    used = rpc.rpc_sync(PEER, resident_bytes)
    rpc.rpc_sync(PEER, release_all)
    for future in futures:
        future.wait()
    return [{"unit": "bytes", "value": max(used - before, 0)}]


WEIGHT = torch.full((16, 16), 0.01, requires_grad=True)
BIAS = torch.full((1, 16), 0.01, requires_grad=True)


def linear_here(x):
    return torch.addmm(BIAS, x, WEIGHT)


def gradients_there(context):
    return len(autograd.get_gradients(context))


def autograd_context():
    x = torch.full((4, 16), 1.0)
    w = torch.full((16, 16), 0.01, requires_grad=True)

    def one():
        with autograd.context() as context:
            y = rpc.rpc_sync(PEER, linear_here, args=(torch.matmul(x, w),))
            autograd.backward(context, [y.sum()])
            assert len(autograd.get_gradients(context)) == 1
            assert rpc.rpc_sync(PEER, gradients_there, args=(context,)) == 2

    return [times_of(call_times(one))]


def autograd_chain():
    x = torch.full((4, 16), 1.0, requires_grad=True)

    def one():
        with autograd.context() as context:
            y = x
            for rank in range(1, RANKS + 1):
                y = rpc.rpc_sync(name_of(rank % RANKS), linear_here, args=(y,))
            autograd.backward(context, [y.sum()])
            assert x in autograd.get_gradients(context)

    return [times_of(call_times(one))]


def weight_here():
    return rpc.RRef(torch.full((16, 16), 0.01, requires_grad=True))


def product_here(x, weight):
    return torch.matmul(x, weight.local_value())


def sum_here(weight):
    return weight.local_value().sum().item()


def optimizer_step():
    mine, other = weight_here(), rpc.rpc_sync(PEER, weight_here)
    optimizer = DistributedOptimizer(torch.optim.SGD, [mine, other], lr=1e-6)
    with autograd.context() as context:
        y = product_here(torch.full((4, 16), 1.0), mine)
        autograd.backward(context, [rpc.rpc_sync(PEER, product_here, args=(y, other)).sum()])
        taken = call_times(lambda: optimizer.step(context))
    before = 16 * 16 * 0.01
    assert sum_here(mine) < before and rpc.rpc_sync(PEER, sum_here, args=(other,)) < before
    return [times_of(taken)]


MIB = 1 << 20


def take(tensor):
    return None


def stream(size, call, seconds=2.0):
    """As network_rows.cpp does it: MB a second in one direction."""
    outstanding = min(max(64 * MIB // size, 2), 16)
    calls = deque(call() for _ in range(outstanding))
    start, sent = now(), 0
    while sent < 2 or now() - start < seconds:
        calls.popleft().wait()
        calls.append(call())
        sent += 1
    taken = now() - start
    for future in calls:
        future.wait()
    return sent * size / 1e6 / taken


def streams(sizes, function):
    measured = []
    for size in sizes:
        tensor = torch.ones(size // 4)
        rate = stream(size, lambda: rpc.rpc_async(PEER, function, args=(tensor,)))
        measured.append({"bytes": size, "unit": "MB/s", "value": rate})
    return measured


def tcp_call():
    return call_function()


def tcp_stream():
    return streams((MIB, 16 * MIB, 256 * MIB, 1024 * MIB), take)


def tcp_both_ways():
    return streams((MIB, 16 * MIB, 256 * MIB), echo)


def tcp_mixed():
    call = lambda: rpc.rpc_sync(PEER, nothing)
    idle = percentile(call_times(call), 0.5)
    tensor = torch.ones(4 * MIB)
    send = lambda: rpc.rpc_async(PEER, take, args=(tensor,))
    large = threading.Thread(target=stream, args=(16 * MIB, send, 5.0))
    large.start()
    time.sleep(0.2)
    beside = call_times(call, seconds=4)
    large.join()
    return [{"unit": "medians", "value": percentile(beside, 0.99) / idle}]


ROWS = {
    row.__name__: row
    for row in (
        call_actor, call_function, identity, identity_cuda, identity_first, ops200, grid_identity,
        grid_ops200,
        calls_in_flight, calls_threads, long_handler, idle_cpu, oversubscribed,
        rref_remote_to_here, rref_churn, rref_chain, coroutines_in_flight,
        autograd_context, autograd_chain, optimizer_step,
        tcp_call, tcp_stream, tcp_both_ways, tcp_mixed,
    )
}  # fmt: skip
ROWS["identity_lent"] = identity
for name in ("tcp_stream", "tcp_both_ways"):
    for rate in ("1g", "10g"):
        ROWS[f"{name}_{rate}"] = ROWS[name]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", choices=ROWS, required=True)
    parser.add_argument("--json", required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    # Between network namespaces of one machine it would share memory.
    network = {"_transports": ["uv"], "_channels": ["basic"]} if "BENCH_SERVER" in os.environ else {}
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=600, **network)
    if asked.row.endswith("_cuda"):
        if not torch.cuda.is_available():
            with open(asked.json, "w") as file:
                json.dump([{"row": asked.row, "not_here": "torch finds no GPU here"}], file)
            return
        if RANK == 0:
            options.set_device_map(PEER, {"cuda:0": "cuda:0"})
    rpc.init_rpc(name_of(RANK), rank=RANK, world_size=RANKS, rpc_backend_options=options)
    if RANK == 0:
        write(asked.json, asked.row, RANKS, ROWS[asked.row]())
    rpc.shutdown()


if __name__ == "__main__":
    main()
