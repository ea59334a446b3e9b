# SPDX-License-Identifier: BSD-3-Clause
"""Rx interrupts: a DPDK program that sleeps on the completion channel while its queue is empty."""

from pathlib import Path
from typing import Callable, Iterator

import pytest
from rig import sleeper as sleeping
from rig.guest import Guest
from rig.guest_hca import GuestHca
from rig.ports import guest_pci_address, lossless
from rig.stack import Build
from rig.stack_base import DRIVER

PACKETS = 500


@pytest.fixture
def sleeper(guest: Guest, build: Build, new_folder: Callable[[], Path],
            driver: str) -> Iterator[GuestHca]:
    """A program that ends after a number of packets."""
    if driver == "net_mlx5":
        device = ["-a", f"{guest_pci_address(0)},dv_flow_en=0"]
    else:
        device = ["--no-pci", "-d", DRIVER, "--vdev", f"net_rawqp0,device=mlx5_0,datapath={driver}"]
    hca = GuestHca(guest, new_folder(), lossless(1),
                   sleeping.command(build.folder, device, PACKETS))
    try:
        hca.program.wait_for("ready")
        yield hca
    finally:
        hca.close()


def interrupts(guest: Guest) -> int:
    return int(guest.run("awk '/mlx5_comp/ {n += $2} END {print n + 0}' /proc/interrupts"))


def test_no_wake_up_is_lost(guest: Guest, sleeper: GuestHca) -> None:
    before = interrupts(guest)
    sleeping.wake(sleeper.wires[0], PACKETS)
    assert sleeper.program.wait(60) == 0, sleeper.program.output
    received, sleeps = sleeping.result(sleeper.program.output)
    assert received >= PACKETS
    assert sleeps >= 1
    assert interrupts(guest) > before
