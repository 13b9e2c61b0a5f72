"""The rows of the benchmark: what each runs, against whom, and what it must reach.

A row is one entry of ROWS. Each of its programs writes a JSON array of measurements, objects with
`row`, `bytes`, `ranks`, `unit`, `value` (a median) and perhaps `p99`; see docs/benchmarks.md.
"""

from dataclasses import dataclass, replace
from typing import Callable, Optional, Tuple

TORCH = "torch.distributed.rpc"
UCX = "ucx_perftest"
GRPC = "gRPC"
IPERF = "iperf3"
SOCKET = "a bare socket"
PLAIN = "Troupe, not protected"
ENCRYPTED = "Troupe, encrypted"
MALLOC = "libtorch's allocator"
JEMALLOC = "jemalloc"
MIMALLOC = "mimalloc"
GLOO = "gloo"
OPEN_MPI = "Open MPI"
MPICH = "MPICH"
INTEL_MPI = "Intel MPI"
BARE = "a bare program"
MPIS = (OPEN_MPI, MPICH, INTEL_MPI)

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Target:
    """Something that a line of the report must reach."""

    text: str
    reached: Callable[[dict, list], Optional[bool]]  # of a line and all lines; None: unknown
    bytes: Optional[int] = None  # None: every line of the row
    ranks: Optional[int] = None
    peer: Optional[str] = None

    def applies_to(self, line):
        wanted = {"bytes": self.bytes, "ranks": self.ranks, "peer": self.peer}
        return all(value is None or line[key] == value for key, value in wanted.items())


def times(factor, bytes=None, peer=TORCH, ranks=None):
    """Ours is at least `factor` times better than the peer."""
    text = f"{factor:g} times" if factor >= 1 else f"within {1 / factor:.3g} times"
    reached = lambda line, _: None if line["ratio"] is None else line["ratio"] >= factor
    return Target(text, reached, bytes=bytes, peer=peer, ranks=ranks)


def at_least(value, text):
    reached = lambda line, _: None if line["ours"] is None else line["ours"] >= value
    return Target(text, reached)


def at_most(value, text, bytes=None):
    reached = lambda line, _: None if line["ours"] is None else line["ours"] <= value
    return Target(text, reached, bytes=bytes)


def near_the_limit(us, bytes=None, ranks=2):
    """At most so many microseconds, or 1.5 times the bare program if that is more."""

    def reached(line, _):
        if line["ours"] is None:
            return None
        bare = line["peer_value"]
        return line["ours"] <= max(us, 1.5 * bare) if bare else line["ours"] <= us

    text = f"{us:,g} us or 1.5 times the bare program"
    return Target(text, reached, bytes=bytes, ranks=ranks, peer=BARE)


def no_slower_than_mpi(*sizes, ranks):
    return tuple(
        times(1, bytes=size, peer=peer, ranks=ranks) for size in sizes for peer in MPIS
    )


RATES = {"1gbit": 125.0, "10gbit": 1250.0}  # bytes a microsecond


def ring_bound(bytes, ranks, wire):
    """Microseconds that a ring's all_reduce takes at least: each host sends so much."""
    return 2 * bytes * (ranks - 1) / ranks / RATES[wire]


def near_the_ring_bound(share, bytes, ranks, wire):
    bound = ring_bound(bytes, ranks, wire)
    reached = lambda line, _: None if line["ours"] is None else line["ours"] <= bound / share
    text = f"{share:.0%} of the ring bound, {bound:,.0f} us"
    return Target(text, reached, bytes=bytes, ranks=ranks)


def no_slower_than(row, factor, ranks):
    """A time of ours is at most `factor` times that of another row with so many ranks, which sends as
    many bytes."""

    def reached(line, lines):
        base = [
            other["ours"]
            for other in lines
            if (other["row"], other["bytes"], other["ranks"]) == (row, line["bytes"], ranks)
        ]
        if line["ours"] is None or not base or base[0] is None:
            return None
        return line["ours"] <= factor * base[0]

    return Target(f"{factor:g} times {row} of {ranks}", reached, bytes=64 * MIB)


def at_most_linear(ranks, of_ranks):
    """With `ranks` ranks, a time of ours is at most so many times larger than with `of_ranks`."""

    def reached(line, lines):
        base = [
            other["ours"]
            for other in lines
            if (other["row"], other["bytes"], other["ranks"])
            == (line["row"], line["bytes"], of_ranks)
        ]
        if line["ours"] is None or not base or base[0] is None:
            return None
        return line["ours"] <= base[0] * ranks / of_ranks

    return Target(f"{ranks / of_ranks:g} times {of_ranks} ranks", reached, ranks=ranks)


