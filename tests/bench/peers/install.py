"""Brings the peers' wheels into .deps/peers, once."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
FOLDER = REPOSITORY / ".deps" / "peers"
SITE = FOLDER / "site"
STAMP = FOLDER / "installed"
VERSIONS = REPOSITORY / "cmake" / "versions.env"
NEEDED_BYTES = 9_000_000_000  # 3.6 GB, and the archives while they are unpacked

# Wheels that the library itself pins too, and that the peers need in the same version.
SHARED = ("TORCH", "NVIDIA_CUDA_RUNTIME", "NVIDIA_CUDA_CUPTI", "NVIDIA_NCCL_CU13")


def wheels(text):
    """The pinned wheels of a versions file: its PEER_ lines, and the shared ones."""
    pinned = dict(re.findall(r"^([A-Z0-9_]+)_VERSION=(\S+)$", text, re.MULTILINE))
    names = {name: name for name in SHARED if name in pinned}
    names.update({name: name[len("PEER_") :] for name in pinned if name.startswith("PEER_")})
    return sorted(
        f"{short.lower().replace('_', '-')}=={pinned[name]}" for name, short in names.items()
    )


def ensure():
    """Installs what is missing. Returns why the peers cannot be used, or None."""
    wanted = wheels(VERSIONS.read_text())
    if STAMP.exists() and STAMP.read_text().split() == wanted:
        return None
    FOLDER.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(FOLDER).free < NEEDED_BYTES:
        return f"not installed: {FOLDER} has less than {NEEDED_BYTES // 10**9} GB free"
    print("installing the peers into .deps/peers (3.6 GB, one to two minutes)", file=sys.stderr)
    return install(wanted)


def install(wanted):
    STAMP.unlink(missing_ok=True)
    shutil.rmtree(SITE, ignore_errors=True)
    unpacking = FOLDER / "unpacking"  # on the same disk, so that pip can move and need not copy
    unpacking.mkdir(exist_ok=True)
    # One call: a second one would not merge into the packages' common folder.
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
    ]
    command += [
        "--no-deps",
        "--no-compile",
        "--root-user-action=ignore",
        "--target",
        str(SITE),
        *wanted,
    ]
    environment = {**os.environ, "TMPDIR": str(unpacking)}
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
    shutil.rmtree(unpacking, ignore_errors=True)
    if done.returncode != 0:
        printed = [line for line in done.stderr.splitlines() if line.strip()]
        return f"not installed: {printed[-1] if printed else 'pip failed'}"
    STAMP.write_text("\n".join(wanted) + "\n")
    return None
