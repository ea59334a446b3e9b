# SPDX-License-Identifier: BSD-3-Clause
"""perftest's raw_ethernet_* programs, with the options and fronts in tests/rdma/perftest.py."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Callable, Iterator

import pytest
from rig.ports import port_mac
from rig.screen import ProgramError, Screen
from rig.stack import Build

from rdma.conftest import HUGEPAGES
from rdma.ends import Ends, GuestEnds, WireEnds
from rdma.kept import keep
from rdma.perftest import FRONTS, GUEST, IN_EACH_RUN, NOT_FOR_RAW, RUNS, WHY, Run

PATIENCE_S = 20
# perftest has sent and received everything by then, but it measures its CPU's speed by reading two clocks in
# turn, and a busy machine has interrupted that too often.
NO_CLOCK = "Can't produce a report"
TRIES = 4
Found = dict[str, dict[str, str]]  # by front and name of a run: how it ended


@pytest.fixture(scope="module")
def found(build: Build) -> Iterator[Found]:
    """The results of this run are kept for tests/rdma/perftest_table.py."""
    found: Found = {}
    yield found
    keep(build, "perftest.json", found)


@pytest.fixture(scope="module")
def cable(request: pytest.FixtureRequest, build: Build, new_folder: Callable[[], Path]) -> Iterator[Ends]:
    front: str = request.param
    ends = (GuestEnds(request.getfixturevalue("guest"), new_folder, HUGEPAGES) if front == GUEST
            else WireEnds(build, new_folder, front))
    yield ends
    ends.close()


@pytest.fixture
def ends(cable: Ends) -> Iterator[Ends]:
    yield cable
    cable.end_programs()


def options_of(program: str, options: str) -> list[str]:
    words = shlex.split(options)
    defaults = {"-s": "64", "-n": "200" if program == "lat" else "1000"}
    if "-D" in words:
        del defaults["-n"]
    return words + [word for name, value in defaults.items() if name not in words
                    for word in (name, value)]


def run(ends: Ends, of: Run) -> None:
    """Raises ProgramError if it fails."""
    for left in reversed(range(TRIES)):
        try:
            return run_once(ends, of)
        except ProgramError as error:
            if NO_CLOCK not in str(error) or not left:
                raise
            ends.end_programs()


def run_once(ends: Ends, of: Run) -> None:
    """The server is end 1."""
    def start(own: int, role: str, options: str) -> Screen:
        return ends.start(own, [f"raw_ethernet_{of.program}", "-d", ends.device(own), role, "-B",
                                port_mac(own), "-E", port_mac(1 - own), *options_of(of.program, options)])

    order = [(1, "--server", of.options if of.server is None else of.server),
             (0, "--client", of.options)]
    if of.client_first:
        order.reverse()
    programs = [start(*order[0])]
    if of.program != "fs_rate":  # it has no peer
        programs[0].wait_for("#bytes", timeout=PATIENCE_S)
        programs.append(start(*order[1]))
    for program in reversed(programs):
        status = program.wait(PATIENCE_S)
        if status != 0:
            raise ProgramError(f"status {status}: {program.output}")


def chosen() -> Iterator[object]:
    for front in FRONTS:
        for of in RUNS:
            if of.is_run(front):
                yield pytest.param(front, of, id=f"{front}-{of.name}",
                                   marks=[] if of.is_daily(front) else pytest.mark.thorough)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("cable,of", chosen(), indirect=["cable"], scope="module")
def test_perftest(ends: Ends, of: Run, found: Found, request: pytest.FixtureRequest) -> None:
    ended = found.setdefault(request.node.callspec.params["cable"], {})
    try:
        run(ends, of)
    except ProgramError as error:
        ended[of.name] = "failed"
        if not of.why:
            raise
        assert re.search(of.said, str(error)), error
        pytest.xfail(f"{of.note}: {WHY[of.why]}")
    ended[of.name] = "passed"
    assert not of.why, "it passes now: take it off the list"


def names_of(program: str) -> list[set[str]]:
    """The names of each option in a program's help: a long one, most with a short one."""
    shown = subprocess.run([f"raw_ethernet_{program}", "--help"], capture_output=True, text=True)  # status 1
    found = re.findall(r"(?m)^ +(?:(-\w), *)?(--[\w-]+)", shown.stdout + shown.stderr)
    assert len(found) > 30, shown
    return [{*names} - {""} for names in found]


@pytest.mark.parametrize("program", sorted({of.program for of in RUNS}))
def test_no_option_is_left_out(program: str) -> None:
    words = [word for of in RUNS for word in shlex.split(f"{of.options} {of.server or ''}")]
    used = {word.partition("=")[0] for word in words if word.startswith("-")}
    listed = used | {*IN_EACH_RUN} | NOT_FOR_RAW.keys()
    assert [names for names in names_of(program) if not names & listed] == []
    assert not used & {name for names in names_of(program) if names & NOT_FOR_RAW.keys() for name in names}
