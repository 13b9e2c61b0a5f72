#!/usr/bin/env bash
# Brings this machine to where Troupe builds: installs the Debian packages that are missing and unpacks
# the wheels that cmake/versions.env pins into .deps/site, libaegis into .deps/libaegis, the digits that a
# program learns into .deps/digits.csv.gz, and the text that another reads into .deps/bible.txt. Does
# nothing, quickly, when all is there.
#   TROUPE_SKIP_APT=1   leave Debian packages alone (they were installed some other way)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/versions.env
. cmake/versions.env
# shellcheck source=cmake/setup_common.sh
. cmake/setup_common.sh
# shellcheck source=cmake/wheels.sh
. cmake/wheels.sh

# bash and flock come with every Debian; the compiler, CMake, make, git and Python are the user's.
packages=(
  "libcaf-dev" "capnproto" "libcapnp-dev" "libsodium-dev" "libfmt-dev" "libspdlog-dev"
  "libcli11-dev" "nlohmann-json3-dev" "zlib1g-dev" "libgtest-dev" "libgmock-dev" "libbenchmark-dev"
  "ninja-build" "ccache" "clang-format-$CLANG_FORMAT_VERSION" "iproute2" "pkgconf"
)
site=.deps/site

check_machine() {
  [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] ||
    fail "Troupe builds on Linux on x86-64; this is $(uname -s) on $(uname -m)."
  local tool
  for tool in c++ cmake git python3; do
    command -v "$tool" >/dev/null ||
      fail "$tool was not found." "Install a compiler, CMake, git and Python: apt-get install build-essential cmake git python3"
  done
  local cmake
  cmake=$(cmake --version | awk 'NR == 1 {print $3}')
  [ "$(printf '%s\n' 3.25 "$cmake" | sort -V | head -n 1)" = 3.25 ] ||
    fail "CMake is $cmake, too old for the presets." "Put CMake 3.25 or newer first in PATH."
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))' ||
    fail "python3 is $(python3 -V 2>&1), too old for pip's options." "Put Python 3.8 or newer first in PATH."
}

digits=.deps/digits.csv.gz
digits_are_good() { [ -f "$digits" ] && sha256sum --quiet --check --status <<<"$DIGITS_SHA256  $digits"; }

text=.deps/bible.txt
text_is_good() { [ -f "$text" ] && sha256sum --quiet --check --status <<<"$BIBLE_TEXT_SHA256  $text"; }

install_packages() {
  [ -z "${TROUPE_SKIP_APT:-}" ] || return 0
  { site_is_complete "$site" && digits_are_good && { aegis_is_there || aegis_archive_is_good; }; } ||
    python3 -m pip --version >/dev/null 2>&1 || packages+=(python3-pip)
  text_is_good || packages+=(bible-kjv)
  command -v dpkg-query >/dev/null ||
    fail "this is not a Debian system." "Install the like of: ${packages[*]}. Then set TROUPE_SKIP_APT=1."
  local missing=() package installed
  installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' 2>/dev/null) "
  for package in "${packages[@]}"; do
    [[ $installed == *" installed:$package "* ]] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  apt_install "${missing[@]}"
}

aegis=.deps/libaegis
aegis_archive=pyaegis-$PYAEGIS_VERSION.tar.gz
aegis_archive_is_good() { sha256sum --quiet --check --status <<<"$PYAEGIS_SHA256  .deps/$aegis_archive" 2>/dev/null; }
aegis_is_there() { [ "$(cat "$aegis/version" 2>/dev/null)" = "$PYAEGIS_VERSION" ]; }

# download WHAT BY-HAND PIP-ARGUMENTS...: with pip, into an empty .deps/tmp.
download() {
  local what=$1 by_hand=$2
  shift 2
  rm -rf .deps/tmp
  mkdir -p .deps/tmp
  ! TMPDIR="$PWD/.deps/tmp" python3 -m pip --disable-pip-version-check download --quiet --no-input \
    --dest .deps/tmp "$@" || return 0
  rm -rf .deps/tmp
  fail "pip could not download $what (its message is above)." \
    "Without a network: put $by_hand. Then run \`make setup\` again."
}

# pip checks the archive before it asks the package what it needs, for which it fetches what builds that.
download_aegis() {
  say "fetching libaegis, of the sources of pyaegis==$PYAEGIS_VERSION (1 MB to download)"
  download "the sources of pyaegis==$PYAEGIS_VERSION" "$aegis_archive into .deps" \
    --no-deps --ignore-requires-python --no-binary pyaegis --require-hashes \
    -r <(printf 'pyaegis==%s --hash=sha256:%s\n' "$PYAEGIS_VERSION" "$PYAEGIS_SHA256")
  mv ".deps/tmp/$aegis_archive" .deps
  rm -rf .deps/tmp
}

install_aegis() {
  ! aegis_is_there || return 0
  aegis_archive_is_good || download_aegis
  rm -rf "$aegis" "$aegis.new"
  mkdir "$aegis.new"
  # With the time of now, so that objects of another version are older.
  tar --no-same-owner --touch -xzf ".deps/$aegis_archive" -C "$aegis.new" --strip-components=1 \
    "pyaegis-$PYAEGIS_VERSION/"{LICENSE,c_src}
  printf '%s\n' "$PYAEGIS_VERSION" >"$aegis.new/version"
  mv "$aegis.new" "$aegis"
}

install_digits() {
  ! digits_are_good || return 0
  say "taking the handwritten digits out of scikit-learn==$SCIKIT_LEARN_VERSION (9 MB to download)"
  download "scikit-learn==$SCIKIT_LEARN_VERSION" "sklearn/datasets/data/digits.csv.gz of that wheel to $digits" \
    "${wheel_tags[@]}" "scikit-learn==$SCIKIT_LEARN_VERSION"
  python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' \
    .deps/tmp/scikit_learn-*.whl sklearn/datasets/data/digits.csv.gz >.deps/tmp/digits.csv.gz ||
    fail "the wheel of scikit-learn==$SCIKIT_LEARN_VERSION has no digits (Python's message is above)."
  mv .deps/tmp/digits.csv.gz "$digits"
  rm -rf .deps/tmp
  digits_are_good || fail "$digits is not the file that cmake/versions.env pins (DIGITS_SHA256)." \
    "Remove it, see that SCIKIT_LEARN_VERSION is right, and run \`make setup\` again."
}

# The whole text, a verse in a line, without the verses' numbers.
write_text() {
  ! text_is_good || return 0
  if ! command -v bible >/dev/null; then  # only where apt is left alone
    say "without the text of apps/rnn: there is no \`bible\` (Debian's package bible-kjv); its --text takes any other"
    return 0
  fi
  say "writing the text of Debian's package bible-kjv to $text"
  bible -f Gen1:1-Rev22:21 </dev/null | sed 's/^[^ ]* //' >"$text.new" ||
    fail "\`bible\` could not print its text (its message is above)." "Reinstall bible-kjv and bible-kjv-text."
  mv "$text.new" "$text"
  text_is_good || fail "$text is not the text that cmake/versions.env pins (BIBLE_TEXT_SHA256)." \
    "Reinstall bible-kjv and bible-kjv-text of Debian 12, remove $text, and run \`make setup\` again."
}

check_machine
mkdir -p .deps
exec 9>.deps/lock
flock -n 9 || { say "waiting for another set-up of this checkout"; flock 9; }
install_packages
install_wheels "$site"
install_aegis
install_digits
write_text
