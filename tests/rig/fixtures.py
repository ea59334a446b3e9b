# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures that tests/functional and tests/kernel share."""

import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Callable, Iterator

import pytest

from .guest import Guest
from .guest_fixtures import running_guest
from .launcher import Launcher
from .packets import forbid_address_resolution
from .reliability import PROPERTY, ROWS, TellFaults
from .stack import Build

forbid_address_resolution()

WORK_PREFIX = "rawqp-test-"
FAILED_PREFIX = "rawqp-failed-"  # once a test has failed
WORK_BYTES = 1 << 30  # space for files that tests keep until the end
GUEST_LIMIT_S = 9000  # on an idle machine, all of `full` takes half of it


def place_for_work() -> Path:
    """In memory where there is space: each softhca creates and removes hundreds of files, and ext4 has
    been seen to spend up to a fifth of all CPU time looking for inodes that were not used recently."""
    memory = Path("/dev/shm")
    if "TMPDIR" not in os.environ and os.access(memory, os.W_OK):
        there = os.statvfs(memory)
        if there.f_bavail * there.f_frsize >= WORK_BYTES and not there.f_flag & os.ST_NOEXEC:
            return memory
    return Path(tempfile.gettempdir())


def remove_stale_folders(place: Path) -> None:
    """Removes folders left behind by a killed run. Its programs died with it (see die_with_parent)."""
    for folder in place.glob(WORK_PREFIX + "*"):
        pid = folder.name.removeprefix(WORK_PREFIX).split("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def sigterm_cleans_up() -> Iterator[None]:
    """Makes SIGTERM run the fixtures' teardown as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def build() -> Build:
    return Build.from_environment()


@pytest.fixture(scope="session")
def work(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A short path (socket names are limited), which a guest does not see: it has a /dev of its own. Kept for
    its logs when a test failed."""
    place = place_for_work()
    remove_stale_folders(place)
    folder = Path(tempfile.mkdtemp(dir=place, prefix=f"{WORK_PREFIX}{os.getpid()}-"))
    yield folder
    if request.session.testsfailed:
        kept = folder.rename(folder.with_name(folder.name.replace(WORK_PREFIX, FAILED_PREFIX)))
        print(f"\nlogs of the failed run are kept in {kept}")
    else:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def new_folder(work: Path) -> Callable[[], Path]:
    """Each call returns a new folder below `work`."""
    counter = iter(range(10000))

    def make() -> Path:
        folder = work / str(next(counter))
        folder.mkdir()
        return folder

    return make


@pytest.fixture
def launcher(build: Build, new_folder: Callable[[], Path]) -> Iterator[Launcher]:
    one = Launcher(build, new_folder())
    yield one
    one.close()


@pytest.fixture(scope="session")
def guest(build: Build, new_folder: Callable[[], Path]) -> Iterator[Guest]:
    """One guest for all tests; each test has its own ports."""
    with running_guest(build.folder, new_folder(), GUEST_LIMIT_S) as guest:
        yield guest


@pytest.fixture
def tell_faults(record_property: Callable[[str, object], None]) -> TellFaults:
    """tell_faults(row, count) records faults for the table in doc/reliability.md, in case the test passes."""
    def tell(row: str, count: int) -> None:
        assert row in ROWS, f"no row of rig/reliability.py: {row}"
        record_property(PROPERTY + row, count)

    return tell
