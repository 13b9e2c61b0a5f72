"""Measures UCX itself with its program ucx_perftest, two processes on this host.

    python3 ucx_perftest.py --row call_actor --json FILE

Small calls: the round trip. The program reports half of one; its median is doubled here. Large
messages: the time of one, with many under way.
"""

import argparse
import os
import socket
import subprocess
import time
from pathlib import Path

from timing import write

UCX = Path(__file__).resolve().parents[3] / ".deps" / "site" / "libucx"
# The lanes that Troupe uses on one host; which of them takes what is left to UCX.
LANES = "posix,cma,self"
LIMIT = 120  # seconds for one size
SMALL, LARGE = (8,), (1 << 20, 4 << 20)
SIZES = {"call_actor": SMALL, "call_function": SMALL, "perftest_am": LARGE}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(port, arguments):
    # Huge pages, where the machine has them, as troupe-run gives them to ours.
    settings = {"UCX_TLS": LANES, "UCX_ALLOC_PRIO": "thp,mmap,heap", "UCX_WARN_UNUSED_ENV_VARS": "n"}
    environment = {**settings, **os.environ}
    environment["LD_LIBRARY_PATH"] = str(UCX / "lib")
    command = [str(UCX / "bin" / "ucx_perftest"), *arguments, "-p", str(port)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def listens(port):
    """Looks at the kernel's list: a connection would be taken for the client."""
    wanted = f":{port:04X}"
    with open("/proc/net/tcp") as file:
        return any(
            line.split()[1].endswith(wanted) and line.split()[3] == "0A" for line in list(file)[1:]
        )


def wait_for(server, port, seconds=20):
    deadline = time.monotonic() + seconds
    while not listens(port):
        if server.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"ucx_perftest does not start: {server.communicate()[1].strip()}")
        time.sleep(0.01)


def end(process):
    process.kill()
    process.communicate()


def run(test, size, column):
    """What ucx_perftest measured, in microseconds."""
    port = free_port()
    server = start(port, [])
    try:
        wait_for(server, port)
        calls, warm_up = (200_000, 10_000) if size < 1 << 16 else (1_000, 50)
        asked = [
            "-t",
            test,
            "-s",
            str(size),
            "-n",
            str(calls),
            "-w",
            str(warm_up),
            "-v",
            "-f",
        ]
        client = start(port, ["127.0.0.1", *asked])
        said, complaint = client.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        end(client)
        raise SystemExit(f"ucx_perftest took more than {LIMIT} s")
    finally:
        end(server)
    if client.returncode != 0:
        raise SystemExit(f"ucx_perftest: {complaint.strip()}")
    names, values = [line.split(",") for line in said.splitlines() if "," in line][-2:]
    return float(values[names.index(column)])


def round_trip(size):
    return 2 * run("ucp_am_lat", size, "50.0_percentile_lat")


def one_of_many(size):
    return run("ucp_am_bw", size, "overall_lat")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", choices=SIZES, required=True)
    parser.add_argument("--json", required=True)
    asked = parser.parse_args()
    measured = []
    for size in SIZES[asked.row]:
        large = asked.row == "perftest_am"
        value = one_of_many(size) if large else round_trip(size)
        measured.append({"bytes": size if large else None, "unit": "us", "value": value})
    write(asked.json, asked.row, 2, measured)


if __name__ == "__main__":
    main()
