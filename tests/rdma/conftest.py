# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures: third-party suites on softhca, with each wire and in a guest."""

import uuid
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Callable, Iterator

import pytest
from rig import rdma_core
from rig.guest import PATIENCE, Guest
from rig.hugepages import NoHugepages, lent
from rig.marks import parameters_of
from rig.ports import PortSpec
from rig.rdma_core import Cases, Ending, Endings
from rig.stack import OWN_NETWORK, Build, SoftHca

from rdma.kept import keep
from rdma.listed import (FORMAT_1, FORMAT_1_WIRE, FRONTS, GUEST, GUEST_FORMAT_1, GUEST_WIRE, is_run,
                         listed)

CASE_S = 60
GUEST_CASE_S = 300
GUEST_LIMIT_S = 3000
HUGEPAGES = 64  # of 2 MiB: for the cases and perftest options that use them
# Daily, one wire runs all cases, the guest those that pass, the other wires those with traffic. `full` runs
# everything.
DAILY_WIRE = "socket"
TRAFFIC = ("traffic", "test_flow.", "test_mlx5_flow.", "root_tbl", "tbl_modify_header")


def daily(front: str, case: str) -> bool:
    if front in (DAILY_WIRE, FORMAT_1):
        return True
    passes = listed(front, case) is None
    return passes and (front == GUEST or any(word in case for word in TRAFFIC))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        params = parameters_of(item)
        if "case" in params and not daily(params["cases"], params["case"]):
            item.add_marker(pytest.mark.thorough)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        chosen = [(front, case) for front in FRONTS for case in rdma_core.names()
                  if is_run(front, case)]
        metafunc.parametrize("cases,case", chosen, indirect=["cases"], scope="module",
                             ids=[f"{front}-{case}" for front, case in chosen])


@pytest.fixture(scope="session", autouse=True)
def hugepages() -> Iterator[None]:
    """If they are not available, the cases that need them report it."""
    with ExitStack() as loan:
        with suppress(NoHugepages):
            loan.enter_context(lent(HUGEPAGES))
        yield


@pytest.fixture(scope="session")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """rdma-core's tests, unpacked."""
    return rdma_core.unpack(tmp_path_factory.mktemp("upstream"))


def port_on(front: str, folder: Path) -> PortSpec:
    wire = FORMAT_1_WIRE if front == FORMAT_1 else front
    format_1 = {"steering_format": "1"} if front == FORMAT_1 else {}
    names = {"link": f"link:t{uuid.uuid4().hex[:12]}", "pair": "pair:a", "tap": "tap:rdma0",
             "pcap": f"pcap:,{folder}/sent.pcap"}
    # Nothing else is at the other end of these; a socket's peer connects late.
    lonely = {"carrier": "always"} if wire in ("link", "socket") else {}
    return PortSpec(names.get(wire, wire), {**lonely, **format_1})


@contextmanager
def on_wire(build: Build, folder: Path, wire: str, upstream: Path) -> Iterator[Cases]:
    hca = SoftHca(build, folder, [port_on(wire, folder)] * (2 if wire == "pair" else 1),
                  rdma_core.command("mlx5_0", CASE_S), env=rdma_core.environment(upstream),
                  prefix=OWN_NETWORK if wire == "tap" else [])
    try:
        yield Cases(hca.program, CASE_S)
    finally:
        hca.close()


@contextmanager
def in_guest(guest: Guest, folder: Path, front: str, upstream: Path) -> Iterator[Cases]:
    """On a port with software steering, which a guest's port has only if its format is given."""
    guest.drop_spares()
    steering_format = "1" if front == GUEST_FORMAT_1 else "0"
    port, = guest.provide([PortSpec(GUEST_WIRE, {"steering_format": steering_format})], folder)
    # Registered memory is locked.
    command = ["sh", "-c", 'ulimit -l unlimited; exec "$@"', "sh",
               *rdma_core.command(port.name, GUEST_CASE_S)]
    program = guest.start(command, folder / "cases.log", rdma_core.environment(upstream),
                          limit=GUEST_LIMIT_S)
    with guest.hugepages(HUGEPAGES):
        try:
            yield Cases(program, GUEST_CASE_S / PATIENCE)
        finally:
            program.close()
            port.unplug()


@pytest.fixture(scope="session")
def endings(build: Build) -> Iterator[Endings]:
    """How cases ended. The results of this run are kept for tests/rdma/table.py."""
    found: Endings = {}
    yield found
    keep(build, "rdma-core.json", {
        front: {case: [ending.ended, ending.reason] for case, ending in cases.items()}
        for front, cases in found.items()})


@pytest.fixture(scope="module")
def cases(request: pytest.FixtureRequest, build: Build, new_folder: Callable[[], Path],
          upstream: Path, endings: Endings,
          ) -> Iterator[Callable[[str], Ending]]:
    """Runs a case on the front named by the parameter. Module scope, so that the next module has a guest without
    these ports."""
    front: str = request.param
    folder = new_folder()
    if front in (GUEST, GUEST_FORMAT_1):
        running = in_guest(request.getfixturevalue("guest"), folder, front, upstream)
    else:
        running = on_wire(build, folder, front, upstream)
    with running as program:
        def run(case: str) -> Ending:
            ending = program.run(case)
            endings.setdefault(front, {})[case] = ending
            return ending

        yield run
