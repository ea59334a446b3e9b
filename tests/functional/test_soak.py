# SPDX-License-Identifier: BSD-3-Clause
"""Traffic in both directions for a long time, with concurrent control calls: nothing is lost, and memory and
descriptors do not grow."""

import os
import re
import time
from itertools import count
from pathlib import Path

import pytest
from rig.launched import program_under
from rig.left_behind import heap_in_use
from rig.packets import numbered
from rig.stack import Stack

from functional.conftest import OpenStack

PACKETS = 2000  # per round
MINUTES = 10
GROWTH_KIB = 256  # allowed, of several hundred MiB: the C library's heap is not as flat as DPDK's


def memory_of(stack: Stack) -> tuple[int, int, tuple[str, str]]:
    """Resident KiB, descriptors, and what is allocated from DPDK's heap."""
    process = Path(f"/proc/{program_under(stack.program)}")
    resident = re.search(r"VmRSS:\s+(\d+)", (process / "status").read_text())
    assert resident
    return int(resident[1]), len(os.listdir(process / "fd")), heap_in_use(stack)


def one_round(stack: Stack, number: int) -> None:
    testpmd = stack.testpmd
    one, other = stack.wires
    one.transfer(numbered(PACKETS, 60 + number % 1400), to=other)
    other.transfer(numbered(PACKETS, 60 + number * 7 % 1400), to=one)
    rule = testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp / end actions queue index 1 / end")
    testpmd.silent("mac_addr add 1 02:00:00:00:99:01", "mac_addr remove 1 02:00:00:00:99:01",
                   "set promisc 0 off", "set promisc 0 on")
    testpmd.stats(0)
    testpmd.xstats(1)
    testpmd.destroy_flow(0, rule)
    if number % 10 == 9:
        testpmd.stop()
        testpmd.stop_port("all")
        assert testpmd.mbufs_in_use() == 0
        testpmd.start_port("all")
        testpmd.start("io", lossless=True)


@pytest.mark.unsanitized  # a sanitizer's allocator delays releases
@pytest.mark.timeout(MINUTES * 60 + 300)
@pytest.mark.parametrize("seconds", [
    10, pytest.param(MINUTES * 60, marks=pytest.mark.thorough)])
def test_memory_stays_flat(open_stack: OpenStack, seconds: int) -> None:
    with open_stack(2, datapath="mlx5", testpmd_args=["--rxq=2", "--txq=2"]) as stack:
        stack.testpmd.start("io", lossless=True)
        for number in range(30):  # until all one-time allocations have been made
            one_round(stack, number)
        resident, files, heap = memory_of(stack)
        deadline = time.monotonic() + seconds
        for number in count():
            one_round(stack, number)
            if number % 10 == 9 and time.monotonic() > deadline:
                break
        later = memory_of(stack)
        assert later[1:] == (files, heap)
        assert later[0] <= resident + GROWTH_KIB