def at_most_of(row, share, bytes):
    """Ours is at most `share` of what another row takes for the same bytes and ranks."""

    def reached(line, lines):
        base = [
            other["ours"]
            for other in lines
            if (other["row"], other["bytes"], other["ranks"]) == (row, bytes, line["ranks"])
        ]
        if line["ours"] is None or not base or base[0] is None:
            return None
        return line["ours"] <= share * base[0]

    return Target(f"{share:.0%} of {row}", reached, bytes=bytes)


def share_of(ranks, share, of_ranks):
    """With `ranks` ranks, ours reaches `share` of what it reaches with `of_ranks`."""

    def reached(line, lines):
        base = [
            other["ours"]
            for other in lines
            if other["row"] == line["row"] and other["ranks"] == of_ranks
        ]
        if line["ours"] is None or not base or base[0] is None:
            return None
        return line["ours"] >= share * base[0]

    return Target(f"{share:.0%} of {of_ranks} ranks", reached, ranks=ranks)


@dataclass(frozen=True)
class Row:
    name: str
    what: str
    peers: Tuple[str, ...] = (TORCH,)
    ranks: Tuple[int, ...] = (2,)
    targets: Tuple[Target, ...] = ()
    seconds: float = 8.0  # a guess of one program's run, until it has been measured
    program: str = "bench"  # a key of programs.OURS
    touches: int = 0  # bytes of the machine's memory to touch before each program
    repeats: int = 1  # at least
    by_name: bool = False  # measured only where it is named
    grid: str = ""  # what it does, in the table that has all programs side by side
    lends: bool = False  # with TROUPE_LEND_TENSORS
    suite: str = ""  # rows of one suite are measured in the same run of each program
    wire: str = ""  # between hosts: the rate of the link, "any" for as fast as it goes
    per_host: int = 0  # ranks on each of as many hosts as that makes; 0: rank 1 on another host


COLLECTIVES = "collectives"
ALL_PEERS = (BARE, GLOO, *MPIS)
LARGE = (64 * KIB, MIB, 4 * MIB, 64 * MIB)


def collective(name, what, *targets, peers=ALL_PEERS, ranks=(2, 4)):
    how = {"seconds": 12, "suite": COLLECTIVES, "grid": name}
    return Row(name, what, peers=peers, ranks=ranks, targets=targets, **how)


def staged(name):
    """Tensors lie where other ranks cannot reach them."""
    what = f"`{name}` of tensors in the program's own memory"
    return collective(
        f"{name}_staged", what, *no_slower_than_mpi(64 * KIB, 4 * MIB, 64 * MIB, ranks=2)
    )


