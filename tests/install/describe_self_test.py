#!/usr/bin/env python3
"""Tests of what makes man pages and completions."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "cmake"))
from describe_program import HelpError, as_installed, completion, man_page, read_help

TOOL = """Starts the ranks of a job.
Usage: tool [OPTIONS] PROGRAM [ARGS...]

Options:
  -h,--help                   Print this help message and exit
  -n,--nproc N=1              Ranks to start
  --a-very-long-option-with-a-value FILE
                              Where it is read, and
                              where not
  --colour,--color WHEN=auto  Colour the ranks: auto, always or never
  --cut INT=1,2 ...           Into how many

Examples:
  tool -n 3 build/apps/parameter_server

Each rank finds its number.
.And so on.

Exit codes: 0, or
2 for a wrong command line.
"""
WITH_COMMANDS = """Asks.
Usage: ask [OPTIONS] SUBCOMMAND

Options:
  -h,--help                   Print this help message and exit

Subcommands:
  info                        What there is
"""
INFO = """What there is
Usage: ask info [OPTIONS]

Options:
  -h,--help                   Print this help message and exit
  --json TEXT                 Write to this file
"""


def completed(script, function, *words):
    """What bash offers for the last word."""
    code = f'{script}\nCOMP_WORDS=({" ".join(w or chr(39) * 2 for w in words)})\nCOMP_CWORD={len(words) - 1}\n'
    code += f'compopt() {{ :; }}\n{function}\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
    ended = subprocess.run(["bash", "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return ended.stdout.split()


class DescribeTest(unittest.TestCase):
    def test_reads_a_help(self):
        text = read_help(TOOL)
        self.assertEqual(text.summary, "Starts the ranks of a job.")
        self.assertEqual(text.usage, "[OPTIONS] PROGRAM [ARGS...]")
        self.assertEqual([(o.names, o.value, o.default) for o in text.options],
                         [(["-h", "--help"], "", ""), (["-n", "--nproc"], "N", "1"),
                          (["--a-very-long-option-with-a-value"], "FILE", ""),
                          (["--colour", "--color"], "WHEN", "auto"), (["--cut"], "INT", "1,2")])
        self.assertEqual(text.options[2].text, "Where it is read, and where not")
        self.assertEqual([lines[0] for lines in text.footer],
                         ["Examples:", "Each rank finds its number.", "Exit codes: 0, or"])
        self.assertEqual(read_help(WITH_COMMANDS).commands, [["info", "What there is"]])

    def test_refuses_what_is_no_help(self):
        for text in ("", "Usage: x\n", "error: no such thing\n"):
            with self.assertRaises(HelpError, msg=text):
                read_help(text)

    def test_writes_a_page(self):
        page = man_page("troupe-tool", "0.1.0", read_help(TOOL), {})
        self.assertIn("troupe\\-tool \\- starts the ranks of a job\n", page)
        self.assertIn("\\fB\\-n\\fR, \\fB\\-\\-nproc\\fR \\fIN\\fR\nRanks to start (default: 1)\n", page)
        self.assertIn("\n\\&.And so on.\n", page)
        self.assertIn(".SH EXIT STATUS\n.PP\n0, or 2 for a wrong command line.\n", page)
        of_commands = {"info": read_help(INFO)}
        self.assertIn(".SS info\nWhat there is\n", man_page("ask", "1", read_help(WITH_COMMANDS), of_commands))

    def test_names_programs_as_they_are_installed(self):
        self.assertEqual(as_installed("build/release/apps/parameter_server, build/apps/troupe-run"),
                         "troupe-parameter-server, troupe-run")

    def test_completes_options_and_values(self):
        script = completion("tool", read_help(TOOL), {})
        self.assertEqual(completed(script, "_tool", "tool", "--co"), ["--colour", "--color"])
        self.assertEqual(completed(script, "_tool", "tool", "--color", "a"), ["auto", "always"])
        self.assertEqual(completed(script, "_tool", "tool", "-n", ""), [])
        self.assertIn("bash", completed(script, "_tool", "tool", "-n", "2", "bas"))

    def test_leaves_a_program_s_arguments_to_it(self):
        script = completion("tool", read_help(TOOL), {})
        self.assertEqual(completed(script, "_tool", "tool", "-n", "2", "./train", "--co"), [])

    def test_completes_subcommands(self):
        script = completion("ask", read_help(WITH_COMMANDS), {"info": read_help(INFO)})
        self.assertEqual(completed(script, "_ask", "ask", ""), ["-h", "--help", "info"])
        self.assertEqual(completed(script, "_ask", "ask", "info", "--j"), ["--json"])
        with tempfile.NamedTemporaryFile(prefix="value") as file:
            self.assertEqual(completed(script, "_ask", "ask", "info", "--json", file.name[:-1]), [file.name])


if __name__ == "__main__":
    unittest.main()
