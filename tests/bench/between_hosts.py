#!/usr/bin/env python3
"""Runs a program as rank 0 and rank 1 of a job on two hosts, as far as network namespaces are some.

    between_hosts.py [--rate 1gbit] [--mtu 9000] --launcher troupe-run [--option=X ...] -- PROGRAM ...

The hosts are joined by a veth link, both ends of which are shaped by tc's token bucket if there is a
rate. Needs root; without it the program's --json FILE gets the reason. The exit code is rank 0's.
"""

import argparse
import json
import os
import subprocess
import sys
import time

PORT = 29500


class Hosts:
    def __init__(self, rate, mtu):
        self.id = os.getpid() % 1_000_000
        self.names = [f"tb{self.id}n{host}" for host in (0, 1)]
        self.addresses = [f"10.{self.id % 250}.7.{host + 1}" for host in (0, 1)]
        one, other = self.names
        for name in self.names:
            self.ip("netns", "add", name)
            self.ip("-n", name, "link", "set", "lo", "up")
        self.ip("-n", one, "link", "add", "eth0", "mtu", mtu, "type", "veth",
                "peer", "name", "eth0", "mtu", mtu, "netns", other)  # fmt: skip
        for name, address in zip(self.names, self.addresses):
            self.ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            self.ip("-n", name, "link", "set", "eth0", "up")
            if rate:
                self.run("ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", "eth0", "root",
                         "tbf", "rate", rate, "burst", "256kb", "latency", "20ms")  # fmt: skip

        for name in self.names:
            self.wait_for_carrier(name)

    @staticmethod
    def wait_for_carrier(name):
        """UCX uses no device that is not running yet."""
        deadline = time.monotonic() + 10
        show = ["ip", "-n", name, "link", "show", "eth0"]
        while " state UP " not in subprocess.run(show, capture_output=True, text=True).stdout:
            if time.monotonic() > deadline:
                raise OSError(f"eth0 of {name} does not come up")
            time.sleep(0.01)

    def ip(self, *arguments):
        self.run("ip", *arguments)

    @staticmethod
    def run(*command):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode != 0:
            raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def give_reason(command, why):
    """As bench/timing.cpp does it."""
    path = command[command.index("--json") + 1]
    row = command[command.index("--row") + 1]
    with open(path, "w") as file:
        json.dump([{"row": row, "not_here": why}], file)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", default="")
    parser.add_argument("--mtu", default="1500")
    parser.add_argument("--launcher", required=True)
    parser.add_argument("--option", action="append", default=[], help="of the launcher")
    parser.add_argument("command", nargs="+")
    return parser.parse_args()


def main():
    asked = arguments()
    if os.geteuid() != 0:
        give_reason(asked.command, "no network namespaces can be made here (not root)")
        return 0
    hosts = None
    ranks = []
    try:
        try:
            hosts = Hosts(asked.rate, asked.mtu)
        except OSError as failure:
            give_reason(asked.command, f"no network namespaces can be made here ({failure})")
            return 0
        variables = {
            **os.environ,
            "TROUPE_JOB_SECRET": "7" * 64,
            "BENCH_SERVER": hosts.addresses[1],  # for peers whose rank 1 serves
            "TP_SOCKET_IFNAME": "eth0",
            "GLOO_SOCKET_IFNAME": "eth0",
        }
        where = f"tcp://{hosts.addresses[0]}:{PORT}"
        for host, name in enumerate(hosts.names):
            launched = [asked.launcher, "--nnodes", "2", "--node-rank", str(host), "--rdzv", where,
                        "-n", "1", "--threads", "1", *asked.option, *asked.command]  # fmt: skip
            ranks.append(subprocess.Popen(["ip", "netns", "exec", name, *launched], env=variables))
        code = ranks[0].wait()
        try:
            return code or ranks[1].wait(timeout=20)
        except subprocess.TimeoutExpired:
            return 1
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.terminate()
                rank.wait()
        if hosts:
            hosts.remove()


if __name__ == "__main__":
    sys.exit(main())
