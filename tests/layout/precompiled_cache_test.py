"""A header whose comments alone changed is precompiled anew, whatever the compiler's cache has.

    precompiled_cache_test.py LAUNCHER COMPILER   how precompiled headers are compiled; the first has spaces

g++ knows a header that it has read once by the file's content, comments too.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

FLAGS = ["-std=c++20", "-I.", "-fpch-preprocess", "-Winvalid-pch", "-include", "all.hpp", "-MD"]


class folder:
    """A header, what precompiles it, and a source that includes it once more."""

    def __init__(self, path, launcher, compiler):
        self.path = pathlib.Path(path)
        self.command = [*launcher.split(), compiler, *FLAGS]
        self.write("all.hpp", '#include "kinds.hpp"\n')
        self.write("all.cpp", "")
        self.write("main.cpp", '#include "kinds.hpp"\nint main() {}\n')

    def write(self, name, text):
        (self.path / name).write_text(text)

    def compile(self, *arguments):
        return subprocess.run([*self.command, *arguments], cwd=self.path, capture_output=True, text=True,
                              env={**os.environ, "CCACHE_DIR": str(self.path / "cache")})

    def precompile(self):
        """From nothing, as in a fresh clone; the cache overlooks files that are younger than it is."""
        (self.path / "all.hpp.gch").unlink(missing_ok=True)
        time.sleep(1.1)
        done = self.compile("-x", "c++-header", "-o", "all.hpp.gch", "-c", "all.cpp")
        assert done.returncode == 0, done.stderr


def main():
    launcher, compiler = sys.argv[1:]
    with tempfile.TemporaryDirectory() as path:
        here = folder(path, launcher, compiler)
        for comment in ("one", "two"):
            here.write("kinds.hpp", f"#pragma once\n// {comment}\nenum class kind {{ a }};\n")
            here.precompile()
        done = here.compile("-o", "main.o", "-c", "main.cpp")
        assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    main()
