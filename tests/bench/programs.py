"""How each program of the benchmark is started: ours, and every peer's."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, List

import rows
from peers import install, mpi_collectives

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent


@dataclass
class Setup:
    """Where things are, and why a peer is missing (by its name)."""

    build: Path
    missing: Dict[str, str] = field(default_factory=dict)
    python: str = sys.executable

    @property
    def launcher(self):
        return str(self.build / "apps" / "troupe-run")


@dataclass(frozen=True)
class Program:
    """`command` and `environment` make one run of `row` with `ranks` that writes `output`."""

    name: str
    command: Callable[[Setup, rows.Row, int, Path], List[str]]
    environment: Callable[[Setup], Dict[str, str]] = lambda setup: {}


def launched(setup, ranks, command, *options):
    # Both sides get the same: one thread for tensor operations, whatever the user has set.
    return [setup.launcher, "-n", str(ranks), "--threads", "1", *options, *map(str, command)]


def hosts_of(row, ranks):
    """Options for between_hosts.py: the link, and how many hosts there are."""
    wire = [] if row.wire == "any" else ["--rate", row.wire]
    if not row.per_host:
        return wire
    return [*wire, "--hosts", ranks // row.per_host, "--per-host", row.per_host]


def between_hosts(setup, row, command, *options, ranks=2):
    """`command` as the ranks of a job on two or more hosts."""
    given = [f"--option={option}" for option in options]
    script = [setup.python, HERE / "between_hosts.py", *hosts_of(row, ranks), "--launcher",
              setup.launcher]  # fmt: skip
    return list(map(str, [*script, *given, "--", *command]))


def started(setup, row, ranks, command, *options):
    if row.wire:
        return between_hosts(setup, row, command, *options, ranks=ranks)
    return launched(setup, ranks, command, *options)


def bench(setup, row, ranks, output):
    program = setup.build / "tests" / "bench" / "troupe-bench"
    command = started(setup, row, ranks, [program, "--row", row.name, "--json", output])
    return ["env", "TROUPE_LEND_TENSORS=1", *command] if row.lends else command


def cartpole(setup, row, ranks, output):
    # As many episodes as the peer plays, from one seed: early episodes are short on both sides.
    limits = ["--episodes", "150", "--max-seconds", "60", "--seed", "543", "--log-interval", "1000"]
    return launched(setup, ranks, [setup.build / "apps" / "cartpole", *limits, "--json", output])


RNN_SIZES = {  # vocabulary, streams, steps
    "rnn_tokens": (2000, 5, 800),
    "rnn_tokens_large": (4000, 10, 500),
}


def rnn_arguments(row):
    """The same for both sides: model, text, batches, number of steps."""
    vocabulary, streams, steps = RNN_SIZES[row.name]
    sizes = {
        "vocabulary": vocabulary, "embedding": 64, "hidden": 64, "layers": 1,
        "batch-size": streams, "length": 20, "max-steps": steps,
    }  # fmt: skip
    named = [part for name, value in sizes.items() for part in (f"--{name}", str(value))]
    return ["--text", REPOSITORY / ".deps" / "bible.txt", *named]


def rnn(setup, row, ranks, output):
    program = setup.build / "apps" / "rnn"
    return launched(setup, ranks, [program, *rnn_arguments(row), "--json", output])


def pipeline(setup, row, ranks, output):
    # One process is measured as well, for the losses: the row compares the two ways over nodes.
    what = ["--micro-batches", "1,4", "--in-flight", "1", "--repeats", "1", "--steps", "12"]
    data = ["--data", REPOSITORY / ".deps" / "digits.csv.gz"]
    program = setup.build / "apps" / "pipeline"
    return launched(setup, ranks, [program, *what, *data, "--json", output])


def weight_sync(setup, row, ranks, output):
    what = ["--steps", "3", "--waits", "60"]
    return launched(setup, ranks, [setup.build / "apps" / "weight_sync", *what, "--json", output])


def mesh_matmul(setup, row, ranks, output):
    what = ["--m", "2048", "--n", "2048", "--k", "2048", "--repeats", "10"]
    return launched(setup, ranks, [setup.build / "apps" / "mesh_matmul", *what, "--json", output])


BATCH_JOBS = {"batch": ["server", "--rounds", "50"], "batch_agent": ["agent", "--steps", "100"]}


def batch(setup, row, ranks, output):
    program = setup.build / "apps" / "batch"
    return launched(setup, ranks, [program, *BATCH_JOBS[row.name], "--json", output])


SCRIPTS = {
    "cartpole_steps": "cartpole_torch.py",
    "rnn_tokens": "rnn_torch.py",
    "rnn_tokens_large": "rnn_torch.py",
}


def torch_peer(setup, row, ranks, output):
    script = HERE / "peers" / SCRIPTS.get(row.name, "torch_rpc.py")
    more = rnn_arguments(row) if row.program == "rnn" else []
    command = [setup.python, script, "--row", row.name, *more, "--json", output]
    return started(setup, row, ranks, command, "--plain-memory")


def torch_environment(setup):
    loopback = {"TP_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"}  # of one host
    return {"PYTHONPATH": str(install.SITE), "PYTHONDONTWRITEBYTECODE": "1", **loopback}


def perftest_peer(setup, row, ranks, output):
    script = HERE / "peers" / "ucx_perftest.py"
    command = [setup.python, str(script), "--row", row.name, "--json", str(output)]
    return between_hosts(setup, row, command) if row.wire else command


def iperf_peer(setup, row, ranks, output):
    command = [setup.python, HERE / "peers" / "iperf3.py", "--row", row.name, "--json", output]
    return between_hosts(setup, row, command, ranks=ranks)


def socket_peer(setup, row, ranks, output):
    program = setup.build / "tests" / "bench" / "socket-ping"
    return between_hosts(setup, row, [program, "--row", row.name, "--json", output])


def grpc_peer(setup, row, ranks, output):
    program = setup.build / "tests" / "bench" / "grpc-peer"
    return started(
        setup, row, ranks, [program, "--row", row.name, "--json", output], "--plain-memory"
    )


def memory(allocator):
    """Memory for tensors in one process; a row's ranks are its threads."""

    def command(setup, row, ranks, output):
        program = setup.build / "tests" / "bench" / "tensor-memory"
        what = ["--row", row.name, "--allocator", allocator, "--threads", ranks, "--json", output]
        return list(map(str, [program, *what]))

    return command


