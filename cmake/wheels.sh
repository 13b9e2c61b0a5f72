# shellcheck shell=bash
# The wheels that Troupe links: which, whether a folder has them, and how they come there. Sourced, after versions.env
# and setup_common.sh.

# Wheel and version; the folder NAME-VERSION.dist-info says that it is there.
wheels=(
  "torch==$TORCH_VERSION"
  "nvidia-cuda-runtime==$NVIDIA_CUDA_RUNTIME_VERSION"
  "nvidia-cuda-cupti==$NVIDIA_CUDA_CUPTI_VERSION"
  "libucx-cu13==$LIBUCX_CU13_VERSION"
)
# The wheels serve C++ only, so whichever Python is here may fetch those of CPython 3.11: named so, pip
# also needs each platform tag named.
wheel_tags=(--no-deps --only-binary=:all: --implementation cp --python-version 3.11 --abi cp311 --abi none
  --platform manylinux2014_x86_64)
for glibc in {17..36}; do wheel_tags+=(--platform "manylinux_2_${glibc}_x86_64"); done
site_mib=2000  # unpacked, and the archives while they are unpacked

# site_is_complete SITE
site_is_complete() {
  local wheel name
  for wheel in "${wheels[@]}"; do
    name=${wheel%%==*}
    [ -f "$1/${name//-/_}-${wheel##*==}.dist-info/RECORD" ] || return 1
  done
}

# install_wheels SITE: the folder that SITE is in exists.
install_wheels() {
  local site=$1 folder
  folder=$(cd "$(dirname "$site")" && pwd)
  ! site_is_complete "$site" || return 0
  say "unpacking ${wheels[*]} into $site (0.6 GB to download, a minute or two)"
  need_disk "$site_mib" "$folder"
  rm -rf "$site.new" "$folder/tmp"
  mkdir -p "$folder/tmp"
  # pip unpacks in TMPDIR and moves: on the same disk, a rename.
  local pip=(python3 -m pip --disable-pip-version-check install --quiet --no-input --no-compile
    "${wheel_tags[@]}" --target "$site.new" --root-user-action=ignore)
  if ! TMPDIR="$folder/tmp" "${pip[@]}" "${wheels[@]}"; then
    rm -rf "$site.new" "$folder/tmp"
    need_disk "$site_mib" "$folder"
    fail "pip could not install the wheels (its message is above)." \
      "Without a network: check the connection and pip's settings (pip config list; HTTPS_PROXY). Then try again."
  fi
  # Whole, or not there: the old folder (or link) goes only when the new one is complete.
  if [ -L "$site" ]; then rm "$site"; elif [ -e "$site" ]; then mv "$site" "$site.old"; fi
  mv "$site.new" "$site"
  rm -rf "$site.old" "$folder/tmp"
  site_is_complete "$site" || fail "$site lacks some of ${wheels[*]}." "Remove $site and try again."
}
