"""Measures the collectives of an MPI on this host, with its best settings for the number of ranks.

    python3 mpi_collectives.py --mpi openmpi --build build/release --ranks 2 --row barrier --json FILE
    python3 mpi_collectives.py --install intel

The program is mpi/collectives.c, which `build` compiles for each MPI. Open MPI and MPICH are
Debian's, Intel MPI is of its wheels, which `--install intel` unpacks into .deps/peers/intel-mpi.
"""

import argparse
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    import collective_plan as plan
else:
    from peers import collective_plan as plan

REPOSITORY = HERE.parents[2]
SOURCE = HERE / "mpi" / "collectives.c"
INTEL = REPOSITORY / ".deps" / "peers" / "intel-mpi"
VERSIONS = REPOSITORY / "cmake" / "versions.env"
LIMIT = 400  # seconds for one run

COMPILERS = {"openmpi": "mpicc.openmpi", "mpich": "mpicc.mpich"}
LAUNCHERS = {"openmpi": "mpirun.openmpi", "mpich": "mpiexec.mpich"}
INSTALL = {
    "openmpi": "apt-get install openmpi-bin libopenmpi-dev",
    "mpich": "apt-get install mpich libmpich-dev",
    "intel": "python3 tests/bench/peers/mpi_collectives.py --install intel",
}


def program(name, build):
    return Path(build) / "tests" / "bench" / f"mpi-{name}"


def is_installed(name):
    if name == "intel":
        return (INTEL / "bin" / "mpiexec.hydra").exists() and (INTEL / "include" / "mpi.h").exists()
    return shutil.which(COMPILERS[name]) is not None and shutil.which(LAUNCHERS[name]) is not None


def compiler(name, output):
    flags = ["-O2", "-march=native", str(SOURCE), "-o", str(output)]
    if name == "intel":
        libraries = [f"-L{INTEL}/lib", f"-Wl,-rpath,{INTEL}/lib", "-lmpi"]
        return ["cc", f"-I{INTEL}/include", *flags, *libraries, "-ldl", "-lrt", "-lpthread"]
    return [COMPILERS[name], *flags]


def build(name, folder):
    """Compiles the program where it is not there yet. Returns why it is not; None: it is."""
    if not is_installed(name):
        return f"not installed: {INSTALL[name]}"
    output = program(name, folder)
    if output.exists() and output.stat().st_mtime > SOURCE.stat().st_mtime:
        return None
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        made = subprocess.run(compiler(name, output), capture_output=True, text=True)
    except OSError as failure:
        return f"not built: {failure}"
    if made.returncode == 0:
        return None
    lines = [line for line in made.stderr.splitlines() if line.strip()]
    return f"not built: {(lines or ['the compiler failed'])[0].strip()}"


def install_intel():
    pinned = dict(re.findall(r"^(IMPI_\w+)_VERSION=(\S+)$", VERSIONS.read_text(), re.MULTILINE))
    wheels = [f"{name.lower().replace('_', '-')}=={version}" for name, version in pinned.items()]
    INTEL.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=INTEL.parent) as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        subprocess.run([*pip, *wheels], check=True)
        unpacked = Path(folder) / "unpacked"
        for wheel in Path(folder).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(unpacked)
        # pip would leave out what wheels put beside its own folder, "lib" among it.
        shutil.rmtree(INTEL, ignore_errors=True)
        for data in unpacked.glob("*.data/data"):
            shutil.copytree(data, INTEL, dirs_exist_ok=True)
    for file in (INTEL / "bin").iterdir():
        file.chmod(0o755)


def crowded(ranks):
    return ranks > len(os.sched_getaffinity(0))


def why_not(name, ranks):
    """Why it cannot be measured with so many ranks; None: it can."""
    if name == "mpich" and crowded(ranks):
        return "MPICH only spins: where ranks outnumber cores an operation takes 20 ms"
    return None


def launch(name, ranks, command):
    """The command, and what it has in its environment."""
    if name == "openmpi":
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        binding = ["--bind-to", "core"]
        if crowded(ranks):
            binding = ["--oversubscribe", "--bind-to", "none"]
        return [LAUNCHERS[name], *binding, "-np", str(ranks), *command], root
    if name == "mpich":
        return [LAUNCHERS[name], "-n", str(ranks), *command], {}
    waiting = {"I_MPI_WAIT_MODE": "1"} if crowded(ranks) else {}
    environment = {"I_MPI_ROOT": str(INTEL), "I_MPI_FABRICS": "shm", **waiting}
    environment["LD_LIBRARY_PATH"] = f"{INTEL}/lib:{INTEL}/opt/mpi/libfabric/lib"
    return [str(INTEL / "bin" / "mpiexec.hydra"), "-n", str(ranks), *command], environment


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def measured(text):
    """By operation and bytes, of the lines that the program prints."""
    found = {}
    for line in text.splitlines():
        what, size, median, p99 = line.split()
        at = (what, 0 if what == "barrier" else int(size))
        found[at] = {"value": float(median), "p99": float(p99)}
    for (what, size), value in list(found.items()):  # MPI has one form of it
        if what == "all_gather":
            found["all_gather_list", size] = value
    return found


def between_hosts(ranks, hosts, command):
    """The same between hosts, with the options `hosts` of between_hosts.py."""
    # Each host is this machine.
    yielding = ["--option=--mca", "--option=mpi_yield_when_idle", "--option=1"]
    script = [sys.executable, str(HERE.parent / "between_hosts.py"), *hosts.split()]
    return [*script, "--mpi", LAUNCHERS["openmpi"], *(yielding if crowded(ranks) else []), "--",
            *command], {}  # fmt: skip


def run(name, folder, ranks, rows, hosts=None):
    reason = why_not(name, ranks)
    if hosts is not None and os.geteuid() != 0:
        reason = "no network namespaces can be made here (not root)"
    if reason:
        return [{"row": row, "not_here": reason} for row in rows]
    operations = dict.fromkeys(plan.timed_operation(row) for row in rows)
    operations = dict.fromkeys(what.removesuffix("_list") for what in operations)
    command = [str(program(name, folder)), *operations]
    if hosts is None:
        command, variables = launch(name, ranks, command)
    else:
        command, variables = between_hosts(ranks, hosts, command)
    done = subprocess.run(
        command, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True,
        timeout=LIMIT, preexec_fn=end_with_parent, check=True,
    )  # fmt: skip
    return plan.document(rows, ranks, measured(done.stdout))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--install", choices=["intel"])
    parser.add_argument("--mpi", choices=list(INSTALL))
    parser.add_argument("--build", type=Path)
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--row")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--hosts", help="options of between_hosts.py, for Open MPI between hosts")
    asked = parser.parse_args()
    if asked.install:
        install_intel()
        return
    found = run(asked.mpi, asked.build, asked.ranks, asked.row.split(","), asked.hosts)
    asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