def gloo_peer(setup, row, ranks, output):
    script = [setup.python, HERE / "peers" / "gloo.py", "--row", row.name, "--json", output]
    return started(setup, row, ranks, script, "--plain-memory")


def bare_peer(setup, row, ranks, output):
    program = setup.build / "tests" / "bench" / "bare-collectives"
    return list(map(str, [program, "--row", row.name, "--ranks", ranks, "--json", output]))


MPIS = {rows.OPEN_MPI: "openmpi", rows.MPICH: "mpich", rows.INTEL_MPI: "intel"}


def mpi_peer(name):
    def command(setup, row, ranks, output):
        script = HERE / "peers" / "mpi_collectives.py"
        what = ["--mpi", name, "--build", setup.build, "--ranks", ranks]
        if row.wire:
            what += [f"--hosts={' '.join(map(str, hosts_of(row, ranks)))}"]
        return list(map(str, [setup.python, script, *what, "--row", row.name, "--json", output]))

    return command


MALLOCS = {  # Debian's packages, and what they bring
    rows.JEMALLOC: ("libjemalloc2", "libjemalloc.so.2"),
    rows.MIMALLOC: ("libmimalloc2.0", "libmimalloc.so.2.0"),
}


def loads(library):
    """Whether it can be preloaded: jemalloc cannot be loaded into a process that runs already."""
    given = {**os.environ, "LD_PRELOAD": library, "LC_ALL": "C"}
    tried = subprocess.run(["true"], env=given, capture_output=True, text=True)
    return "cannot be preloaded" not in tried.stderr


