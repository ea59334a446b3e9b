# SPDX-License-Identifier: BSD-3-Clause
"""Hugepages for a test, returned however it ends, and a mount for DPDK's files on them."""

import os
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

NR_HUGEPAGES = Path("/proc/sys/vm/nr_hugepages")
MIB = 2  # of a hugepage

# Adds hugepages until its input ends, however the test ends; several may run at the same time. Prints
# how many it got. The mount disappears with the namespace.
LEND = """
trap '' INT TERM HUP
exec 9<"$1"
flock 9
before=$(cat "$1")
echo $((before + $2)) >"$1"
added=$(($(cat "$1") - before))
flock -u 9
if [ -z "$3" ] || mount -t hugetlbfs hugetlbfs "$3"; then
    echo "$added"
    read -r _
    [ -z "$3" ] || umount -l "$3"
fi
flock 9
echo $(($(cat "$1") - added)) >"$1"
"""


class NoHugepages(Exception):
    """The text gives the reason."""


@dataclass
class Hugepages:
    """`folder`, if requested, is a hugetlbfs for programs started with `prefix`."""

    prefix: list[str]
    folder: Path | None


@contextmanager
def lent(pages: int, folder: Path | None = None) -> Iterator[Hugepages]:
    """Adds that many to the existing ones. Raises NoHugepages if they cannot be had."""
    if os.geteuid() != 0:
        raise NoHugepages("only root can reserve hugepages")
    command = ["unshare", "--mount", "sh", "-c", LEND, "lend", str(NR_HUGEPAGES), str(pages)]
    with subprocess.Popen([*command, str(folder or "")], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as lender:
        assert lender.stdin and lender.stdout
        try:
            if int(lender.stdout.readline() or 0) < pages:
                raise NoHugepages(f"the kernel has no {MIB * pages} MiB left for hugepages")
            # --root: in a chroot, the mounts are not those of the namespace's root.
            enter = ["nsenter", f"--target={lender.pid}", "--mount", "--root", "--wd", "--"]
            yield Hugepages(enter, folder)
        finally:
            lender.stdin.close()
            lender.wait(10)
