# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures: DPDK processes that share ports, on either front."""

from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from .hugepages import Hugepages, NoHugepages, lent
from .processes import PAGES, GuestHome, Home, Processes, TestpmdProcesses, compiled
from .stack import ROOT, Build

SOURCES = ROOT / "tests/functional/secondary"


@contextmanager
def lent_to_test(pages: int, folder: Path | None = None) -> Iterator[Hugepages]:
    """Skips the test if hugepages are not available."""
    try:
        with lent(pages, folder) as hugepages:
            yield hugepages
    except NoHugepages as lack:
        pytest.skip(str(lack))


StartProcesses = Callable[..., TestpmdProcesses]


@pytest.fixture(scope="module")
def shared_pages(request: pytest.FixtureRequest,
                 tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hugepages | None]:
    """Hugepages of the host; None: the guest has its own."""
    if request.config.getoption("--front") == "guest":
        yield None
        return
    with lent_to_test(PAGES, tmp_path_factory.mktemp("hugepages")) as pages:
        yield pages


@pytest.fixture
def home(request: pytest.FixtureRequest, shared_pages: Hugepages | None, build: Build,
         new_folder: Callable[[], Path]) -> Home:
    if shared_pages is None:
        return GuestHome(request.getfixturevalue("guest"))
    return Home(build, shared_pages, new_folder())


def ended(processes: Processes) -> None:
    processes.close()
    assert not processes.reports(), processes.reports()


@pytest.fixture
def beside(home: Home, start_softhca: Callable[..., Any],
           new_folder: Callable[[], Path]) -> Iterator[Processes]:
    """Processes, none of which is running yet."""
    processes = Processes(home, start_softhca, new_folder())
    yield processes
    ended(processes)


@pytest.fixture
def start(home: Home, start_softhca: Callable[..., Any],
          new_folder: Callable[[], Path]) -> Iterator[StartProcesses]:
    """start(devargs, …) starts the primary, a testpmd. See TestpmdProcesses."""
    running: list[TestpmdProcesses] = []

    def start_one(devargs: str = "", **options: Any) -> TestpmdProcesses:
        running.append(TestpmdProcesses(home, start_softhca, new_folder(), devargs=devargs,
                                        **options))
        return running[-1]

    yield start_one
    for processes in running:
        ended(processes)


@pytest.fixture(scope="module")
def forward(tmp_path_factory: pytest.TempPathFactory) -> str:
    """secondary/forward.c, which allocates nothing: memory that a killed process has allocated from DPDK's heap
    is lost."""
    return compiled([SOURCES / "forward.c"], tmp_path_factory.mktemp("forward") / "forward")
