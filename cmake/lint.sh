#!/usr/bin/env bash
# lint.sh [FILES...]: clang-tidy (.clang-tidy) over the sources of the product, or over FILES, with the commands of the
# lint preset. It reads libtorch's headers anew for each source: half an hour of two cores for all.
#   TROUPE_SKIP_APT=1   do not install clang
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/versions.env
. cmake/versions.env
# shellcheck source=cmake/setup_common.sh
. cmake/setup_common.sh

need_programs "clang-tidy-$CLANG_VERSION" "clang++-$CLANG_VERSION:clang-$CLANG_VERSION"
build=build/lint
mkdir -p build
{ cmake --preset lint && cmake --build --preset lint --target troupe_schema; } >build/lint.log 2>&1 || {
  cat build/lint.log >&2
  fail "the lint preset cannot be configured (the messages are above)."
}

files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(git ls-files --cached --others --exclude-standard -- \
    {messages,transport,actors,autograd,optim,apps}'/*.cpp' ':!apps/hello' | sort -u)
fi
existing=()
for file in "${files[@]}"; do [ ! -f "$file" ] || existing+=("$file"); done
[ ${#existing[@]} -gt 0 ] || fail "there is no source to look at."
# How many warnings there are in headers of others goes to the log.
printf '%s\0' "${existing[@]}" |
  xargs -0 -P "${JOBS:-$(nproc)}" -n 1 "clang-tidy-$CLANG_VERSION" -p "$build" --quiet 2>build/lint.log || {
  echo "lint: there are findings" >&2
  exit 1
}
echo "lint: ${#existing[@]} sources are clean"
