# SPDX-License-Identifier: BSD-3-Clause
"""Hugepages for a test, given back however it ends, and a place for DPDK's files on them."""

import os
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

NR_HUGEPAGES = Path("/proc/sys/vm/nr_hugepages")
MIB = 2  # of a hugepage

# Adds hugepages until its input ends, however the test ends. The mount goes with the namespace.
LEND = """
before=$(cat "$1")
trap '' INT TERM HUP
echo $((before + $2)) >"$1"
[ -z "$3" ] || mount -t hugetlbfs hugetlbfs "$3" || exit
cat "$1"
read -r _
[ -z "$3" ] || umount -l "$3"
echo "$before" >"$1"
"""


class NoHugepages(Exception):
    """The text says why."""


@dataclass
class Hugepages:
    """`folder`, if one was asked for, is a hugetlbfs for what is started with `prefix` in front."""

    prefix: list[str]
    folder: Path | None


@contextmanager
def lent(pages: int, folder: Path | None = None) -> Iterator[Hugepages]:
    """So many more than there are. Raises NoHugepages where there are none to be had."""
    if os.geteuid() != 0:
        raise NoHugepages("only root can reserve hugepages")
    before = int(NR_HUGEPAGES.read_text())
    command = ["unshare", "--mount", "sh", "-c", LEND, "lend", str(NR_HUGEPAGES), str(pages)]
    with subprocess.Popen([*command, str(folder or "")], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as lender:
        assert lender.stdin and lender.stdout
        try:
            if int(lender.stdout.readline() or 0) < before + pages:
                raise NoHugepages(f"the kernel has no {MIB * pages} MiB left for hugepages")
            # --root: in a chroot, the mounts are not those of the namespace's root.
            enter = ["nsenter", f"--target={lender.pid}", "--mount", "--root", "--wd", "--"]
            yield Hugepages(enter, folder)
        finally:
            lender.stdin.close()
            lender.wait(10)
