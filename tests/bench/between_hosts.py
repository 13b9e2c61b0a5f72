#!/usr/bin/env python3
"""Runs a program as a job on two or more hosts, as far as network namespaces are some.

    between_hosts.py [--rate 1gbit] [--mtu 9000] --launcher troupe-run [--option=X ...] -- PROGRAM ...
    between_hosts.py --hosts 4 [--per-host 2] --launcher troupe-run -- PROGRAM ...
    between_hosts.py --hosts 4 --mpi mpirun.openmpi -- PROGRAM ...

Two hosts are joined by a veth link, more by a bridge in a namespace of its own. If there is a rate, all
ends are shaped by tc's token bucket, so that a host sends and receives at that rate. Needs root;
without it the program's --json FILE gets the reason. The exit code is that of the first host's ranks.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PORT = 29500


class Hosts:
    def __init__(self, rate, mtu, count=2):
        self.id = os.getpid() % 1_000_000
        self.rate, self.mtu = rate, mtu
        self.names = [f"tb{self.id}n{host}" for host in range(count)]
        self.addresses = [f"10.{self.id % 250}.7.{host + 1}" for host in range(count)]
        self.bridge = f"tb{self.id}b" if count > 2 else None
        for name in self.names:
            self.ip("netns", "add", name)
            self.ip("-n", name, "link", "set", "lo", "up")
        if self.bridge:
            self.join_by_bridge()
        else:
            one, other = self.names
            self.ip("-n", one, "link", "add", "eth0", "mtu", mtu, "type", "veth",
                    "peer", "name", "eth0", "mtu", mtu, "netns", other)  # fmt: skip
        for name, address in zip(self.names, self.addresses):
            self.ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            self.ip("-n", name, "link", "set", "eth0", "up")
            self.shape(name, "eth0")
        for name in self.names:
            self.wait_for_carrier(name)

    def join_by_bridge(self):
        self.ip("netns", "add", self.bridge)
        self.ip("-n", self.bridge, "link", "add", "br0", "mtu", self.mtu, "type", "bridge")
        self.ip("-n", self.bridge, "link", "set", "br0", "up")
        for host, name in enumerate(self.names):
            port = f"port{host}"
            self.ip("-n", name, "link", "add", "eth0", "mtu", self.mtu, "type", "veth",
                    "peer", "name", port, "mtu", self.mtu, "netns", self.bridge)  # fmt: skip
            self.ip("-n", self.bridge, "link", "set", port, "master", "br0", "up")
            self.shape(self.bridge, port)

    def shape(self, name, device):
        if self.rate:
            self.run("ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", device, "root",
                     "tbf", "rate", self.rate, "burst", "256kb", "latency", "20ms")  # fmt: skip

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
        for name in [*self.names, *([self.bridge] if self.bridge else [])]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def give_reason(command, why):
    """As bench/timing.cpp does it."""
    path = command[command.index("--json") + 1]
    rows = command[command.index("--row") + 1].split(",")
    with open(path, "w") as file:
        json.dump([{"row": row, "not_here": why} for row in rows], file)


def launched(asked, hosts):
    """One launcher for each host, which starts its ranks."""
    variables = {
        **os.environ,
        "TROUPE_JOB_SECRET": "7" * 64,
        "BENCH_SERVER": hosts.addresses[1],  # for peers whose rank 1 serves
        "BENCH_HOSTS": " ".join(hosts.addresses),
        "TP_SOCKET_IFNAME": "eth0",
        "GLOO_SOCKET_IFNAME": "eth0",
    }
    where = f"tcp://{hosts.addresses[0]}:{PORT}"
    count = str(len(hosts.names))
    for host, name in enumerate(hosts.names):
        command = [asked.launcher, "--nnodes", count, "--node-rank", str(host), "--rdzv", where,
                   "-n", str(asked.per_host), "--threads", "1", *asked.option,
                   *asked.command]  # fmt: skip
        yield ["ip", "netns", "exec", name, *command], variables


# What mpirun calls in place of ssh: the name of a host is its address. Open MPI tells hosts apart by
# their names, so each gets one of its own.
AGENT = """#!/bin/sh
host=$1; shift
name={prefix}$((${{host##*.}} - 1))
exec ip netns exec $name unshare --uts sh -c "hostname $name && $*"
"""


# Every rank on a core of its own rank, as the rows of Troupe bind themselves. The mpirun takes each
# name space for a host of its own, whose first rank it would bind to the first core.
PINNED = 'exec taskset -c "$((OMPI_COMM_WORLD_RANK % $(nproc)))" "$@"'


def launched_by_mpi(asked, hosts, folder):
    """One mpirun on the first host, which reaches the others through `AGENT`."""
    agent = Path(folder) / "agent"
    agent.write_text(AGENT.format(prefix=hosts.names[0][:-1]))
    agent.chmod(0o755)
    settings = {
        "plm_rsh_agent": agent,
        "btl": "self,tcp" if asked.per_host == 1 else "self,vader,tcp",
        "pml": "ob1",
        "btl_tcp_if_include": "eth0",
        "oob_tcp_if_include": "eth0",
        "plm_rsh_no_tree_spawn": "1",
    }
    options = [part for name, value in settings.items() for part in ("--mca", name, str(value))]
    places = ",".join(f"{address}:{asked.per_host}" for address in hosts.addresses)
    ranks = str(asked.per_host * len(hosts.names))
    command = [asked.mpi, *options, "--host", places, "-np", ranks, "--bind-to", "none",
               *asked.option, "sh", "-c", PINNED, "sh", *asked.command]  # fmt: skip
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    name = hosts.names[0]
    inside = ["unshare", "--uts", "sh", "-c", f"hostname {name} && exec {shlex.join(command)}"]
    yield ["ip", "netns", "exec", name, *inside], {**os.environ, **root}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", default="")
    parser.add_argument("--mtu", default="1500")
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--per-host", type=int, default=1, help="ranks on each host")
    parser.add_argument("--launcher", help="troupe-run")
    parser.add_argument("--mpi", help="an mpirun in place of it")
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
            hosts = Hosts(asked.rate, asked.mtu, asked.hosts)
        except OSError as failure:
            give_reason(asked.command, f"no network namespaces can be made here ({failure})")
            return 0
        with tempfile.TemporaryDirectory(prefix="troupe-hosts-") as folder:
            all = launched_by_mpi(asked, hosts, folder) if asked.mpi else launched(asked, hosts)
            for command, variables in all:
                ranks.append(subprocess.Popen(command, env=variables))
            code = ranks[0].wait()
            try:
                return code or max(one.wait(timeout=20) for one in ranks)
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
