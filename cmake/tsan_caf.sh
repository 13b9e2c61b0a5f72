#!/usr/bin/env bash
# Builds CAF's core with the thread sanitizer into .deps/caf-tsan, for the tsan preset: Debian's library
# is not instrumented, and a correct program over it gives dozens of false reports. The source is that of
# Debian's source package, checked against cmake/versions.env. Nothing of the system is changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. cmake/versions.env
. cmake/setup_common.sh

prefix=$PWD/.deps/caf-tsan
stamp=$prefix/built-from
wanted="$CAF_VERSION $CAF_SHA256"
tarball=$PWD/.deps/actor-framework_$CAF_VERSION.orig.tar.gz

tarball_is_good() { [ -f "$tarball" ] && sha256sum --quiet --check --status <<<"$CAF_SHA256  $tarball"; }

# apt with lists of its own: no root, and the machine's sources stay as they are.
fetch_tarball() {
  local lists=.deps/apt-source mirror
  rm -rf "$lists"
  mkdir -p "$lists/lists/partial" "$lists/cache/archives/partial"
  # shellcheck disable=SC2016  # apt expands these
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Origin: Debian' 2>/dev/null |
    sort -u | awk '$2 == "bookworm" {print $1; exit}' || true)
  cat >"$lists/debian.sources" <<SOURCES
Types: deb-src
URIs: ${mirror:-http://deb.debian.org/debian/}
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
  local apt=(apt-get -qq -o "Dir::Etc::sourcelist=$PWD/$lists/debian.sources" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$PWD/$lists/lists" -o "Dir::Cache=$PWD/$lists/cache" -o APT::Sandbox::User=root)
  # Some mirrors lack the packaging half of the source package; the original tarball is all we need, and
  # its checksum is what decides.
  (cd "$lists" && "${apt[@]}" update && "${apt[@]}" source --download-only actor-framework) \
    >"$lists/log" 2>&1 || true
  [ ! -f "$lists/${tarball##*/}" ] || mv "$lists/${tarball##*/}" "$tarball"
  tarball_is_good || {
    cat "$lists/log" >&2
    fail "the source of CAF $CAF_VERSION could not be fetched (apt's messages are above)." \
      "Check the network, or put ${tarball##*/} of Debian's source package actor-framework into .deps."
  }
  rm -rf "$lists"
}

[ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || exit 0
mkdir -p .deps
exec 9>.deps/lock
flock 9
need_disk 300 .deps
say "building CAF $CAF_VERSION with the thread sanitizer (once, some minutes)"
tarball_is_good || fetch_tarball

work=$PWD/.deps/caf-tsan.work
rm -rf "$work" "$prefix"
mkdir -p "$work/source"
tar -xzf "$tarball" -C "$work/source" --strip-components=1
build() {
  cmake -S "$work/source" -B "$work/build" -G Ninja -Wno-dev -DCMAKE_INSTALL_PREFIX="$prefix" \
    -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-O1 -g1 -fsanitize=thread -fno-omit-frame-pointer -w" \
    -DCMAKE_CXX_STANDARD=17 -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache || true)" \
    -DCAF_NO_IO=yes -DCAF_NO_TOOLS=yes -DCAF_NO_EXAMPLES=yes -DCAF_NO_UNIT_TESTS=yes \
    -DCAF_NO_OPENSSL=yes -DCAF_NO_OPENCL=yes -DCAF_NO_PYTHON=yes &&
    cmake --build "$work/build" && cmake --install "$work/build"
}
build >.deps/caf-tsan.log 2>&1 || {
  tail -n 30 .deps/caf-tsan.log >&2
  fail "CAF could not be built with the thread sanitizer." "All of its messages are in .deps/caf-tsan.log."
}
rm -rf "$work"
printf '%s\n' "$wanted" >"$stamp"
