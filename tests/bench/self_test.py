"""Tests the harness with programs that only pretend to measure: `run.py --self-test`."""

import io
import json
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path
from unittest import mock

import measure
import plot
import programs
import report
import rows
from peers import collective_plan, install, mpi_collectives

PEER = rows.TORCH


def fake(name, measurements, log=None, code=0, complaint=""):
    """A program that notes its name in `log`, writes `measurements` and exits with `code`."""
    script = (
        "import sys; log, output, text, code, complaint = sys.argv[1:]\n"
        f"log and open(log, 'a').write({name!r} + ' ')\n"
        "print(complaint, file=sys.stderr)\n"
        "code != '0' or open(output, 'w').write(text)\n"
        "sys.exit(int(code))"
    )
    text = measurements if isinstance(measurements, str) else json.dumps(measurements)
    command = lambda setup, row, ranks, output: [
        sys.executable, "-c", script, str(log or ""), str(output), text, str(code), complaint
    ]  # fmt: skip
    return programs.Program(name, command)


def measurement(value, row="call_actor", size=None, ranks=2, unit="us", **more):
    return {"row": row, "bytes": size, "ranks": ranks, "unit": unit, "value": value, **more}


class HarnessTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.setup = programs.Setup(build=self.folder)

    def lines(self, ours, peer, row="call_actor", repeats=1, missing=()):
        """The report of one row with one peer."""
        chosen = [
            rows.Row(row, "a test", targets=next(r for r in rows.ROWS if r.name == row).targets)
        ]
        self.setup.missing.update(missing)
        self.printed = io.StringIO()
        results = measure.measure_all(
            chosen, repeats, {"bench": ours}, {PEER: peer}, self.setup, self.printed
        )
        return report.make_lines(chosen, results, {"bench": ours}, self.setup.missing)

    def test_compares_ours_with_the_peer(self):
        (line,) = self.lines(
            fake("troupe", [measurement(5.0, p99=9.0)]), fake(PEER, [measurement(400.0)])
        )
        self.assertEqual(line["ratio"], 80)
        self.assertEqual(
            (line["ours"], line["peer"], line["peer_value"], line["p99"]), (5, PEER, 400, 9)
        )
        self.assertEqual((line["target"], line["met"]), ("60 times", True))

    def test_reports_that_a_target_was_missed(self):
        (line,) = self.lines(fake("troupe", [measurement(10.0)]), fake(PEER, [measurement(400.0)]))
        self.assertIs(line["met"], False)

    def test_more_calls_a_second_are_better(self):
        of = lambda value: [measurement(value, row="calls_in_flight", unit="calls/s")]
        (line,) = self.lines(
            fake("troupe", of(500_000)), fake(PEER, of(5_000)), row="calls_in_flight"
        )
        self.assertEqual(line["ratio"], 100)
        self.assertIs(line["met"], True)

    def test_both_targets_of_a_line_must_be_met(self):
        of = lambda value: [measurement(value, row="calls_in_flight", unit="calls/s")]
        (line,) = self.lines(
            fake("troupe", of(300_000)), fake(PEER, of(100)), row="calls_in_flight"
        )
        self.assertIs(line["met"], False)

    def test_takes_a_time_for_a_rate(self):
        ours = [measurement(2.0, row="calls_in_flight")]
        peer = [measurement(5_000, row="calls_in_flight", unit="calls/s")]
        (line,) = self.lines(fake("troupe", ours), fake(PEER, peer), row="calls_in_flight")
        self.assertEqual((line["unit"], line["peer_value"], line["ratio"]), ("us", 200, 100))
        self.assertRaises(ValueError, report.converted, 1.0, "share", "us")

    def test_matches_sizes(self):
        of = lambda factor: [
            measurement(size * factor, row="identity", size=size) for size in (4, 4096)
        ]
        lines = self.lines(fake("troupe", of(1)), fake(PEER, of(50)), row="identity")
        self.assertEqual([(line["bytes"], line["ratio"]) for line in lines], [(4, 50), (4096, 50)])
        self.assertEqual([line["met"] for line in lines], [False, True])

    def test_no_bytes_and_zero_bytes_are_one_line(self):
        (line,) = self.lines(
            fake("troupe", [measurement(1.0, size=0)]), fake(PEER, [measurement(2.0)])
        )
        self.assertEqual(line["ratio"], 2)

    def test_interleaves_repeats(self):
        log = self.folder / "log"
        self.lines(
            fake("ours", [measurement(1)], log), fake(PEER, [measurement(1)], log), repeats=3
        )
        self.assertEqual(log.read_text().split(), ["ours", PEER] * 3)

    def test_takes_the_median_of_repeats_and_their_spread(self):
        results = measure.Results()
        row = rows.ROWS[0]
        for value in (2.0, 8.0, 4.0):
            results.add(row, "troupe", measurement(value))
        series = results.of(row, "troupe")[(None, 2)]
        self.assertEqual((series.value, series.spread), (4, 4))

    def test_a_failing_peer_leaves_its_columns_empty(self):
        log = self.folder / "log"
        peer = fake(PEER, [], log, code=3, complaint="it broke")
        (line,) = self.lines(fake("troupe", [measurement(5.0)]), peer, repeats=2)
        self.assertEqual(
            (line["ours"], line["peer_value"], line["ratio"], line["met"]), (5, None, None, None)
        )
        self.assertIn("it broke", line["note"])
        self.assertIn("it broke", self.printed.getvalue())
        self.assertEqual(log.read_text().split(), [PEER])  # not tried again

    def test_a_missing_peer_is_not_run(self):
        log = self.folder / "log"
        peer = fake(PEER, [measurement(1)], log)
        (line,) = self.lines(fake("troupe", [measurement(5.0)]), peer, missing={PEER: "no network"})
        self.assertEqual((line["ours"], line["peer"], line["peer_value"]), (5, PEER, None))
        self.assertIn("no network", line["note"])
        self.assertFalse(log.exists())

    def test_our_failure_is_reported_beside_the_peer(self):
        (line,) = self.lines(
            fake("troupe", [], code=1, complaint="bad"), fake(PEER, [measurement(1)])
        )
        self.assertEqual((line["ours"], line["peer_value"], line["ratio"]), (None, 1, None))
        self.assertIn("troupe: bad", line["note"])

    def test_nothing_measured_still_makes_a_line(self):
        (line,) = self.lines(fake("troupe", [], code=1), fake(PEER, [], code=1))
        self.assertEqual(
            (line["row"], line["ours"], line["peer_value"]), ("call_actor", None, None)
        )

    def test_output_that_is_no_measurement_is_a_failure(self):
        for output in ("nonsense", "[]", '[{"row": "call_actor"}]', '{"solved": true}'):
            (line,) = self.lines(fake("troupe", output), fake(PEER, [measurement(1)]))
            self.assertIn("measurement", line["note"], output)

    def test_a_program_that_is_not_there_is_a_failure(self):
        absent = programs.Program("troupe", lambda *_: [str(self.folder / "absent")])
        (line,) = self.lines(absent, fake(PEER, [measurement(1)]))
        self.assertIn("absent", line["note"])

    def test_a_program_that_hangs_is_ended(self):
        hangs = programs.Program(
            "troupe", lambda *_: [sys.executable, "-c", "import time; time.sleep(60)"]
        )
        with mock.patch.object(measure, "RUN_LIMIT", 0.3):
            (line,) = self.lines(hangs, fake(PEER, [measurement(1)], code=1))
        self.assertIn("took more than 0.3 s", line["note"])

    def test_reads_the_language_model(self):
        row = next(row for row in rows.ROWS if row.name == "rnn_tokens")
        (found,) = measure.parse('{"tokens_per_second": 5e4, "perplexity": 70.1}', row, 2)
        self.assertEqual((found["unit"], found["value"]), ("tokens/s", 50_000))

    def test_both_language_models_get_the_same_arguments(self):
        for row in (row for row in rows.ROWS if row.program == "rnn"):
            output = self.folder / "measured.json"
            ours = programs.rnn(self.setup, row, 2, output)
            torch = programs.torch_peer(self.setup, row, 2, output)
            first = ours.index("--text")
            shared = ours[first : ours.index("--json")]
            self.assertEqual(torch[torch.index("--text") : torch.index("--json")], shared)
            self.assertIn("--vocabulary", shared)

    def test_reads_the_cartpole_program(self):
        row = next(row for row in rows.ROWS if row.name == "cartpole_steps")
        (found,) = measure.parse('{"steps_per_second": 9000.0, "solved": false}', row, 2)
        self.assertEqual((found["value"], found["unit"], found["ranks"]), (9000, "steps/s", 2))

    def test_reads_how_long_weights_take_to_samplers(self):
        (row,) = rows.choose(["weight_sync"])
        (found,) = measure.parse('{"wait_us": 250.5, "methods": []}', row, 5)
        self.assertEqual((found["value"], found["unit"], found["ranks"]), (250.5, "us", 5))

    def test_reads_the_gain_of_a_pipeline(self):
        (row,) = rows.choose(["pipeline"])
        way = lambda micro, speed, flight=1: {
            "micro_batches": micro, "in_flight": flight, "images_per_second": speed
        }  # fmt: skip
        ways = [way(0, 5000), way(1, 900), way(4, 1350), way(0, 1, 2), way(8, 9000, 2)]
        (found,) = measure.parse(json.dumps({"ways": ways}), row, 3)
        self.assertEqual((found["unit"], found["value"], found["ranks"]), ("times", 1.5, 3))
        self.assertTrue(report.higher_is_better(found["unit"]))
        self.assertRaises(KeyError, measure.parse, json.dumps({"ways": [way(4, 1)]}), row, 3)

    def test_reads_the_share_of_a_product_on_a_mesh(self):
        (row,) = rows.choose(["mesh_matmul"])
        text = '{"gflops": 150.0, "local_gflops": 200.0, "mesh": [1, 2]}'
        (found,) = measure.parse(text, row, 2)
        self.assertEqual((found["value"], found["unit"], found["ranks"]), (0.75, "times", 2))

    def test_reads_the_gain_of_batches(self):
        for row in rows.choose(["batch", "batch_agent"]):
            (found,) = measure.parse('{"times_faster": 2.5, "seed": 1}', row, 3)
            self.assertEqual((found["row"], found["value"]), (row.name, 2.5))
            # Where somebody has not come to the end there is nothing to compare.
            self.assertRaises(TypeError, measure.parse, '{"times_faster": null}', row, 3)
            self.assertIn("--json", programs.batch(self.setup, row, 3, self.folder / "out"))

    def test_a_gain_that_is_too_small_is_reported(self):
        (row,) = rows.choose(["batch"])
        for gain, met in ((1.6, True), (1.4, False)):
            ours = fake("troupe", {"times_faster": gain})
            results = measure.measure_all([row], 1, {"batch": ours}, {}, self.setup, io.StringIO())
            (line,) = report.make_lines([row], results, {"batch": ours}, {})
            self.assertEqual((line["ours"], line["ratio"], line["met"]), (gain, None, met))

    def test_a_row_without_a_peer_has_its_line(self):
        chosen = rows.choose(["kill_to_error"])
        ours = fake("troupe", [measurement(14_000.0, row="kill_to_error")])
        results = measure.measure_all(
            chosen, 1, {"bench": ours}, {PEER: ours}, self.setup, io.StringIO()
        )
        (line,) = report.make_lines(chosen, results, {"bench": ours}, {})
        self.assertEqual((line["ours"], line["peer"], line["met"]), (14_000, None, True))
        self.assertIn(
            "| kill_to_error |", report.write(self.folder / "out", [line], chosen, 1, 0.5, None)
        )

    def test_what_cannot_be_measured_here_is_no_failure(self):
        printed = [{"row": "cut_link_to_error", "not_here": "not root"}]
        chosen = rows.choose(["cut_link_to_error"])
        ours = fake("troupe", printed)
        results = measure.measure_all(
            chosen, 2, {"bench": ours}, {PEER: ours}, self.setup, io.StringIO()
        )
        self.assertEqual(results.failures, {})
        (line,) = report.make_lines(chosen, results, {"bench": ours}, {})
        self.assertEqual((line["ours"], line["met"], line["note"]), (None, None, "troupe: not root"))

    def test_compares_more_ranks_with_as_many_as_cores(self):
        lines = [
            {
                "row": "oversubscribed",
                "bytes": None,
                "ranks": ranks,
                "peer": PEER,
                "ours": ours,
                "ratio": None,
            }
            for ranks, ours in ((2, 100.0), (4, 61.0), (8, 59.0))
        ]
        report.add_targets(lines, rows.choose(["oversubscribed"]))
        self.assertEqual([line["met"] for line in lines], [None, True, False])

    def test_a_grid_has_all_programs_side_by_side(self):
        log = self.folder / "log"
        of = lambda row, value: [
            measurement(value * size, row=row, size=size) for size in (4_000_000, 400_000_000)
        ]
        chosen = rows.choose(["grid_identity", "grid_ops200"])

        def program(name, value):
            both = of("grid_identity", value) + of("grid_ops200", 2 * value)
            return fake(name, both, log)

        ours = program("troupe", 1e-6)
        peers = {rows.TORCH: program(rows.TORCH, 3e-6), rows.GRPC: program(rows.GRPC, 5e-6)}
        results = measure.measure_all(
            chosen, 1, {"bench": ours}, peers, self.setup, io.StringIO()
        )
        # Ten repeats, whatever is asked for, in turn.
        each = ["troupe", rows.TORCH, rows.GRPC]
        self.assertEqual(log.read_text().split(), each * 20)
        lines = report.make_lines(chosen, results, {"bench": ours}, {})
        self.assertEqual(len(lines), 8)
        table = report.grid(lines, chosen)
        self.assertEqual(len(table), 3 + 4)
        self.assertIn("| 200 additions | 4 MB | 8.00 | 1.00 | 24.00 | 1.00 | 40.00 | 1.00 |", table)
        self.assertIn(table[3], report.markdown(lines, chosen, 1, 0.5, None))
        self.assertEqual(report.grid(lines, rows.choose(["call_actor"])), [])

    def test_names_what_to_install_for_grpc(self):
        self.assertIn("libgrpc++-dev", programs.build_grpc_peer(self.folder, self.folder))
        with mock.patch.object(programs.shutil, "which", lambda name: None):
            self.assertIn("protobuf-compiler-grpc", programs.build_grpc_peer(self.folder))

    def test_what_takes_long_is_measured_where_it_is_named(self):
        self.assertNotIn("grid_identity", [row.name for row in rows.choose(None)])
        self.assertEqual(len(rows.choose(["grid_identity"])), 1)

    def test_writes_report_and_picture(self):
        lines = self.lines(fake("troupe", [measurement(5.0)]), fake(PEER, [measurement(400.0)]))
        picture = plot.draw(lines)
        self.assertIn("call_actor", "".join(xml.etree.ElementTree.fromstring(picture).itertext()))
        text = report.write(
            self.folder / "out", lines, rows.choose(["call_actor"]), 1, 0.5, "report.svg"
        )
        self.assertRegex(
            text, r"\| call_actor \|.*\| 5.00 \|.*\| 400.0 \| 80.00 \|.*\| 60 times \| met \|"
        )
        (line,) = json.loads((self.folder / "out" / "report.json").read_text())
        wanted = {"row", "bytes", "ranks", "unit", "ours", "peer", "peer_value", "ratio", "spread"}
        self.assertLessEqual(wanted, line.keys())

    def test_prints_the_time_that_is_left(self):
        self.lines(fake("troupe", [measurement(1)]), fake(PEER, [measurement(1)]), repeats=2)
        first = self.printed.getvalue().splitlines()[0]
        self.assertRegex(
            first, r"^\[  1/4\] call_actor, 2 ranks, troupe, run 1; about 0 min 32 s left$"
        )


