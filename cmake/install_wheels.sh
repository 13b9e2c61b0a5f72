#!/usr/bin/env bash
# install_wheels.sh [FOLDER]: unpacks the wheels that Troupe links into FOLDER. Left out, it is lib/troupe/site of the
# place where this file is installed, which programs and find_package(Troupe) look into first.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=cmake/versions.env
. "$here/versions.env"
# shellcheck source=cmake/setup_common.sh
. "$here/setup_common.sh"
# shellcheck source=cmake/wheels.sh
. "$here/wheels.sh"

site=${1:-}
if [ -z "$site" ]; then
  [ "$(basename "$(dirname "$here")")" = share ] || fail "this is not installed; say into which folder: $0 FOLDER"
  site=$(dirname "$(dirname "$here")")/lib/troupe/site
fi
python3 -m pip --version >/dev/null 2>&1 || fail "pip was not found." "Install Python's pip: apt-get install python3-pip"
mkdir -p "$(dirname "$site")"
install_wheels "$site"
say "the wheels are in $site"
