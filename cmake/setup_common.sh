# shellcheck shell=bash
# What the set-up scripts share: messages that say what to do, apt, and a check of the disk. Sourced.

say() { printf 'setup: %s\n' "$1"; }

# fail WHAT [WHAT-TO-DO]
fail() {
  printf 'setup: %s\n' "$1" >&2
  [ $# -lt 2 ] || printf 'setup: %s\n' "$2" >&2
  exit 1
}

# need_disk MIB FOLDER
need_disk() {
  local free
  free=$(df -Pm "$2" | awk 'NR == 2 {print $4}')
  [ "$free" -ge "$1" ] ||
    fail "$1 MiB are needed on the disk of $(cd "$2" && pwd), $free are free." "Make room, or make $2 a link to a folder on a larger disk."
}

# apt_install PACKAGES...
apt_install() {
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "Debian packages are missing, and this is neither root nor a user with sudo." \
      "As root, run: apt-get update && apt-get install --no-install-recommends $*"
    as_root=(sudo)
  fi
  say "installing Debian packages: $*"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300)
  # A dead third-party source must not stop us: the installation itself is the check.
  "${apt[@]}" update || say "apt-get update had errors (above); going on with the lists that are there"
  "${apt[@]}" install -y --no-install-recommends "$@" >.deps/apt.log || {
    tail -n 20 .deps/apt.log >&2
    fail "apt-get could not install: $*" \
      "Its messages are above (all in .deps/apt.log). Mend a missing network or a full disk (df -h /); the packages are of Debian 12. Then run \`make setup\` again."
  }
}

# need_programs PROGRAM[:PACKAGE]...: installs those that are missing; PACKAGE is PROGRAM if left out.
need_programs() {
  local entry missing=()
  for entry; do
    command -v "${entry%%:*}" >/dev/null || missing+=("${entry##*:}")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ -n "${TROUPE_SKIP_APT:-}" ] || ! command -v apt-get >/dev/null; then
    fail "${missing[*]}: missing, and TROUPE_SKIP_APT is set or this is not a Debian system." "Install the like of them."
  fi
  mkdir -p .deps
  apt_install "${missing[@]}"
}
