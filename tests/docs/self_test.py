#!/usr/bin/env python3
"""Tests of the documents' tests."""

import tempfile
import unittest
from pathlib import Path

from blocks import DocError, read_blocks
from check_links import broken
from count_diff import changed_lines, complaint
from extract import cpp_blocks, expected, programs, snippets

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
        for text in ("```cpp\n", "- x\n  ```cpp\n  int x;\n  ```\n", "```cpp program=x\nint x;\n```\n"):
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

    def test_links(self):
        (self.root / "other.md").write_text("# Here & there\n", encoding="utf-8")
        good = ("[a](other.md) [b](other.md#here--there) [c](#a) ![d](other.md) [e](https://x.y/z) "
                "`[f](gone.md)` <img src=\"other.md\">\n# A\n```sh\n[g](gone.md)\n```\n")
        self.assertEqual(list(broken(self.page(good))), [])
        bad = "[a](gone.md) [b](other.md#gone) <source srcset=\"gone.svg\"> [c](#gone)\n"
        self.assertEqual(len(list(broken(self.page(bad)))), 4)


if __name__ == "__main__":
    unittest.main()
