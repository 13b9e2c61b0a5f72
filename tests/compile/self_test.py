#!/usr/bin/env python3
"""Tests of what compares the compiler's errors."""

import sys
import unittest

sys.dont_write_bytecode = True
from check import cases_in, command_for, complaints, errors_in, texts_of_assertions

SOURCE = """#include "a.hpp"
// compiles
void good();

// error: too
// few
void bad() { f(); }

// error: no match
// also: name it
void worse() {
  g();
}
"""
IN_HEADER = """/x/a.hpp: In instantiation of 'auto f() [with T = int]':
/x/cases.cpp:7:15:   required from here
/x/a.hpp:9:1: error: static assertion failed: too few arguments
/x/a.hpp:9:1: note: '(1 < 0)' evaluates to false
"""
IN_SOURCE = """/x/cases.cpp: In function 'void worse()':
/x/cases.cpp:12:4: error: no match for g
/x/a.hpp:3:1: note: candidate
/x/cases.cpp:12:4: error: please name it
"""


class CheckTest(unittest.TestCase):
    def wrong(self, output, source=SOURCE):
        return complaints("cases.cpp", source, output)[0]

    def test_reads_cases(self):
        self.assertEqual([(c.line, c.kind, c.text, c.also) for c in cases_in(SOURCE)],
                         [(2, "compiles", None, []), (5, "error", "too few", []),
                          (9, "error", "no match", ["name it"])])

    def test_gives_an_error_to_the_line_that_it_was_required_from(self):
        self.assertEqual(errors_in(IN_HEADER + IN_SOURCE, "cases.cpp"),
                         [[7, "too few arguments"], [12, "no match for g"], [12, "please name it"]])

    def test_gives_an_error_in_a_macro_to_where_it_is_used(self):
        output = ("/x/a.hpp:2:3: error: no f\n"
                  "/x/cases.cpp:6:1: note: in expansion of macro 'F'\n")
        self.assertEqual(errors_in(output, "cases.cpp"), [[6, "no f"]])

    def test_is_content_with_the_errors_that_are_wanted(self):
        self.assertEqual(self.wrong(IN_HEADER + IN_SOURCE), [])

    def test_complains_of_a_case_without_an_error(self):
        self.assertEqual(len(self.wrong(IN_SOURCE)), 1)

    def test_complains_of_another_first_error(self):
        first = "/x/cases.cpp:7:15: error: tuple index must be in range\n"
        self.assertEqual(len(self.wrong(first + IN_HEADER + IN_SOURCE)), 1)

    def test_complains_of_a_later_error_that_is_missing(self):
        self.assertEqual(len(self.wrong(IN_HEADER + IN_SOURCE.replace("name it", "x"))), 1)

    def test_complains_of_what_compiles_no_more(self):
        self.assertEqual(
            len(self.wrong("/x/cases.cpp:3:1: error: no\n" + IN_HEADER + IN_SOURCE)), 1)

    def test_complains_of_errors_that_belong_to_no_case(self):
        self.assertEqual(len(self.wrong("/x/a.hpp:1:1: error: no\n" + IN_HEADER + IN_SOURCE)), 1)

    def test_finds_a_command_beside_sources_that_are_yet_to_be_generated(self):
        entries = [{"directory": "/", "file": "no/such/source.cpp", "command": "c++ -c a.cpp"},
                   {"directory": "/", "file": __file__, "command": "cache c++ -O1 -o b.o -c b.py"}]
        command, folder = command_for(__file__, entries, "c++")
        self.assertEqual((command[:2], folder), (["c++", "-O1"], "/"))

    def test_reads_the_texts_of_assertions(self):
        text = ('static_assert(sizeof(x) == f(")"), "one, "\n  "two \\"x\\"");\n'
                "static_assert(true);\n"
                'static_assert(!a<b, c>,   \\\n   "three");   \\\n')
        self.assertEqual(texts_of_assertions(text), ['one, two "x"', "three"])


if __name__ == "__main__":
    unittest.main()
