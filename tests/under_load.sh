#!/usr/bin/env bash
# Runs all tests but soak on a machine that has much else to do: half of the cores, the lowest priority,
# and others who compute on every core. What fails is listed at the end of each round, and fails this.
#   tests/under_load.sh [ROUNDS [BUILD_FOLDER [OPTION_OF_CTEST...]]]
# ROUNDS is TROUPE_SOAK_ROUNDS or 1 if left out, BUILD_FOLDER build/release. The load comes from
# stress-ng where it is installed, else from loops of the shell. What the tests printed stays in
# BUILD_FOLDER/under_load.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rounds=${1:-${TROUPE_SOAK_ROUNDS:-1}} build=${2:-build/release}
shift $(($# < 2 ? $# : 2))
mapfile -t usable < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | while IFS=- read -r from to; do seq "$from" "${to:-$from}"; done)
cores=${#usable[@]}
half=$(printf '%s\n' "${usable[@]:0:$(((cores + 1) / 2))}" | paste -sd,)
out=$build/under_load
mkdir -p "$out"

load=()
trap 'kill "${load[@]}" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
if command -v stress-ng >/dev/null; then
  nice -n 19 stress-ng --quiet --cpu "$cores" --switch 1 --temp-path "$out" &
  load+=($!)
else
  for ((i = 0; i < cores; ++i)); do
    nice -n 19 bash -c 'while kill -0 $PPID 2>&-; do for ((i = 0; i < 1000000; ++i)); do :; done; done' &
    load+=($!)
  done
fi

failed=0
for ((round = 1; round <= rounds; ++round)); do
  log=$out/round_$round.log
  start=$SECONDS
  if nice -n 19 taskset -c "$half" ctest --test-dir "$build" --label-exclude '^soak$' --parallel 2 \
    --schedule-random --output-on-failure --no-tests=error "$@" > "$log" 2>&1; then
    echo "round $round of $rounds on cores $half: all pass ($((SECONDS - start)) s)"
  else
    failed=1
    echo "round $round of $rounds on cores $half: see $log ($((SECONDS - start)) s)"
    sed -n '/^The following tests FAILED/,$p' "$log"
  fi
done
exit $failed
