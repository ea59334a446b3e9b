# SPDX-License-Identifier: BSD-3-Clause
"""softhca, or the program under it, is killed at random moments, before or during traffic: the other one
ends as well, nothing is left behind, and the next start is clean."""

import os
import random
import signal
import time
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Callable

import pytest
from rig.launched import DRIVER, program_under
from rig.packets import numbered
from rig.ports import lossless
from rig.program import wait_for_end
from rig.reliability import TellFaults
from rig.stack import Build, SoftHca, Stack

LIFE_S = 1.0  # upper limit before the kill; some start within a third of it
TESTPMD = ["dpdk-testpmd", "--no-huge", "-m", "64", "--no-shconf", "--no-telemetry", "--no-pci",
           "-d", DRIVER, "--vdev", "net_rawqp0,device=mlx5_0,datapath={}", "--", "-i", "--no-mlockall",
           "--total-num-mbufs=2048", "--auto-start"]


def kill(hca: SoftHca, moments: random.Random) -> None:
    """Kills at a random moment, with packets on the wire as soon as there is one."""
    end = time.monotonic() + moments.uniform(0, LIFE_S)
    frames = cycle(numbered(64))
    while time.monotonic() < end:
        with suppress(AssertionError):  # not connected yet
            hca.wires[0].connected(timeout=max(0, end - time.monotonic()))
            if not hca.wires[0].try_send(next(frames)):
                hca.wires[0].wait_for_room(max(0, end - time.monotonic()))
    try:
        program = program_under(hca.program)
        below = [os.pidfd_open(program)]
    except AssertionError:  # not started yet
        program, below = 0, []
    by_program = program != 0 and moments.random() < 0.5
    os.kill(program if by_program else hca.program.pid, signal.SIGKILL)
    assert hca.program.wait() == (128 + signal.SIGKILL if by_program else -signal.SIGKILL)
    wait_for_end(below)


@pytest.mark.parametrize("kills", [5, pytest.param(200, marks=pytest.mark.thorough)])
def test_killed_at_any_moment(build: Build, datapath: str, new_folder: Callable[[], Path], kills: int,
                              tell_faults: TellFaults) -> None:
    folder = new_folder()
    moments = random.Random(17)
    for _ in range(kills):
        hca = SoftHca(build, folder, lossless(1), [word.format(datapath) for word in TESTPMD])
        try:
            kill(hca, moments)
        finally:
            hca.close()
    for left in (folder / "run").iterdir():
        os.utime(left, (0, 0))  # one that is not locked yet is treated as dead only after a minute
    stack = Stack(build, folder, lossless(1), datapath=datapath)
    try:
        stack.testpmd.start("io", lossless=True)
        stack.wires[0].transfer(numbered(100), to=stack.wires[0])
        assert len(list((folder / "run").iterdir())) == 1, "what the killed ones left is still there"
        stack.finish()
    finally:
        stack.close()
    assert list((folder / "run").iterdir()) == []
    tell_faults("kill", kills)
