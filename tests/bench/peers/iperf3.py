"""Measures the network itself with iperf3, between the hosts that between_hosts.py makes.

    iperf3.py --row tcp_stream --json FILE
    iperf3.py --row tcp_all_reduce --json FILE

Of a stream rank 1 serves; rank 0 sends, or sends and receives, for some seconds, and writes the rate for
each size of the row, since iperf3 knows none. Of an all_reduce each host sends to the next one, all at
the same time; the time is what the bytes of a ring, 2 (P - 1) / P of the tensor's, would take at the
slowest one's rate.
"""

import argparse
import json
import os
import subprocess
import time
from pathlib import Path

from timing import write

MIB = 1 << 20
SIZES = (MIB, 16 * MIB, 256 * MIB, 1024 * MIB)
SECONDS = 5


def rates(both_ways):
    server = os.environ["BENCH_SERVER"]
    command = ["iperf3", "-c", server, "-J", "-t", str(SECONDS), "-O", "1", "-P", "2"]
    end = client(command + (["--bidir"] if both_ways else []), time.monotonic() + 20)
    found = [end["sum_received"]["bits_per_second"]]
    if both_ways:
        found.append(end["sum_received_bidir_reverse"]["bits_per_second"])
    return sum(found) / len(found) / 8e6


def client(command, deadline):
    """What one that connects as soon as it is served has measured."""
    while True:
        done = subprocess.run(command, capture_output=True, text=True)
        document = json.loads(done.stdout or "{}")
        if "sum_received" in document.get("end", {}):
            return document["end"]
        if time.monotonic() > deadline:
            raise SystemExit(f"iperf3: {document.get('error', done.stderr.strip())}")
        time.sleep(0.05)


def ring(row, output):
    rank, hosts = int(os.environ["RANK"]), os.environ["BENCH_HOSTS"].split()
    core = str(rank % os.cpu_count())  # as the rows of Troupe bind themselves
    server = subprocess.Popen(
        ["taskset", "-c", core, "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL
    )
    to = hosts[(rank + 1) % len(hosts)]
    command = ["taskset", "-c", core, "iperf3", "-c", to, "-J", "-t", "3", "-l", "1M"]
    try:
        rate = client(command, time.monotonic() + 20)["sum_received"]["bits_per_second"] / 8
        server.wait(timeout=20)
    finally:
        server.kill()
    mine = Path(f"{output}.rate{rank}.new")
    mine.write_text(str(rate))
    mine.rename(f"{output}.rate{rank}")  # whole
    if rank != 0:
        return
    rates = []
    for other in range(len(hosts)):
        path = Path(f"{output}.rate{other}")
        deadline = time.monotonic() + 20
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        rates.append(float(path.read_text()))
        path.unlink()
    bytes = 64 * MIB
    seconds = 2 * (len(hosts) - 1) / len(hosts) * bytes / min(rates)
    write(output, row, len(hosts), [{"bytes": bytes, "unit": "us", "value": seconds * 1e6}])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", required=True)
    parser.add_argument("--json", required=True)
    asked = parser.parse_args()
    if "all_reduce" in asked.row:
        return ring(asked.row, asked.json)
    if os.environ["RANK"] != "0":
        served = subprocess.run(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        raise SystemExit(served.returncode)
    rate = rates("both_ways" in asked.row)
    sizes = SIZES[:-1] if "both_ways" in asked.row else SIZES
    write(asked.json, asked.row, 2, [{"bytes": n, "unit": "MB/s", "value": rate} for n in sizes])


if __name__ == "__main__":
    main()
