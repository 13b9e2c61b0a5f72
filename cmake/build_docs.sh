#!/usr/bin/env bash
# build_docs.sh [FOLDER]: the site of guides and reference by Doxygen, FOLDER/html (build/docs if left out). A warning
# is an error.
#   TROUPE_SKIP_APT=1   do not install Doxygen
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/setup_common.sh
. cmake/setup_common.sh

need_programs doxygen python3
out=$(realpath -m "${1:-build/docs}")
rm -rf "$out"
mkdir -p "$out/input"
TROUPE_DOCS_OUT=$out
TROUPE_DOCS_INPUT=$(cmake/docs.py "$out/input" | tr '\n' ' ')
TROUPE_VERSION=$(sed -n 's/^project(troupe VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
export TROUPE_DOCS_OUT TROUPE_DOCS_INPUT TROUPE_VERSION
# The files that Doxygen reads have the lines of those that they were made from.
doxygen docs/Doxyfile 2>"$out/log" || status=$?
sed "s|$out/input/||" "$out/log" >&2
[ "${status:-0}" = 0 ] || fail "Doxygen has warnings (above)."
echo "docs: $out/html/index.html"
