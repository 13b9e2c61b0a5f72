"""Measures the network itself with iperf3, between the two hosts that between_hosts.py makes.

    iperf3.py --row tcp_stream --json FILE

Rank 1 serves; rank 0 sends, or sends and receives, for some seconds, and writes the rate for each size
of the row, since iperf3 knows none.
"""

import argparse
import json
import os
import subprocess
import time

from timing import write

MIB = 1 << 20
SIZES = (MIB, 16 * MIB, 256 * MIB, 1024 * MIB)
SECONDS = 5


def rates(both_ways):
    server = os.environ["BENCH_SERVER"]
    command = ["iperf3", "-c", server, "-J", "-t", str(SECONDS), "-O", "1", "-P", "2"]
    deadline = time.monotonic() + 20
    while True:
        done = subprocess.run(
            command + (["--bidir"] if both_ways else []), capture_output=True, text=True
        )
        document = json.loads(done.stdout or "{}")
        if "end" in document and "sum_received" in document["end"]:
            break
        if time.monotonic() > deadline:
            raise SystemExit(f"iperf3: {document.get('error', done.stderr.strip())}")
        time.sleep(0.05)
    end = document["end"]
    found = [end["sum_received"]["bits_per_second"]]
    if both_ways:
        found.append(end["sum_received_bidir_reverse"]["bits_per_second"])
    return sum(found) / len(found) / 8e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", required=True)
    parser.add_argument("--json", required=True)
    asked = parser.parse_args()
    if os.environ["RANK"] != "0":
        served = subprocess.run(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        raise SystemExit(served.returncode)
    rate = rates("both_ways" in asked.row)
    sizes = SIZES[:-1] if "both_ways" in asked.row else SIZES
    write(asked.json, asked.row, 2, [{"bytes": n, "unit": "MB/s", "value": rate} for n in sizes])


if __name__ == "__main__":
    main()
