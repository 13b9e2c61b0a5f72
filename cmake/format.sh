#!/usr/bin/env bash
# format.sh [--check]: formats every C++ file that git tracks or would track, or says which are not formatted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. cmake/versions.env
. cmake/setup_common.sh
tool=clang-format-$CLANG_FORMAT_VERSION
command -v "$tool" >/dev/null || fail "$tool was not found." "Run \`make setup\`."
mapfile -d '' -t files < <(git ls-files -z --cached --others --exclude-standard -- '*.hpp' '*.cpp' | sort -zu)
existing=()
for file in "${files[@]}"; do [ ! -f "$file" ] || existing+=("$file"); done
[ ${#existing[@]} -gt 0 ] || fail "git lists no C++ file here." "Run this in a clone of the repository."
if [ "${1:-}" = --check ]; then
  printf '%s\0' "${existing[@]}" | xargs -0 -P "$(nproc)" -n 32 "$tool" --dry-run -Werror ||
    { echo "format-check: run \`make format\`" >&2; exit 1; }
  echo "format-check: ${#existing[@]} files are formatted"
else
  printf '%s\0' "${existing[@]}" | xargs -0 "$tool" -i
fi