COLLECTIVE_ROWS = (
    collective(
        "barrier",
        "no rank goes on before all are there",
        near_the_limit(0.4),
        near_the_limit(5, ranks=4),
        times(500, peer=GLOO, ranks=2),
    ),
    collective(
        "all_reduce",
        "sum of float32 over the ranks, in place",
        *(
            near_the_limit(us, bytes=size)
            for size, us in (
                (4, 0.4), (KIB, 0.7), (64 * KIB, 2.5), (MIB, 30), (4 * MIB, 105), (64 * MIB, 7000)
            )
        ),
        near_the_limit(5, bytes=4, ranks=4),
        near_the_limit(16_000, bytes=64 * MIB, ranks=4),
        times(500, bytes=4, peer=GLOO, ranks=2),
        *no_slower_than_mpi(KIB, *LARGE[:3], ranks=4),
    ),
    collective(
        "broadcast",
        "rank 0's tensor to all",
        near_the_limit(0.4, bytes=4),
        near_the_limit(75, bytes=4 * MIB),
        near_the_limit(4500, bytes=64 * MIB),
        times(500, bytes=4, peer=GLOO, ranks=2),
        *no_slower_than_mpi(*LARGE, ranks=4),
    ),
    collective(
        "all_gather",
        "the tensors of all ranks into one on each (bytes: of an input)",
        near_the_limit(400, bytes=4 * MIB),
        near_the_limit(14_000, bytes=64 * MIB),
        *no_slower_than_mpi(*LARGE, ranks=4),
    ),
    collective(
        "all_gather_list",
        "the same into a list of tensors",
        *(near_the_limit(1, bytes=size) for size in (4, KIB)),
        *no_slower_than_mpi(*LARGE, ranks=2),
    ),
    *(
        collective(
            f"{name}_lent",
            f"`{name}` into tensors that become aliases of what is lent",
            *(at_most(1, "1 us", bytes=size) for size in LARGE),
            peers=(),
            ranks=(2,),
        )
        for name in ("broadcast", "all_gather_list")
    ),
    collective(
        "all_reduce_shared",
        "`all_reduce` of which all outputs become aliases of one result",
        *(at_most_of("all_reduce", 0.75, bytes=size) for size in (MIB, 4 * MIB, 64 * MIB)),
        peers=(),
        ranks=(2,),
    ),
    collective(
        "all_gather_shared",
        "`all_gather` of which all outputs become aliases of one result",
        at_most(140, "140 us", bytes=4 * MIB),
        at_most(9000, "9 ms", bytes=64 * MIB),
        peers=(),
        ranks=(2,),
    ),
    collective(
        "reduce_scatter",
        "the n-th parts of all inputs, summed, to rank n (bytes: of an input)",
        near_the_limit(105, bytes=4 * MIB),
        near_the_limit(7000, bytes=64 * MIB),
        *no_slower_than_mpi(4, KIB, *LARGE, ranks=4),
    ),
    collective(
        "all_to_all",
        "a part of each input to each rank (bytes: of an input)",
        near_the_limit(140, bytes=4 * MIB),
        near_the_limit(7000, bytes=64 * MIB),
        *no_slower_than_mpi(4, KIB, *LARGE, ranks=4),
    ),
    *map(staged, ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all")),
    collective(
        "broadcast_rewrite", "a broadcast, and that all ranks write their tensor once more"
    ),
    collective(
        "all_reduce_async",
        "a sum of 4 B by a work handle, which is waited for",
        replace(at_most(3, "3 us"), ranks=2),
        peers=(GLOO, *MPIS),
    ),
    *(
        collective(
            f"{name}_oversubscribed",
            f"`{name}` of more ranks than there are cores",
            at_most_linear(8, 4),
            at_most_linear(16, 4),
            *(times(1, peer=OPEN_MPI, ranks=ranks) for ranks in (8, 16)),
            peers=(BARE, OPEN_MPI),
            ranks=(4, 8, 16),
        )
        for name in ("barrier", "all_reduce")
    ),
    Row(
        "dead_rank",
        "time from kill -9 of one of four ranks inside a collective until the last has its error",
        peers=(),
        targets=(at_most(100_000, "100 ms"),),
    ),
)

def between_hosts():
    """Collectives over links of several speeds; of each speed all are measured in one run."""
    whats = {
        "all_reduce": "sum of float32",
        "all_gather": "the tensors of all ranks into one on each (bytes: of an input)",
        "broadcast": "rank 0's tensor to all",
        "all_to_all": "a part of each input to each rank (bytes: of an input)",
    }
    rates = (("", "as fast as the link goes", "any"), ("_1g", "1 Gbit/s", "1gbit"),
             ("_10g", "10 Gbit/s", "10gbit"))  # fmt: skip
    for suffix, speed, wire in rates:
        for name, what in whats.items():
            targets = [times(1, peer=peer) for peer in (GLOO, OPEN_MPI)]
            if name == "all_reduce":
                targets.append(times(3, bytes=4, ranks=4, peer=GLOO))
                if wire in RATES:
                    targets.append(near_the_ring_bound(0.9, 64 * MIB, 4, wire))
            how = {"seconds": 60, "by_name": True, "wire": wire}
            # Gloo and Open MPI do not protect what they send. iperf3 tells what the link can do.
            limit = (IPERF,) if name == "all_reduce" else ()
            yield Row(
                f"tcp_{name}{suffix}", f"{what}, a rank a host, {speed}", ranks=(2, 4),
                peers=(GLOO, OPEN_MPI, PLAIN, *limit),
                targets=tuple(targets), suite=f"tcp_collectives{suffix}", per_host=1,
                grid=f"{name}, {speed}", **how,
            )  # fmt: skip
            # Two hosts with two ranks each send what two hosts with a rank each do.
            hosts = f"tcp_{name}_two_a_host{suffix}"
            same_bytes = no_slower_than(f"tcp_{name}{suffix}", 1.1, 2)
            yield Row(
                hosts, f"{what}, two ranks a host, {speed}", ranks=(4,), peers=(GLOO, OPEN_MPI),
                targets=(same_bytes,) if name in ("all_reduce", "broadcast") else (),
                suite=f"tcp_collectives_two_a_host{suffix}", per_host=2,
                grid=f"{name}, two a host, {speed}", **how,
            )  # fmt: skip


ROWS = (
    Row(
        "call_actor",
        "round trip of a typed actor's message without a tensor",
        peers=(TORCH, UCX),
        targets=(times(60), times(1 / 8, peer=UCX)),
    ),
    Row(
        "call_function",
        "round trip of rpc_sync of an ordinary function, without a tensor",
        peers=(TORCH, UCX),
        targets=(times(60), times(1 / 10, peer=UCX)),
    ),
    Row(
        "identity",
        "round trip of a tensor through a function that returns it",
        targets=(
            times(60, bytes=4),
            times(40, bytes=4 * KIB),
            times(20, bytes=64 * KIB),
            times(4, bytes=MIB),
            times(2.3, bytes=4 * MIB),
            times(2, bytes=64 * MIB),
            times(1.8, bytes=400_000_000),
        ),
        seconds=30,
    ),
    Row(
        "identity_cuda",
        "round trip of a tensor on a GPU, which both processes use, until it is there",
        seconds=20,
        by_name=True,
    ),
    Row("identity_first", "the first such round trip of each size", seconds=5, touches=4 * GIB),
    Row("ops200", "200 in-place additions to a tensor over there, and back", seconds=90),
    Row(
        "identity_lent",
        "round trip of a tensor, lent and not copied",
        targets=tuple(
            at_most(4.5, "4.5 us", bytes=size)
            for size in (64 * KIB, MIB, 4 * MIB, 64 * MIB, 400_000_000)
        ),
        seconds=30,
        lends=True,
        by_name=True,
    ),
    Row(
        "identity_write_once",
        "the same, written to once over there, over one copy in warm memory and that write",
        peers=(),
        targets=(at_most(1.2, "1.2 times"),),
        seconds=10,
        lends=True,
        by_name=True,
    ),
    Row(
        "identity_foreign",
        "a tensor of the program's own memory there and back, over one copy of it",
        peers=(),
        targets=(at_most(1.2, "1.2 times"),),
        lends=True,
        by_name=True,
    ),
    Row(
        "rewrite_between_calls",
        "copies that writes to 64 MiB forced, each after a call that has read them",
        peers=(),
        targets=(at_most(0, "none"),),
        lends=True,
        by_name=True,
    ),
    Row(
        "replay_append",
        "bytes that writes to a buffer of 4 GiB copied, over those of its rows that were sent",
        peers=(),
        targets=(at_most(0, "none"),),
        seconds=10,
        lends=True,
        by_name=True,
    ),
    Row(
        "ops200_lent",
        "200 in-place additions to a tensor over there, and back, over the same here",
        peers=(),
        targets=(at_most(1.05, "1.05 times"),),
        seconds=30,
        lends=True,
        by_name=True,
    ),
    Row(
        "identity_handed",
        "round trip of a tensor that is moved there and moved back",
        peers=(),
        targets=tuple(
            at_most(4.5, "4.5 us", bytes=size)
            for size in (64 * KIB, MIB, 4 * MIB, 64 * MIB, 400_000_000)
        ),
        seconds=10,
        by_name=True,
    ),
    Row(
        "ops200_handed",
        "the 200 additions to a tensor that is moved there and back, over the same here",
        peers=(),
        targets=(at_most(1.05, "1.05 times"),),
        seconds=30,
        by_name=True,
    ),
    Row(
        "allocator",
        "a block for a tensor taken, written and freed, on 1 and 4 threads at once",
        peers=(MALLOC, JEMALLOC, MIMALLOC),
        ranks=(1, 4),
        targets=(
            times(1, peer=MALLOC),
            *(times(1.5, bytes=size, peer=MALLOC) for size in (4 * MIB, 32 * MIB)),
            *(times(10, bytes=size, peer=MALLOC) for size in (64 * MIB, 400_000_000)),
        ),
        seconds=12,
        program="memory",
        by_name=True,
    ),
    Row(
        "temporaries",
        "(a + b) * c of 4 and 16 million floats",
        peers=(MALLOC, JEMALLOC, MIMALLOC),
        ranks=(1,),
        targets=(
            times(1.5, bytes=16_000_000, peer=MALLOC),
            times(5, bytes=64_000_000, peer=MALLOC),
        ),
        program="memory",
        by_name=True,
    ),
    *(
        Row(
            f"arena_memory_{program}",
            f"most memory that {what} needs for its tensors, its allocations recorded and repeated",
            peers=(MALLOC, JEMALLOC, MIMALLOC),
            ranks=(1,),
            targets=(times(1 / 1.25, peer=MALLOC),),
            seconds=seconds,
            program="memory",
            by_name=True,
        )
        for program, what, seconds in (
            ("transformer", "training on sequences of varying lengths", 15),
            ("cartpole", "playing CartPole", 4),
        )
    ),
    Row(
        "grid_identity",
        "a tensor of 4 and 400 MB there and back, against gRPC as well, ten repeats",
        peers=(TORCH, GRPC),
        targets=(times(1, peer=TORCH), times(1, peer=GRPC)),
        seconds=20,
        repeats=10,
        by_name=True,
        grid="identity",
    ),
    Row(
        "grid_ops200",
        "the same with 200 in-place additions over there, ten repeats",
        peers=(TORCH, GRPC),
        targets=(times(1, peer=TORCH), times(1, peer=GRPC)),
        seconds=90,
        repeats=10,
        by_name=True,
        grid="200 additions",
    ),
    Row(
        "calls_in_flight",
        "small calls a second, 1,000 outstanding",
        targets=(at_least(400_000, "400,000/s"), times(70)),
    ),
    Row("calls_threads", "small calls a second from 4 threads, each waiting for its own"),
    Row(
        "perftest_am",
        "a call with 1 MiB to 400 MB, some under way, against UCX's own on the same lanes",
        peers=(UCX,),
        targets=(times(1 / 1.2, peer=UCX),),
        seconds=12,
    ),
    Row(
        "perftest_am_lent",
        "the same with tensors that are lent and not copied",
        peers=(UCX,),
        targets=(times(1 / 1.2, peer=UCX),),
        seconds=12,
        lends=True,
        by_name=True,
    ),
    Row(
        "long_handler",
        "99th percentile of small calls while two handlers there compute and sleep for seconds",
        targets=(at_most(300, "300 us"),),
    ),
    Row(
        "cartpole_steps",
        "environment steps a second, one agent and one observer",
        targets=(times(20),),
        seconds=20,
        program="cartpole",
    ),
    Row(
        "idle_cpu",
        "share of a core that an idle node takes",
        targets=(at_most(0.01, "1 % of a core"),),
        seconds=12,
    ),
    Row(
        "oversubscribed",
        "small calls a second of all ranks, 32 outstanding each",
        ranks=(2, 4, 8),
        targets=(share_of(4, 0.6, 2), share_of(8, 0.6, 2)),
        seconds=12,
    ),
    Row(
        "rref_remote_to_here",
        "remote of a function and to_here of its small result",
        targets=(at_most(20, "20 us"), times(30)),
    ),
    Row(
        "rref_churn",
        "rrefs made on another node and dropped, a second, 1,000 at a time",
        targets=(at_least(200_000, "200,000/s"),),
    ),
    Row(
        "rref_chain",
        "four remote calls over four nodes, each taking the value of the one before, and to_here",
        ranks=(4,),
        targets=(at_most(80, "80 us"),),
    ),
    Row(
        "coroutines_in_flight",
        "memory of a node above idle while 10,000 calls wait in its coroutines",
        targets=(at_most(64 * MIB, "64 MiB"),),
    ),
    Row(
        "autograd_context",
        "a context: a call of a small linear layer, backward, gradients of both nodes read",
        targets=(times(20),),
    ),
    Row(
        "autograd_chain",
        "four calls of it over four nodes, one after the other, and backward",
        ranks=(4,),
        targets=(times(15),),
    ),
    Row(
        "optimizer_step",
        "step of SGD with a small parameter on each of two nodes, its gradients there already",
        targets=(times(20),),
    ),
    Row(
        "autograd_overhead",
        "what a context adds to forward and backward of a local model of about 10 ms",
        peers=(),
        targets=(at_most(0.02, "2 %"),),
    ),
    Row(
        "context_churn",
        "growth of both nodes' memory over 1,000 contexts with a call and a pass each",
        peers=(),
        targets=(at_most(MIB, "1 MiB"),),
    ),
    Row(
        "rnn_tokens",
        "tokens a second of the language model over two nodes, 2,000 words, layers of 64, 5 x 20",
        targets=(times(3),),
        seconds=12,
        program="rnn",
    ),
    Row(
        "rnn_tokens_large",
        "the same with 4,000 words and 10 x 20: mostly the time that libtorch computes",
        seconds=20,
        program="rnn",
    ),
    Row(
        "pipeline",
        "images a second of a network in two stages with 4 micro-batches, times those with one",
        peers=(),
        ranks=(3,),
        targets=(at_least(1.2, "1.2 times"),),
        seconds=12,
        program="pipeline",
    ),
    Row(
        "weight_sync",
        "from a commit of 100 MB of weights until the last of four samplers that wait has them",
        peers=(),
        ranks=(5,),
        targets=(at_most(300, "300 us"),),
        seconds=25,
        program="weight_sync",
        by_name=True,
    ),
    Row(
        "mesh_matmul",
        "speed of a product of matrices of 2048 on a mesh of ranks, over the multiplications alone",
        peers=(),
        seconds=6,
        program="mesh_matmul",
    ),
    Row(
        "batch",
        "a parameter server's time for 8 trainers' gradients one by one, over that in batches",
        peers=(),
        ranks=(3,),
        targets=(at_least(1.5, "1.5 times"),),
        seconds=10,
        program="batch",
    ),
    Row(
        "batch_agent",
        "an agent's time for 16 observers' states one by one, over that in batches",
        peers=(),
        ranks=(3,),
        targets=(at_least(2, "2 times"),),
        seconds=8,
        program="batch",
    ),
    Row(
        "kill_to_error",
        "time from kill -9 of a process to the error of a call that waits for it",
        peers=(),
        targets=(at_most(50_000, "50 ms"),),
        seconds=10,
    ),
    Row(
        "cut_link_to_error",
        "time from a cut link to the error of a call over it, keep-alive of 1 s",
        peers=(),
        targets=(at_most(3_000_000, "3 s"),),
    ),
    Row(
        "tcp_call",
        "round trip of a small call between two hosts",
        peers=(SOCKET, UCX, TORCH, GRPC),
        targets=(
            times(1 / 1.2, peer=SOCKET),
            times(1, peer=UCX),
            times(10, peer=TORCH),
            times(10, peer=GRPC),
        ),
        wire="any",
    ),
    *(
        Row(
            name + suffix,
            f"{what}, {speed}",
            peers=(IPERF, TORCH) if both else (IPERF, UCX, TORCH),
            targets=(times(0.95, peer=IPERF),) + (() if both else (times(1, peer=UCX),)),
            wire=wire,
            seconds=40,
            by_name=True,
        )
        for name, what, both in (
            ("tcp_stream", "MB a second of tensors sent to another host", False),
            ("tcp_both_ways", "MB a second in each direction of tensors there and back", True),
        )
        for suffix, speed, wire in (
            ("", "as fast as the link goes", "any"),
            ("_1g", "1 Gbit/s", "1gbit"),
            ("_10g", "10 Gbit/s", "10gbit"),
        )
    ),
    Row(
        "tcp_mixed",
        "99th percentile of small calls beside a stream of tensors of 16 MiB, over the idle median",
        targets=(at_most(10, "10 times"),),
        wire="any",
        seconds=15,
        by_name=True,
    ),
    *(
        Row(
            "tcp_encrypt" + suffix,
            f"MB a second of tensors of 64 MiB to another host, authenticated, {speed}",
            peers=(PLAIN, ENCRYPTED),
            targets=(times(0.9, peer=PLAIN),),
            wire=wire,
            lends=lends,
            by_name=lends,
        )
        for suffix, speed, wire, lends in (
            ("", "as fast as the link goes", "any", False),
            ("_10g", "10 Gbit/s", "10gbit", False),
            ("_lent", "where they lie", "any", True),
        )
    ),
    Row(
        "reliability_cost",
        "share added to the round trip of a 4 B tensor by windows and membership",
        peers=(),
        targets=(at_most(0.05, "5 %"),),
        seconds=15,
    ),
    Row(
        "flood_memory",
        "memory of a sender above idle that pushes 10 GB at an actor which sleeps at first",
        peers=(),
        targets=(at_most(256 * MIB, "256 MiB"),),
        seconds=15,
    ),
    *COLLECTIVE_ROWS,
    *between_hosts(),
)


def choose(names):
    """The rows called `names`, or of suites of these names, in the table's order; for None all but
    those that take too long."""
    if names is None:
        return tuple(row for row in ROWS if not row.by_name)
    known = {row.name for row in ROWS} | {row.suite for row in ROWS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(
            f"no such row: {', '.join(unknown)}; there are {', '.join(row.name for row in ROWS)}"
        )
    return tuple(row for row in ROWS if row.name in names or row.suite in names)
