#!/usr/bin/env python3
"""Tests of what looks at public headers."""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import check_includes
import check_macros

ROOTS = ["/tree", "/build"]
OUTPUT = """# 0 "<built-in>"
#define __cplusplus 202002L
# 1 "/tree/actors/include/troupe/troupe.hpp" 1
#define TROUPE_MESSAGE(...) x
#define GONE 1
#undef GONE
# 1 "/usr/include/caf/all.hpp" 1
#define CAF_LOG 1
int f();
# 5 "/tree/actors/include/troupe/troupe.hpp" 2
"""


def wrong(text, name="troupe"):
    return list(check_macros.complaints(name, *check_macros.read_macros(text), ROOTS))


class MacrosTest(unittest.TestCase):
    def test_knows_where_a_macro_comes_from(self):
        macros, files = check_macros.read_macros(OUTPUT)
        self.assertEqual(macros["CAF_LOG"], "/usr/include/caf/all.hpp")
        self.assertEqual(macros["TROUPE_MESSAGE"], "/tree/actors/include/troupe/troupe.hpp")
        self.assertNotIn("GONE", macros)
        self.assertIn("/usr/include/caf/all.hpp", files)

    def test_is_content_with_ours_and_with_other_libraries(self):
        self.assertEqual(wrong(OUTPUT), [])

    def test_complains_of_a_macro_of_ours_with_another_name(self):
        self.assertEqual(len(wrong(OUTPUT + "#define FUTURE_EARLY 1\n")), 1)
        self.assertEqual(len(wrong('# 1 "/build/include/troupe/actors/x.hpp"\n#define X 1\n', "optim")), 1)
        self.assertEqual(wrong('# 1 "/tree/.deps/site/torch/include/a.h"\n#define X 1\n'), [])

    def test_complains_of_capn_proto(self):
        leak = '# 1 "/usr/include/kj/common.h"\n#define KJ_IF(x) x\n#define PLAIN 1\n'
        self.assertEqual(len(wrong(leak, "optim")), 1)
        self.assertIn("leaves 2 macros of Cap'n Proto defined, KJ_IF among them", wrong(leak, "optim")[0])
        self.assertEqual(wrong(leak, "schema"), [])

    def test_names_the_way_to_a_header(self):
        text = ('# 1 "/build/a.cpp"\n# 1 "/tree/actors/include/troupe/troupe.hpp" 1\n# 1 "/usr/include/x.h" 1 3\n'
                '# 2 "/tree/actors/include/troupe/troupe.hpp" 2\n# 1 "/build/include/troupe/actors/y.hpp" 1\n'
                '# 1 "/usr/include/kj/common.h" 1 3 4\n#define KJ_IF(x) x\n')
        self.assertTrue(wrong(text)[0].endswith("by way of troupe/troupe.hpp -> troupe/actors/y.hpp"))

    def test_complains_of_what_is_inside_a_node(self):
        self.assertEqual(len(wrong('# 1 "/build/include/troupe/actors/node/node_core.hpp"\n')), 1)
        self.assertEqual(wrong('# 1 "/build/include/troupe/actors/node/node_core.hpp"\n', "simulation"), [])


class IncludesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, path, *lines):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text("".join(f"#include {line}\n" for line in lines), encoding="utf-8")

    def wrong(self):
        return list(check_includes.complaints(self.root))

    def test_is_content_with_headers_that_are_there(self):
        self.write("actors/include/troupe/troupe.hpp", '"troupe/actors/node.hpp"', "<vector>")
        self.write("actors/node.hpp", '"troupe/messages/a.capnp.h"', "<troupe/troupe.hpp>")
        self.write("actors/node.cpp", '"troupe/actors/x_internal.hpp"')
        self.assertEqual(self.wrong(), [])

    def test_complains_of_what_is_not_installed(self):
        self.write("actors/x_internal.hpp")
        self.write("apps/run/y.hpp")
        self.write("actors/node.hpp", '"troupe/actors/x_internal.hpp"', '"troupe/apps/run/y.hpp"', '"troupe/none.hpp"')
        self.assertEqual(len(self.wrong()), 3)

    def test_complains_of_includes_of_another_form(self):
        self.write("actors/node.hpp", '"actors/other.hpp"')
        self.assertEqual(len(self.wrong()), 1)


if __name__ == "__main__":
    unittest.main()
