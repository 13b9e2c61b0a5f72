"""Measures UCX itself with its program ucx_perftest, two processes on this host; for rows between
hosts, as the two ranks that between_hosts.py starts, over UCX's TCP.

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
SMALL, LARGE = (8,), (1 << 20, 4 << 20, 400_000_000)
STREAM = tuple(n << 20 for n in (1, 16, 256, 1024))
BETWEEN_HOSTS = {
    "tcp_call": SMALL,
    "tcp_stream": STREAM,
    "tcp_stream_1g": STREAM,
    "tcp_stream_10g": STREAM,
}
SIZES = {"call_actor": SMALL, "call_function": SMALL, "perftest_am": LARGE, "perftest_am_lent": LARGE, **BETWEEN_HOSTS}
PORT = 18515  # of the first size between hosts; others take the next ones


def between_hosts():
    return "BENCH_SERVER" in os.environ


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(port, arguments):
    # Huge pages, where the machine has them, as troupe-run gives them to ours.
    settings = {"UCX_TLS": LANES, "UCX_ALLOC_PRIO": "thp,mmap,heap", "UCX_WARN_UNUSED_ENV_VARS": "n"}
    environment = {**settings, **os.environ}
    if between_hosts():
        environment.update(UCX_TLS="tcp,self", UCX_NET_DEVICES="eth0")
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
        if size > 32 << 20:
            calls, warm_up = 20, 3
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
        printed, complaint = client.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        end(client)
        raise SystemExit(f"ucx_perftest took more than {LIMIT} s")
    finally:
        end(server)
    if client.returncode != 0:
        raise SystemExit(f"ucx_perftest: {complaint.strip()}")
    names, values = [line.split(",") for line in printed.splitlines() if "," in line][-2:]
    return float(values[names.index(column)])


def as_client(port, server, test, size, column):
    """What ucx_perftest measured against the server there, in microseconds."""
    calls, warm_up = (100_000, 5_000) if size < 1 << 16 else (max(8, (2 << 30) // size), 2)
    asked = ["-t", test, "-s", str(size), "-n", str(calls), "-w", str(warm_up), "-v", "-f"]
    deadline = time.monotonic() + 20
    while True:
        client = start(port, [server, *asked])
        try:
            printed, complaint = client.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            end(client)
            raise SystemExit(f"ucx_perftest took more than {LIMIT} s")
        if client.returncode == 0:
            break
        if time.monotonic() > deadline:  # the server may not listen yet
            raise SystemExit(f"ucx_perftest: {complaint.strip() or printed.strip()}")
        time.sleep(0.1)
    names, values = [line.split(",") for line in printed.splitlines() if "," in line][-2:]
    return float(values[names.index(column)])


def measure_between_hosts(row, path):
    there = os.environ["BENCH_SERVER"]
    sizes = BETWEEN_HOSTS[row]
    if os.environ["RANK"] != "0":
        for i in range(len(sizes)):
            server = start(PORT + i, [])
            printed, complaint = server.communicate(timeout=2 * LIMIT)
            if server.returncode != 0:
                raise SystemExit(f"ucx_perftest: {complaint.strip() or printed.strip()}")
        return
    measured = []
    for i, size in enumerate(sizes):
        if row == "tcp_call":
            half = as_client(PORT + i, there, "ucp_am_lat", size, "50.0_percentile_lat")
            measured.append({"bytes": None, "unit": "us", "value": 2 * half})
        else:
            one = as_client(PORT + i, there, "ucp_am_bw", size, "overall_lat")
            measured.append({"bytes": size, "unit": "MB/s", "value": size / one})
    write(path, row, 2, measured)


def round_trip(size):
    return 2 * run("ucp_am_lat", size, "50.0_percentile_lat")


def one_of_many(size):
    return run("ucp_am_bw", size, "overall_lat")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", choices=SIZES, required=True)
    parser.add_argument("--json", required=True)
    asked = parser.parse_args()
    if asked.row in BETWEEN_HOSTS:
        return measure_between_hosts(asked.row, asked.json)
    measured = []
    for size in SIZES[asked.row]:
        large = SIZES[asked.row] is LARGE
        value = one_of_many(size) if large else round_trip(size)
        measured.append({"bytes": size if large else None, "unit": "us", "value": value})
    write(asked.json, asked.row, 2, measured)


if __name__ == "__main__":
    main()
