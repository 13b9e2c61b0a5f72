#!/usr/bin/env bash
# subproject.sh OUT OPTIONS...: builds the program of a project that has Troupe as a part (subproject/), with these
# options of CMake, and runs it on two ranks. Takes as long as a build.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$1
rm -rf "$out" && mkdir -p "$out"
cmake -S "$here/subproject" -B "$out" "${@:2}" -DCMAKE_BUILD_TYPE=Release -DWAY=fetch_content \
  "-DTROUPE_FOLDER=$root" > "$out/log"
cmake --build "$out" --parallel "$(nproc)" --target train troupe-run >> "$out/log"
python3 "$root/tests/docs/run_program.py" --launcher "$(find "$out" -name troupe-run -type f)" --ranks 2 --name hello \
  --document "$root/README.md" "$out/train"
