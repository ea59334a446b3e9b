# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the tests that need a kernel: one guest serves them all.

What also works without one is in tests/functional, which runs here by --front=guest.
"""
from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Callable, ContextManager, Iterator

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "functional"))

from rig.guest import Guest, GuestPort  # noqa: E402
from rig.guest_fixtures import running_guest  # noqa: E402
from rig.guest_stack import GuestStack  # noqa: E402
from rig.peer import Peer  # noqa: E402
from rig.ports import PortSpec  # noqa: E402
from rig.stack import Build  # noqa: E402
from rig.wire import SocketWire  # noqa: E402

WORK_PREFIX = "rawqp-kernel-"
GUEST_LIMIT_S = 1400

OpenStack = Callable[..., ContextManager[GuestStack]]
StartStack = Callable[..., GuestStack]


@pytest.fixture(scope="session", autouse=True)
def _sigterm_cleans_up() -> Iterator[None]:
    """SIGTERM runs the fixtures' ends like Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def build() -> Build:
    return Build.from_environment()


@pytest.fixture(scope="session")
def work(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A short path (socket names are limited). Kept when a test failed, for its logs."""
    for folder in Path(tempfile.gettempdir()).glob(WORK_PREFIX + "*"):  # of killed runs
        pid = folder.name.removeprefix(WORK_PREFIX).split("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{WORK_PREFIX}{os.getpid()}-"))
    yield folder
    if request.session.testsfailed:
        kept = folder.rename(folder.with_name(f"rawqp-kernel-failed-{os.getpid()}"))
        print(f"\nlogs of the failed run (console, dmesg, devices, wires) are kept in {kept}")
    else:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def new_folder(work: Path) -> Callable[[], Path]:
    """Each call gives the next folder below `work`."""
    counter = iter(range(10000))

    def make() -> Path:
        folder = work / str(next(counter))
        folder.mkdir()
        return folder

    return make


@pytest.fixture(scope="session")
def guest(build: Build, new_folder: Callable[[], Path]) -> Iterator[Guest]:
    with running_guest(build.folder, new_folder(), GUEST_LIMIT_S) as guest:
        yield guest


@pytest.fixture(autouse=True)
def _quiet_kernel(guest: Guest) -> Iterator[None]:
    """After each test the kernel must have nothing to complain of."""
    yield
    if not guest.channel.ended:  # if it has, its fixture says so
        guest.check_alarms()


@pytest.fixture(scope="session")
def open_stack(guest: Guest, new_folder: Callable[[], Path]) -> OpenStack:
    """open_stack(2, datapath=…, …): a context with testpmd on new ports; it has to end in good
    order. See GuestStack."""

    @contextmanager
    def open_one(ports: int | list[PortSpec] = 1, **options: Any) -> Iterator[GuestStack]:
        specs = [PortSpec() for _ in range(ports)] if isinstance(ports, int) else ports
        stack = GuestStack(guest, new_folder(), specs, **options)
        try:
            yield stack
            stack.finish()
        finally:
            stack.close()

    return open_one


@pytest.fixture
def start_stack(open_stack: OpenStack) -> Iterator[StartStack]:
    """The same for one test, which need not care about the end."""
    with ExitStack() as stacks:
        yield lambda *ports, **options: stacks.enter_context(open_stack(*ports, **options))


@pytest.fixture(scope="module")
def port(guest: Guest, new_folder: Callable[[], Path]) -> Iterator[GuestPort]:
    """A port with its drivers, and nothing else."""
    folder = new_folder()
    wire = SocketWire(folder / "wire0", patience=4)
    wire.record(folder / "wire0.pcap")
    function = guest.plug(0, PortSpec(options={"pause": "on"}), wire.spec)
    function.wire = wire
    guest.load_drivers()
    function.wait_until_ready()
    yield function
    if not guest.channel.ended:
        function.unplug()
    wire.close()


@pytest.fixture
def peer(port: GuestPort) -> Iterator[Peer]:
    """Somebody at the far end of the port's cable."""
    assert port.wire
    with Peer(port.wire) as peer:
        yield peer
