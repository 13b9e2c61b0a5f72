#!/usr/bin/env bash
# shared.sh OUT OPTIONS...: builds Troupe as shared libraries from nothing, with these options of CMake, installs it,
# builds apps/hello against it and runs that on two ranks. Takes as long as a build.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$1
rm -rf "$out" && mkdir -p "$out"
cmake -S "$root" -B "$out/build" "${@:2}" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DTROUPE_TESTS=OFF > "$out/log"
cmake --build "$out/build" --parallel "$(nproc)" --target troupe_installed >> "$out/log"
cmake --install "$out/build" --prefix "$out/prefix" >> "$out/log"
for module in messages transport actors autograd optim; do
  [[ -f $out/prefix/lib/libtroupe_$module.so || -f $(echo "$out"/prefix/lib/*/libtroupe_$module.so) ]]
done
cmake -S "$root/apps/hello" -B "$out/hello" "${@:2}" -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=$out/prefix" >> "$out/log"
cmake --build "$out/hello" >> "$out/log"
ldd "$out/hello/hello" | grep libtroupe_actors.so > /dev/null
python3 "$root/tests/docs/run_program.py" --launcher "$out/prefix/bin/troupe-run" --ranks 2 --name hello \
  --document "$root/README.md" "$out/hello/hello"
