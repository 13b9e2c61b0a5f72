#!/usr/bin/env python3
"""Tests of cmake/join_tests.py, which writes one source out of several tests."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "cmake"))
from join_tests import complaints, joined

TEST = """#include <gtest/gtest.h>
namespace a::test {
namespace {
int helper() { return 1; }
TEST(suite, name) { EXPECT_EQ(helper(), 1); }
}  // namespace
}  // namespace a::test
"""


class JoinTest(unittest.TestCase):
    def complain(self, **texts):
        return list(complaints({pathlib.Path(name): text for name, text in texts.items()}))

    def test_keeps_lines_and_names_apart(self):
        text = joined(pathlib.Path("x_test.cpp"), TEST).splitlines()
        self.assertEqual(text[0], '#line 1 "x_test.cpp"')
        self.assertEqual(text[1], "")  # an include, which comes first
        self.assertEqual(text[3], "namespace x_test_ {")

    def test_what_is_named_from_outside_stays_visible(self):
        before, after = "EXPECT_EQ(helper()", "EXPECT_EQ(a::test::helper()"
        self.assertIn("inline namespace x_test_ {", joined(pathlib.Path("x_test.cpp"), TEST.replace(before, after)))
        outside = TEST.replace("}  // namespace\n", "}  // namespace\nint other = helper();\n", 1)
        self.assertIn("inline namespace x_test_ {", joined(pathlib.Path("x_test.cpp"), outside))

    def test_refuses_cases_and_fixtures_of_one_name(self):
        self.assertEqual(self.complain(one=TEST, two=TEST.replace("name)", "other)")), [])
        self.assertEqual(self.complain(one=TEST, two=TEST), ["two and one both have suite, name"])
        fixture = "class job : public testing::Test {\n};\n"
        runs, ends = "TEST_F(job, runs) {}\n", "TEST_F(job, ends) {}\n"
        self.assertEqual(self.complain(one=runs, two=ends), [])  # of a header
        self.assertEqual(self.complain(one=fixture + runs, two=fixture + ends), ["two and one both have job"])

    def test_refuses_directives_among_includes(self):
        self.assertEqual(self.complain(one="#define SMALL\n#include <b.hpp>\n"),
                         ["one has a directive before its last include"])
        self.assertEqual(self.complain(one="#include <b.hpp>\n#define SMALL\n"), [])


if __name__ == "__main__":
    unittest.main()
