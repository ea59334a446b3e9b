# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Shared by the shell scripts. Source it first: it finds the checkout and determines which tools run.

set -euo pipefail

# The distribution's tools first: a private python3 would lack the packaged modules.
export PATH="/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH"
export PYTHONDONTWRITEBYTECODE=1
# One order of sort and comm for whoever runs them: scripts/setup compares lists of earlier runs.
export LC_ALL=C.UTF-8

# The checkout, as an absolute path without symbolic links.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck disable=SC2034
readonly root

# Where Python finds the packages of this checkout; for pytest, tests/pytest.ini has it.
export PYTHONPATH="$root/tests:$root/scripts"

step() { printf '\033[1m== %s\033[0m\n' "$*"; }
note() { printf 'note: %s\n' "$*" >&2; }
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Runs a command as root: directly, or through sudo. Prints the reason if neither is possible.
as_root() {
    if [[ $EUID -eq 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "this needs root and sudo is not installed: run as root: $*"
    fi
}

# Meson runs compilers through ccache where that is installed. These settings share results between
# checkouts: paths below the checkout are treated as relative, and dependencies are those that the
# compiler reports. Preprocessing each source first, and reading its precompiled header of 100 MB for a
# checksum, would take a sixth of the time of a build without cache hits, and nearly all of one with
# only hits. Not for clang, whose precompiled headers contain paths.
export_ccache_settings() {
    export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
    export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
}

# apt-get without questions and without packages beyond those requested.
apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 --yes \
        --no-install-recommends "$@"
}

# Prints the first folder from $1 upwards that every user may write to; fails if there is none.
world_writable_parent() {
    local folder=$1
    while :; do
        if [[ $(stat -L -c %A "$folder") == ????????w? ]]; then
            printf '%s\n' "$folder"
            return 0
        fi
        [[ $folder == / ]] && return 1
        folder=$(dirname "$folder")
    done
}

# Warns if EAL would refuse to load the driver from the build folder $1.
explain_world_writable() {
    local folder build=$1
    folder=$(world_writable_parent "$build/drivers/net/rawqp") || return 0
    cat >&2 <<TEXT
note: every user may write to $folder, so DPDK refuses to load a driver by its path below it
      (someone else could exchange the file). The build is fine; to run the driver, either
        give its folder apart from its name:
          LD_LIBRARY_PATH=$build/drivers/net/rawqp dpdk-testpmd -d librte_net_rawqp.so ...
        or install it, then no -d is needed:  sudo meson install -C $build
        or move the checkout, for example to your home folder.
TEXT
}

# Warns about distributions that have not been tested. $1: the file that names the distribution.
check_distribution() {
    local name
    name=$(sed -n 's/^\(ID\|VERSION_ID\)=//p' "$1" 2>/dev/null | tr -d '"' | sort -r |
        tr '\n' ' ') || true
    [[ $name == "debian 12 " || $name == "debian 13 " ]] ||
        note "rawqp has been run on Debian 12 and 13 only; this is ${name:-unknown }and may have other" \
            "packages, or other versions of them"
}
