#!/usr/bin/env python3
"""Tests of the documents' tests."""

import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cmake"))

import docs as site
from blocks import DocError, read_blocks
from check_links import broken
from count_diff import changed_lines, complaint
from extract import cpp_blocks, expected, precompiled, programs, snippets
from same_program import difference
from sequence_diagram import DiagramError, svg

PAGE = """# A page, with a heading

```cpp
#include <map>
struct first {};
```

Text.

```cpp body
first x;
```

```cpp program=hello ranks=2
int main() {}
```

```text output=hello
[0] hello
```

```sh
make
```
"""


class DocsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def page(self, text):
        path = self.root / "a-page.md"
        path.write_text(text, encoding="utf-8")
        return path

    def test_precompiles_what_a_program_includes(self):
        for header in ("torch/nn/modules/linear.h", "torch/optim/sgd.h", "troupe/autograd.hpp", "troupe/optim.hpp"):
            self.assertEqual(precompiled(f"#include <{header}>"), "torch")
        for header in ("troupe/troupe.hpp", "ATen/ATen.h"):
            self.assertEqual(precompiled(f"#include <{header}>"), "troupe")

    def test_finds_blocks_and_their_lines(self):
        blocks = read_blocks(self.page(PAGE))
        self.assertEqual([b.language for b in blocks], ["cpp", "cpp", "cpp", "text", "sh"])
        self.assertEqual(blocks[0].line, 4)

    def test_a_page_becomes_one_source(self):
        page = self.page(PAGE)
        source = snippets(page, self.root)
        self.assertLess(source.index("#include <map>"), source.index("namespace docs_a_page"))
        self.assertIn("struct first {};", source)
        self.assertIn(f'#line 11 "{page.resolve()}"\nfirst x;\n', source)
        self.assertNotIn("int main", source)

    def test_programs_and_their_output(self):
        page = self.page(PAGE)
        self.assertEqual([(name, ranks) for name, ranks, _ in programs(page)], [("hello", 2)])
        self.assertEqual(expected(page, "hello"), ["[0] hello"])
        self.assertEqual(expected(page, "other"), [])

    def test_unknown_fences_are_errors(self):
        for fence in ("cpp boddy", "cpp ranks=2", "cpp program=x body", "c++", "cpp body\nint main() {}"):
            with self.assertRaises(DocError, msg=fence):
                cpp_blocks(self.page(f"```{fence}\n```\n"))
        for text in ("```cpp\n", "- x\n  ```cpp\n  int x;\n  ```\n", "```cpp program=x\nint x;\n```\n",
                     "```cpp program=x\nint main() { troupe::node x; }\n```\n"):
            with self.assertRaises(DocError, msg=text):
                cpp_blocks(self.page(text))

    def test_counts_lines_that_differ(self):
        self.assertEqual(changed_lines(["a", "b", "c"], ["a", "x", "c", "y"]), ["x", "y"])
        page = ("```cpp program=alone\nint main() {\n}\n```\n\n"
                "```cpp program=spread\nint main() {\n\n  go();\n}\n```\n")
        check = lambda text, most: complaint(self.page(page + text), "alone", "spread", most)
        self.assertIsNone(check("**1 lines** more\n", 1))
        self.assertIn("more than 0:\n    go();", check("**1 lines** more\n", 0))
        self.assertIn("says 2 lines, and 1 differ", check("**2 lines** more\n", 9))
        self.assertIn("does not say", check("", 9))
        self.assertIn("no program called 'gone'", complaint(self.page(page), "gone", "spread", 9))

    def test_compares_a_source_with_a_program(self):
        source, page = self.root / "main.cpp", self.page(PAGE)
        source.write_text("int main() {}\n", encoding="utf-8")
        self.assertEqual(difference(page, "hello", source), "")
        source.write_text("int main() { }\n", encoding="utf-8")
        self.assertIn("+int main() { }\n", difference(page, "hello", source))
        with self.assertRaises(KeyError):
            difference(page, "gone", source)

    def test_links(self):
        (self.root / "other.md").write_text("# Here & there\n", encoding="utf-8")
        good = ("[a](other.md) [b](other.md#here--there) [c](#a) ![d](other.md) [e](https://x.y/z) "
                "`[f](gone.md)` <img src=\"other.md\">\n# A\n```sh\n[g](gone.md)\n```\n")
        self.assertEqual(list(broken(self.page(good))), [])
        bad = "[a](gone.md) [b](other.md#gone) <source srcset=\"gone.svg\"> [c](#gone)\n"
        self.assertEqual(len(list(broken(self.page(bad)))), 4)

    def test_the_site_s_pages_keep_their_lines(self):
        for path in site.pages():
            self.assertEqual(site.page(path).count("\n"), len(path.read_text(encoding="utf-8").splitlines()), path)

    def test_links_lead_to_the_site(self):
        guide = site.ROOT / "docs" / "stores.md"
        links = {"[a](../README.md)": "[a](index.html)", "[`b`](transport.md#threads)":
                 "[`b`](page_docs_transport.html#page_docs_transport_threads)",
                 "[c](#a-store)": "[c](page_docs_stores.html#page_docs_stores_a-store)",
                 "[d](../Makefile)": "d", "[e](https://x.y)": "[e](https://x.y)", "`[f](g.md)`": "`[f](g.md)`",
                 "[two\nlines](../README.md)": "[two\nlines](index.html)",
                 "![h](images/i.svg)": "![h](i.svg)"}
        for before, after in links.items():
            self.assertEqual(site.change_links(guide, before), after)

    def test_draws_sequence_diagrams(self):
        picture = svg("sequenceDiagram\n  box left\n  participant A as a < b\n  end\n  participant B\n"
                      "  A->>B: go\n  B-->>A: come\n  Note over A,B: done\n")
        texts = [text.text for text in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(set(texts), {"left", "a < b", "B", "go", "come", "done"})
        for wrong in ("loop x", "A->>C: go"):
            with self.assertRaises(DiagramError):
                svg(f"sequenceDiagram\n  participant A\n  {wrong}\n")


if __name__ == "__main__":
    unittest.main()