GRPC_PACKAGES = "libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc"


def build_grpc_peer(build, include=Path("/usr/include")):
    """Why it is not there; None: it is. It is no part of the build, so it is built here."""
    needed = [include / "grpcpp" / "grpcpp.h", include / "google" / "protobuf" / "message.h"]
    tools = ("protoc", "grpc_cpp_plugin")
    if not all(file.exists() for file in needed) or not all(map(shutil.which, tools)):
        return f"not installed: apt-get install {GRPC_PACKAGES}"
    # The packages may have come since the build was configured.
    for command in (["cmake", build], ["cmake", "--build", build, "--target", "grpc_peer"]):
        try:
            made = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        except OSError as failure:
            return f"not built: {failure}"
        if made.returncode != 0:
            lines = [line for line in (made.stdout + made.stderr).splitlines() if line.strip()]
            return f"not built: {' '.join(map(str, command))}: {(lines or ['failed'])[-1].strip()}"
    return None


OURS = {
    "bench": Program("troupe", bench),
    "cartpole": Program("troupe", cartpole),
    "rnn": Program("troupe", rnn),
    "pipeline": Program("troupe", pipeline),
    "batch": Program("troupe", batch),
    "weight_sync": Program("troupe", weight_sync),
    "mesh_matmul": Program("troupe", mesh_matmul),
    "memory": Program("troupe", memory("arena")),
}
PEERS = {
    rows.TORCH: Program(rows.TORCH, torch_peer, torch_environment),
    rows.UCX: Program(rows.UCX, perftest_peer),
    rows.GRPC: Program(rows.GRPC, grpc_peer),
    rows.IPERF: Program(rows.IPERF, iperf_peer),
    rows.SOCKET: Program(rows.SOCKET, socket_peer),
    rows.PLAIN: Program(rows.PLAIN, bench, lambda setup: {"TROUPE_ENCRYPTION": "off"}),
    rows.ENCRYPTED: Program(rows.ENCRYPTED, bench, lambda setup: {"TROUPE_ENCRYPTION": "encrypt"}),
    rows.GLOO: Program(rows.GLOO, gloo_peer, torch_environment),
    rows.BARE: Program(rows.BARE, bare_peer),
    **{name: Program(name, mpi_peer(short)) for name, short in MPIS.items()},
    rows.MALLOC: Program(rows.MALLOC, memory("default")),
    **{
        name: Program(name, memory("default"), lambda setup, of=library: {"LD_PRELOAD": of})
        for name, (_, library) in MALLOCS.items()
    },
}


def prepare(build, chosen, install_peers=True):
    """Checks that our programs are there, and brings the peers' in."""
    setup = Setup(build=Path(build).resolve())
    if not os.access(setup.launcher, os.X_OK):
        raise SystemExit(f"{setup.launcher} is missing: run `make build` first")
    wanted = {peer for row in chosen for peer in row.peers}
    if wanted & {rows.TORCH, rows.GLOO}:
        reason = install.ensure() if install_peers else "left out by --no-peers"
        if reason:
            setup.missing.update({rows.TORCH: reason, rows.GLOO: reason})
    for name in wanted & MPIS.keys():
        left_out = None if install_peers else "left out by --no-peers"
        reason = left_out or mpi_collectives.build(MPIS[name], setup.build)
        if reason:
            setup.missing[name] = reason
    if rows.IPERF in wanted and not shutil.which("iperf3"):
        setup.missing[rows.IPERF] = "not installed: apt-get install iperf3"
    for name, (package, library) in MALLOCS.items():
        if name in wanted and not loads(library):
            setup.missing[name] = f"not installed: apt-get install {package}"
    if rows.GRPC in wanted:
        reason = build_grpc_peer(setup.build) if install_peers else "left out by --no-peers"
        if reason:
            setup.missing[rows.GRPC] = reason
    return setup
