# SPDX-License-Identifier: BSD-3-Clause
"""perftest's raw_ethernet_* programs: tests/rdma/perftest.py says with which options."""

import re
import shlex
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Callable, Iterator

import pytest
from rig.ports import PortSpec, device_name, port_mac
from rig.screen import ProgramError, Screen
from rig.stack import Build, SoftHca

from rdma.perftest import RUNS, WHY, Run

PATIENCE_S = 20
# perftest looks at the port's state once, and the first end has no peer yet.
CABLE = {"pause": "on", "carrier": "always"}
StartEnd = Callable[[int, list[str]], Screen]


@pytest.fixture
def start_end(build: Build, new_folder: Callable[[], Path]) -> Iterator[StartEnd]:
    """Starts a program at an end of a cable: 0 or 1."""
    cable = f"link:t{uuid.uuid4().hex[:12]}"
    with ExitStack() as ended:
        def start(end: int, command: list[str]) -> Screen:
            port = PortSpec(cable, {**CABLE, "mac": port_mac(end), "device": device_name(end)})
            hca = SoftHca(build, new_folder(), [port], command)
            ended.callback(hca.close)
            return hca.program

        yield start


def options_of(program: str, options: str) -> list[str]:
    words = shlex.split(options)
    defaults = {"-s": "64", "-n": "200" if program == "lat" else "1000"}
    if "-D" in words:
        del defaults["-n"]
    return words + [word for name, value in defaults.items() if name not in words
                    for word in (name, value)]


def run(start_end: StartEnd, of: Run) -> None:
    """Raises ProgramError if it fails. The server is end 1."""
    def start(own: int, role: str, options: str) -> Screen:
        return start_end(own, [f"raw_ethernet_{of.program}", "-d", device_name(own), role, "-B",
                               port_mac(own), "-E", port_mac(1 - own), *options_of(of.program, options)])

    order = [(1, "--server", of.options if of.server is None else of.server),
             (0, "--client", of.options)]
    if of.client_first:
        order.reverse()
    ends = [start(*order[0])]
    if of.program != "fs_rate":  # there is nobody at its other end
        ends[0].wait_for("#bytes", timeout=PATIENCE_S)
        ends.append(start(*order[1]))
    for program in reversed(ends):
        status = program.wait(PATIENCE_S)
        if status != 0:
            raise ProgramError(f"status {status}: {program.output}")


@pytest.mark.parametrize("of", [
    pytest.param(of, id=of.name, marks=[] if of.daily else pytest.mark.thorough) for of in RUNS])
def test_perftest(start_end: StartEnd, of: Run) -> None:
    try:
        run(start_end, of)
    except ProgramError as error:
        if not of.why:
            raise
        assert re.search(of.said, str(error)), error
        pytest.xfail(f"{of.note}: {WHY[of.why]}")
    assert not of.why, "it passes now: take it off the list"
