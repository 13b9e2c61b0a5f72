#!/usr/bin/env bash
# install_wheels.sh [FOLDER]: unpacks the wheels that Troupe links into FOLDER. Left out, it is troupe/site in the
# folder of the installed libraries, where programs, find_package(Troupe) and pkg-config look for them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=cmake/versions.env
. "$here/versions.env"
# shellcheck source=cmake/setup_common.sh
. "$here/setup_common.sh"
# shellcheck source=cmake/wheels.sh
. "$here/wheels.sh"

to_lib=@TROUPE_DATA_TO_LIB@  # from this folder; set where this is installed
site=${1:-}
if [ -z "$site" ]; then
  [[ $to_lib != @* ]] || fail "this is not installed; say into which folder: $0 FOLDER"
  site=$(realpath -ms "$here/$to_lib/troupe/site")
fi
python3 -m pip --version >/dev/null 2>&1 || fail "pip was not found." "Install Python's pip: apt-get install python3-pip"
mkdir -p "$(dirname "$site")"
install_wheels "$site"
say "the wheels are in $site"
