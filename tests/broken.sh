#!/usr/bin/env bash
# Shows that the checks can fail: builds a copy of the sources that is broken on purpose, by one patch
# of tests/*/broken at a time, and wants the tests that the patch names to fail.
#   tests/broken.sh [PATCH...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD copy=$PWD/build/broken
patches=("$@")
[[ ${#patches[@]} -gt 0 ]] || patches=(tests/*/broken/*.patch)
rm -rf "$copy/sources.new" && mkdir -p "$copy/sources.new"
git ls-files -z | tar --null -T - -c | tar -x -C "$copy/sources.new"
mkdir -p "$copy/sources"
# Only what differs, so that only that is built anew.
(cd "$copy/sources.new" && find . -type f -print0) | while IFS= read -r -d '' file; do
  cmp -s "$copy/sources.new/$file" "$copy/sources/$file" && continue
  mkdir -p "$copy/sources/${file%/*}" && cp "$copy/sources.new/$file" "$copy/sources/$file"
done
ln -sfn "$root/.deps" "$copy/sources/.deps"
cd "$copy/sources"
missed=0
for patch in "${patches[@]}"; do
  patch -s -p1 < "$root/$patch"
  cmake --preset release > "$copy/log" 2>&1
  for test in $(sed -n 's/^Caught by: //p' "$root/$patch"); do
    cmake --build --preset release --target "$test" >> "$copy/log" 2>&1 || { tail -20 "$copy/log"; exit 2; }
    program=$(find build/release/tests -name "$test" ! -type d -perm -u+x)
    status=0
    timeout 300 "$program" --gtest_fail_fast > "$copy/out" 2>&1 || status=$?
    if ((status == 0)); then
      echo "MISSED $patch: $test passes"
      missed=1
    elif ((status < 128)) && ! grep -q '^\[  FAILED  \]' "$copy/out"; then
      echo "MISSED $patch: $test ends with status $status without a failure"
      missed=1
    else
      echo "caught $patch by $test: $(grep -m1 -iE 'seed [0-9]+' "$copy/out" || tail -1 "$copy/out")"
    fi
  done
  patch -s -R -p1 < "$root/$patch"
done
exit $missed
