"""Runs the programs, repeated and interleaved, and keeps what they measured."""

import json
import mmap
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

RUN_LIMIT = 600  # seconds for one run of one program

# What programs that are no benchmarks call their rate in the one object that they write.
RATES = {"steps_per_second": "steps/s", "tokens_per_second": "tokens/s", "wait_us": "us"}


def pipeline_gain(document):
    """The largest number of micro-batches against whole batches, over the same nodes."""
    speeds = {
        way["micro_batches"]: way["images_per_second"]
        for way in document["ways"]
        if way["in_flight"] == 1 and way["micro_batches"] > 0
    }
    return speeds[max(speeds)] / speeds[1]


# What programs that compare two ways of doing the same write: ours over the other way.
GAINS = {
    "pipeline": pipeline_gain,
    "batch": lambda document: document["times_faster"],
    "batch_agent": lambda document: document["times_faster"],
    "mesh_matmul": lambda document: document["gflops"] / document["local_gflops"],
}


@dataclass
class Series:
    """The repeats of one measurement of one program."""

    unit: str
    values: list = field(default_factory=list)
    p99s: list = field(default_factory=list)

    @property
    def value(self):
        return statistics.median(self.values)

    @property
    def p99(self):
        return statistics.median(self.p99s) if self.p99s else None

    @property
    def spread(self):
        low, high = min(self.values), max(self.values)
        return high / low if low > 0 else None


class NotHere(Exception):
    """A program reports why a row cannot be measured on this machine."""


class Results:
    """All series, by row, program, bytes and ranks, and why programs failed."""

    def __init__(self):
        self.series = {}
        self.failures = {}  # (row, program, ranks): one line
        self.not_here = {}  # the same, for what this machine does not let us measure: no failure

    def add(self, row, program, measurement):
        unit, value = measurement["unit"], float(measurement["value"])
        key = (row.name, program, measurement.get("bytes") or None, measurement["ranks"])
        series = self.series.setdefault(key, Series(unit))
        series.values.append(value)
        if measurement.get("p99") is not None:
            series.p99s.append(float(measurement["p99"]))

    def of(self, row, program):
        """What `program` measured for `row`: series by (bytes, ranks)."""
        return {
            key[2:]: series for key, series in self.series.items() if key[:2] == (row.name, program)
        }


def parse(text, row, ranks):
    """The measurements of `row` in a program's output."""
    document = json.loads(text)
    if row.name in GAINS:
        gain = GAINS[row.name](document)
        return [{"row": row.name, "unit": "times", "value": float(gain), "ranks": ranks}]
    if isinstance(document, dict):
        document = [
            {"row": row.name, "unit": unit, "value": document[name], "ranks": ranks}
            for name, unit in RATES.items()
            if name in document
        ]
    for each in document:
        if "not_here" in each and each["row"] == row.name:
            raise NotHere(each["not_here"])
    found = [
        dict(each, ranks=each.get("ranks") or ranks) for each in document if each["row"] == row.name
    ]
    if not found:
        raise ValueError("its output has no measurement of this row")
    return found


def touch_memory(size):
    """Writes to `size` bytes of the machine's memory and gives them back.

    A virtual machine gets much of its memory from its host at the first touch, which takes ten times as
    long as clearing it. A program that asks for memory shall not pay that for whoever comes next.
    """
    page = mmap.PAGESIZE
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)  # the pages that large tensors get
        for at in range(0, size, page):
            memory[at] = 1


def run_once(command, environment, output):
    """Runs one program to its end; returns why it failed, or None."""
    variables = {**os.environ, **environment, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    try:
        process = subprocess.Popen(
            command, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
    except OSError as failure:
        return str(failure)
    try:
        _, printed = process.communicate(timeout=RUN_LIMIT)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)  # the launcher ends its ranks
        process.communicate()
        return f"took more than {RUN_LIMIT} s"
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    if process.returncode != 0:
        return lines[-1] if lines else f"exited with code {process.returncode}"
    return None if Path(output).exists() else "wrote no output"


@dataclass(frozen=True)
class Job:
    """One run of one program: of a row, or of the rows of a suite."""

    rows: tuple
    ranks: int
    program: object
    repeat: int

    @property
    def row(self):
        """What the program is asked for."""
        first = self.rows[0]
        return replace(first, name=",".join(row.name for row in self.rows))

    @property
    def name(self):
        return self.rows[0].suite or self.rows[0].name

    @property
    def kind(self):
        return (self.name, self.ranks, self.program.name)


def measure(job, setup, results):
    """One run of one program. A failure is noted and not tried again."""
    keys = {row: (row.name, job.program.name, job.ranks) for row in job.rows}
    if all(key in results.failures or key in results.not_here for key in keys.values()):
        return
    row, reasons = job.row, {}
    with tempfile.TemporaryDirectory(prefix="troupe-bench-") as folder:
        output = Path(folder) / "measured.json"
        if row.touches:
            touch_memory(row.touches)
        command = job.program.command(setup, row, job.ranks, output)
        failure = run_once(command, job.program.environment(setup), output)
        for each, key in keys.items():
            reasons[key] = failure
            try:
                if failure is None:
                    for measurement in parse(output.read_text(), each, job.ranks):
                        results.add(each, job.program.name, measurement)
            except NotHere as why:
                results.not_here[key] = str(why)
            except (ValueError, KeyError, TypeError) as wrong:
                reasons[key] = f"wrote something else than measurements: {wrong}"
    results.failures.update({key: why for key, why in reasons.items() if why is not None})


class Progress:
    """Prints what runs and how long the rest may take."""

    def __init__(self, jobs, stream=sys.stderr):
        self.left = list(jobs)
        self.total = len(self.left)
        self.took = {}
        self.stream = stream

    def begin(self):
        job = self.left[0]
        rest = sum(self.took.get(each.kind, each.rows[0].seconds) for each in self.left)
        done = self.total - len(self.left) + 1
        print(
            f"[{done:3}/{self.total}] {job.name}, {job.ranks} ranks, {job.program.name}, run "
            f"{job.repeat + 1}; about {int(rest) // 60} min {int(rest) % 60:02} s left",
            file=self.stream, flush=True,
        )  # fmt: skip
        self.started = time.monotonic()

    def end(self):
        job = self.left.pop(0)
        self.took[job.kind] = time.monotonic() - self.started


def jobs_of(chosen, repeats, ours, peers, missing):
    """Ours, peer, ours, peer, ... for each row, or suite of rows, and number of ranks."""
    together = {}
    for row in chosen:
        together.setdefault(row.suite or row.name, []).append(row)
    for members in together.values():
        names = dict.fromkeys(name for row in members for name in row.peers if name not in missing)
        programs = [ours[members[0].program], *(peers[name] for name in names)]
        for ranks in sorted({ranks for row in members for ranks in row.ranks}):
            for repeat in range(max(repeats, *(row.repeats for row in members))):
                for index, program in enumerate(programs):
                    rows = tuple(
                        row
                        for row in members
                        if ranks in row.ranks and (index == 0 or program.name in row.peers)
                    )
                    if rows:
                        yield Job(rows, ranks, program, repeat)


def measure_all(chosen, repeats, ours, peers, setup, stream=sys.stderr):
    results = Results()
    jobs = list(jobs_of(chosen, repeats, ours, peers, setup.missing))
    progress = Progress(jobs, stream)
    for job in jobs:
        progress.begin()
        measure(job, setup, results)
        progress.end()
    for (row, program, ranks), reason in results.failures.items():
        print(f"{row}, {ranks} ranks: {program} failed: {reason}", file=stream)
    return results
