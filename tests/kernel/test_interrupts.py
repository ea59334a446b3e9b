# SPDX-License-Identifier: BSD-3-Clause
"""Rx interrupts: a DPDK program that sleeps on the completion channel while its queue is empty."""

import random
import re
from pathlib import Path
from typing import Callable, Iterator

import pytest
from rig.guest import Guest, GuestPort
from rig.guest_program import GuestProgram
from rig.packets import numbered
from rig.stack import Build
from rig.stack_base import DRIVER
from rig.wire import SocketWire

PACKETS = 500


@pytest.fixture
def sleeper(guest: Guest, port: GuestPort, build: Build, new_folder: Callable[[], Path],
            driver: str) -> Iterator[GuestProgram]:
    """Ends after so many packets."""
    if driver == "net_mlx5":
        device = ["-a", f"{port.pci},dv_flow_en=0"]
    else:
        device = ["--no-pci", "-d", DRIVER,
                  "--vdev", f"net_rawqp0,device={port.name},datapath={driver}"]
    command = [str(build.folder / "tests/functional/dpdk/rx-interrupt"), "-l", "0", "--no-huge",
               "-m", "256", "--no-shconf", "--no-telemetry", *device, "--", str(PACKETS)]
    environment = {"LD_LIBRARY_PATH": str(build.folder / "drivers/net/rawqp")}
    program = guest.start(command, new_folder() / "output.log", environment)
    program.wait_for("ready")
    yield program
    program.close()


def interrupts(guest: Guest) -> int:
    return int(guest.run("awk '/mlx5_comp/ {n += $2} END {print n + 0}' /proc/interrupts"))


def test_no_wake_up_is_lost(guest: Guest, port: GuestPort, sleeper: GuestProgram) -> None:
    """One by one, in bursts, and while the program is about to fall asleep."""
    wire: SocketWire | None = port.wire
    assert wire
    before = interrupts(guest)
    rng = random.Random(3)
    frames = list(numbered(PACKETS))
    while frames:
        count = rng.choice([1, 1, 2, 7, 40])
        wire.send_all(frames[:count])
        del frames[:count]
    assert sleeper.wait(60) == 0, sleeper.output
    received, sleeps = re.findall(r"received (\d+) sleeps (\d+)", sleeper.output)[0]
    assert int(received) >= PACKETS
    assert int(sleeps) >= 1
    assert interrupts(guest) > before
