#!/usr/bin/env bash
# lint.sh [FILES...]: clang-tidy (.clang-tidy) over all sources of the product but tests, several joined as the build
# joins them, since most of the time goes to the headers of others: a quarter of an hour of two cores. Over FILES, each
# by itself, which also finds an include that is missing in one of them.
#   TROUPE_SKIP_APT=1   do not install clang
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/versions.env
. cmake/versions.env
# shellcheck source=cmake/setup_common.sh
. cmake/setup_common.sh

need_programs python3 "clang-tidy-$CLANG_VERSION" "clang++-$CLANG_VERSION:clang-$CLANG_VERSION"
configure() { # DIRECTORY OPTIONS...
  mkdir -p build
  { cmake --preset lint -B "$@" && cmake --build "$1" --target troupe_schema; } >build/lint.log 2>&1 || {
    cat build/lint.log >&2
    fail "the lint preset cannot be configured (the messages are above)."
  }
}

files=()
if [ $# -gt 0 ]; then
  build=build/lint
  configure "$build"
  for file in "$@"; do [ ! -f "$file" ] || files+=("$file"); done
  options=()
  what="sources"
else
  build=build/lint_joined
  configure "$build" -DTROUPE_UNITY=ON
  mapfile -t files < <(python3 -c '
import json, sys
files = [entry["file"] for entry in json.load(open(sys.argv[1]))]
print("\n".join(file for file in files if file.endswith((".cpp", ".cxx")) and "/generated/" not in file))' "$build/compile_commands.json")
  what="joined sources"
  # A joined source includes the others, in which findings count.
  options=(--checks=-bugprone-suspicious-include '--header-filter=(/include/troupe/.*\.hpp|\.cpp)$')
fi
[ ${#files[@]} -gt 0 ] || fail "there is no source to look at."
# How many warnings there are in headers of others goes to the log.
printf '%s\0' "${files[@]}" |
  xargs -0 -P "${JOBS:-$(nproc)}" -n 1 "clang-tidy-$CLANG_VERSION" -p "$build" --quiet "${options[@]}" \
    2>build/lint.log || {
  echo "lint: there are findings" >&2
  exit 1
}
echo "lint: ${#files[@]} $what are clean"