class SuiteTest(unittest.TestCase):
    """Rows that are measured together, as those of collectives are."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.log = self.folder / "log"
        self.setup = programs.Setup(build=self.folder)

    def program(self, name, value):
        """Measures 4 bytes of whatever it is asked for."""
        script = (
            "import json, sys; log, rows, ranks, output, value = sys.argv[1:]\n"
            f"open(log, 'a').write({name!r} + ' ' + rows + ' ' + ranks + '\\n')\n"
            "json.dump([dict(row=row, bytes=4, ranks=int(ranks), unit='us', value=float(value)) "
            "for row in rows.split(',')], open(output, 'w'))"
        )
        return programs.Program(
            name,
            lambda setup, row, ranks, output: [
                sys.executable, "-c", script, str(self.log), row.name, str(ranks), str(output),
                str(value),
            ],
        )  # fmt: skip

    def lines(self, chosen, ours, peers, repeats=1):
        ours = {"bench": self.program("troupe", ours)}
        peers = {name: self.program(name, value) for name, value in peers.items()}
        results = measure.measure_all(chosen, repeats, ours, peers, self.setup, io.StringIO())
        self.results = results
        return report.make_lines(chosen, results, ours, {})

    def row(self, name, peers, ranks=(2,), targets=()):
        return rows.Row(name, "", peers=peers, ranks=ranks, targets=targets, suite="s", grid=name)

    def test_is_one_run_of_each_program(self):
        chosen = [self.row("a", (rows.BARE, rows.GLOO), (2, 4)), self.row("b", (rows.GLOO,))]
        lines = self.lines(chosen, 1.0, {rows.BARE: 2.0, rows.GLOO: 3.0}, repeats=2)
        first = ["troupe a,b 2", f"{rows.BARE} a 2", "gloo a,b 2"] * 2
        second = ["troupe a 4", f"{rows.BARE} a 4", "gloo a 4"] * 2
        self.assertEqual(self.log.read_text().splitlines(), first + second)
        found = {(line["row"], line["ranks"], line["peer"]): line["ratio"] for line in lines}
        self.assertEqual(
            found,
            {
                ("a", 2, rows.BARE): 2, ("a", 4, rows.BARE): 2, ("a", 2, "gloo"): 3,
                ("a", 4, "gloo"): 3, ("b", 2, "gloo"): 3,
            },
        )  # fmt: skip

    def test_what_one_row_lacks_is_no_failure_of_the_others(self):
        chosen = [self.row("a", ()), self.row("b", ())]
        half = programs.Program(
            "troupe",
            lambda setup, row, ranks, output: [
                sys.executable, "-c",
                "import sys; open(sys.argv[1], 'w').write("
                '\'[{"row": "a", "unit": "us", "value": 1}]\')',
                str(output),
            ],
        )  # fmt: skip
        results = measure.measure_all(chosen, 2, {"bench": half}, {}, self.setup, io.StringIO())
        self.assertEqual(list(results.failures), [("b", "troupe", 2)])
        self.assertEqual(results.of(chosen[0], "troupe")[(None, 2)].values, [1, 1])

    def test_the_limit_is_the_figure_or_the_bare_program(self):
        target = rows.near_the_limit(0.4, bytes=4)
        for ours, bare, met in ((0.39, 0.1, True), (0.41, 0.1, False), (0.89, 0.6, True),
                                (0.91, 0.6, False)):  # fmt: skip
            (line,) = self.lines([self.row("a", (rows.BARE,), targets=(target,))], ours,
                                 {rows.BARE: bare})  # fmt: skip
            self.assertIs(line["met"], met, (ours, bare))

    def test_more_ranks_take_at_most_so_many_times_longer(self):
        target = rows.at_most_linear(8, 4)
        lines = [
            {"row": "a", "bytes": 4, "ranks": ranks, "peer": rows.BARE, "ours": ours}
            for ranks, ours in ((4, 10.0), (8, 20.0))
        ]
        self.assertIs(target.reached(lines[1], lines), True)
        lines[1]["ours"] = 20.1
        self.assertIs(target.reached(lines[1], lines), False)

    def test_has_all_programs_side_by_side_by_ranks(self):
        chosen = [self.row("a", (rows.BARE,), (2, 4))]
        lines = self.lines(chosen, 1.0, {rows.BARE: 2.0})
        table = report.grid(lines, chosen)
        self.assertIn("| a, 2 ranks | 4 B | 1.00 | 1.00 | 2.00 | 1.00 |", table)
        self.assertIn("| a, 4 ranks | 4 B | 1.00 | 1.00 | 2.00 | 1.00 |", table)

    def test_is_chosen_by_its_name(self):
        names = [row.name for row in rows.choose(["collectives"])]
        self.assertIn("all_reduce_staged", names)
        self.assertNotIn("identity", names)


class MpiTest(unittest.TestCase):
    def test_names_what_to_install(self):
        with mock.patch.object(mpi_collectives.shutil, "which", lambda name: None):
            for name in ("openmpi", "mpich"):
                self.assertIn(f"lib{name}-dev", mpi_collectives.build(name, "."))
        with mock.patch.object(mpi_collectives, "INTEL", Path("/nowhere")):
            self.assertIn("--install intel", mpi_collectives.build("intel", "."))

    def test_binds_where_there_are_cores_and_yields_where_not(self):
        few = lambda ranks: ranks > 2
        with mock.patch.object(mpi_collectives, "crowded", few):
            for ranks, word in ((2, "core"), (4, "--oversubscribe")):
                command, _ = mpi_collectives.launch("openmpi", ranks, ["program"])
                self.assertIn(word, command)
            self.assertNotIn("I_MPI_WAIT_MODE", mpi_collectives.launch("intel", 2, [])[1])
            self.assertEqual(mpi_collectives.launch("intel", 4, [])[1]["I_MPI_WAIT_MODE"], "1")
            (line,) = mpi_collectives.run("mpich", ".", 4, ["barrier"])
            self.assertIn("only spins", line["not_here"])

    def test_reads_what_the_program_prints(self):
        text = "barrier 4 0.25 0.5\nall_gather 4 0.5 1\nall_gather 65536 5 9\n"
        found = mpi_collectives.measured(text)
        names = ["barrier", "all_gather_list", "all_gather_staged"]
        lines = collective_plan.document(names, 2, found)
        told = [(line["row"], line["bytes"], line["value"]) for line in lines]
        self.assertEqual(
            told,
            [
                ("barrier", None, 0.25), ("all_gather_list", 4, 0.5), ("all_gather_list", 65536, 5),
                ("all_gather_staged", 65536, 5),
            ],
        )  # fmt: skip


class TableTest(unittest.TestCase):
    def test_names_are_unique(self):
        names = [row.name for row in rows.ROWS]
        self.assertEqual(len(names), len(set(names)))

    def test_unknown_rows_are_refused(self):
        self.assertRaisesRegex(
            SystemExit, "no such row: nonsense; there are call_actor", rows.choose, ["nonsense"]
        )

    def test_each_row_has_its_programs(self):
        torch_rows = re.findall(
            r"^def (\w+)\(", (programs.HERE / "peers" / "torch_rpc.py").read_text(), re.M
        )
        perftest = (programs.HERE / "peers" / "ucx_perftest.py").read_text()
        grpc = (programs.HERE / "peers" / "grpc" / "main.cpp").read_text()
        ours = (programs.HERE / "collective_rows.cpp").read_text()
        bare = (programs.HERE / "bare_collectives_program.cpp").read_text() + '"all_reduce_async"'
        mpi = (programs.HERE / "peers" / "mpi" / "collectives.c").read_text()
        for row in rows.ROWS:
            self.assertIn(row.program, programs.OURS)
            for peer in row.peers:
                self.assertIn(peer, programs.PEERS)
                if peer == rows.TORCH and row.name in programs.SCRIPTS:
                    script = programs.HERE / "peers" / programs.SCRIPTS[row.name]
                    self.assertTrue(script.is_file(), script)
                elif peer == rows.TORCH:
                    self.assertIn(re.sub("_(10?g|lent)$", "", row.name), torch_rows)
                if peer == rows.GRPC:
                    self.assertIn(f'"{row.name}"', grpc)
                if peer == rows.UCX:
                    self.assertIn(f'"{row.name}"', perftest)
                if row.suite:
                    what = collective_plan.timed_operation(row.name)
                    self.assertIn(f'"{what}"', bare)
                    self.assertIn(f'"{what.removesuffix("_list")}"', mpi)
                    self.assertIn(f'"{what if row.wire else row.name}"', ours)

    def test_ring_bounds(self):
        # 64 MiB on 4 ranks: each sends three quarters of it twice, 125 bytes a microsecond.
        self.assertAlmostEqual(rows.ring_bound(64 << 20, 4, "1gbit"), 805306.4, places=1)
        line = lambda us: {"ours": us, "bytes": 64 << 20, "ranks": 4}
        target = rows.near_the_ring_bound(0.9, 64 << 20, 4, "10gbit")
        self.assertTrue(target.reached(line(89_000), []))
        self.assertFalse(target.reached(line(90_000), []))

    def test_sizes_read_well(self):
        sizes = (None, 4, 4096, 1 << 20, 64 << 20, 4_000_000, 400_000_000)
        texts = ["", "4 B", "4 KiB", "1 MiB", "64 MiB", "4 MB", "400 MB"]
        self.assertEqual([report.size_text(size) for size in sizes], texts)


class InstallTest(unittest.TestCase):
    def test_every_wheel_is_pinned(self):
        wheels = install.wheels(install.VERSIONS.read_text())
        self.assertTrue(
            {"torch", "numpy", "gymnasium"} <= {wheel.split("==")[0] for wheel in wheels}
        )

    def test_reports_that_the_disk_is_too_small(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.multiple(
            install, FOLDER=Path(folder), STAMP=Path(folder) / "installed", NEEDED_BYTES=1 << 62
        ):
            self.assertIn("GB free", install.ensure())

    def test_reports_why_pip_failed(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.multiple(
            install,
            FOLDER=Path(folder),
            SITE=Path(folder) / "site",
            STAMP=Path(folder) / "installed",
        ):
            reason = install.install(["--no-index", "no-such-wheel==1.0"])
            self.assertTrue(reason.startswith("not installed: "), reason)
            self.assertFalse((Path(folder) / "installed").exists())


def main():
    loader = unittest.defaultTestLoader
    result = unittest.TextTestRunner(verbosity=1).run(
        loader.loadTestsFromModule(sys.modules[__name__])
    )
    return 0 if result.wasSuccessful() else 1
