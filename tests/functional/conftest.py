# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures: stacks of softhca and testpmd with sockets on their wires.

    def test_something(stack: Stack) -> None:
        stack.testpmd.start("io")
        stack.wires[0].transfer([frame], to=stack.wires[1])

`stack` is shared by a module and exists once for each ring format. Other stacks: `start_stack` for one
test, `open_stack` for a custom fixture. Any other program: `start_softhca`.

With --front=guest, the tests marked `guest` run in a QEMU guest with an unmodified kernel instead,
where each stack gets its own PCI functions (as scripts/test kernel does).
"""

import os
import shlex
import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Callable, ContextManager, Iterator, Sequence

import pytest
from rig.guest_hca import GuestHca
from rig.guest_stack import GuestStack
from rig.marks import parameters_of
from rig.ports import guest_pci_address, lossless, pci_address
from rig.stack import Build, PortSpec, SoftHca, Stack

RING_FORMATS = ("mlx5", "verbs")

OpenStack = Callable[..., ContextManager[Stack]]
StartStack = Callable[..., Stack]
StartSoftHca = Callable[..., SoftHca]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--front",
        choices=("uverbs", "guest"),
        default="uverbs",
        help="what the stacks stand on: softhca's uverbs front, or a kernel in a guest",
    )
    parser.addoption(
        "--once", action="store_true", help="run each test with the first of its parameters only"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = list(items)
    if config.getoption("--front") == "guest":
        chosen = [item for item in chosen if _runs_in_guest(item, config.getoption("--once"))]
    if config.getoption("--once"):
        first: dict[str, pytest.Item] = {}
        for item in sorted(chosen, key=_is_thorough):  # those last, which -m may leave out
            first.setdefault(item.nodeid.partition("[")[0], item)
        firsts = set(first.values())
        chosen = [item for item in chosen if item in firsts]
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


# Ends a program with an error after everything else, as a crash of a driver that closes its ports would.
FAILS_AT_THE_END = """
#include <unistd.h>
__attribute__((destructor)) static void end(void) { _exit(7); }
"""


@pytest.fixture
def failing_end(tmp_path: Path) -> dict[str, str]:
    """Settings of the environment with which dpdk-testpmd ends with status 7."""
    testpmd, library = shutil.which("dpdk-testpmd"), tmp_path / "fails.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=FAILS_AT_THE_END, text=True,
                   check=True)
    program = tmp_path / "dpdk-testpmd"
    program.write_text(f'#!/bin/sh\nexport LD_PRELOAD="$LD_PRELOAD:{library}"\nexec {testpmd} "$@"\n')
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


def _is_thorough(item: pytest.Item) -> bool:
    return item.get_closest_marker("thorough") is not None


def _runs_in_guest(item: pytest.Item, once: bool) -> bool:
    marker = item.get_closest_marker("guest")
    if marker is None or marker.args == (False,):
        return False
    conditions = [marker.kwargs.get("when"), marker.kwargs.get("daily") if once else None]
    return all(condition is None or condition(parameters_of(item)) for condition in conditions)


def _in_guest(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--front") == "guest")


Running = SoftHca | GuestStack | GuestHca


def _running(request: pytest.FixtureRequest) -> list[Running]:
    """Everything that is running now, for the report of a failure."""
    config: Any = request.config
    if not hasattr(config, "rig_running"):
        config.rig_running = []
    running: list[Running] = config.rig_running
    return running


@pytest.fixture(scope="session")
def open_stack(
    request: pytest.FixtureRequest, build: Build, new_folder: Callable[[], Path]
) -> OpenStack:
    """open_stack(ports, datapath=…, testpmd_args=[…], …): a context with a stack. See Stack. Ports
    given as a number are lossless.

    testpmd must quit properly at its end.
    """
    running = _running(request)
    in_guest = _in_guest(request)

    @contextmanager
    def open_one(ports: int | Sequence[PortSpec] = 1, **options: Any) -> Iterator[Any]:
        specs = lossless(ports) if isinstance(ports, int) else list(ports)
        stack: Stack | GuestStack
        if in_guest:
            guest = request.getfixturevalue("guest")
            stack = GuestStack(guest, new_folder(), specs, **options)
        else:
            stack = Stack(build, new_folder(), specs, **options)
        running.append(stack)
        try:
            yield stack
            stack.finish()
        finally:
            stack.close()
            running.remove(stack)

    return open_one


@pytest.fixture
def start_stack(open_stack: OpenStack) -> Iterator[StartStack]:
    """The same for one test, with automatic teardown."""
    with ExitStack() as stacks:
        yield lambda *ports, **options: stacks.enter_context(open_stack(*ports, **options))


@pytest.fixture
def start_softhca(
    request: pytest.FixtureRequest, build: Build, new_folder: Callable[[], Path]
) -> Iterator[StartSoftHca]:
    """start_softhca(ports, program, …): any program under softhca, or in the guest."""
    running = _running(request)
    mine: list[SoftHca | GuestHca] = []

    def start(ports: Sequence[PortSpec], program: Sequence[str], **options: Any) -> Any:
        hca: SoftHca | GuestHca
        if _in_guest(request):
            guest = request.getfixturevalue("guest")
            hca = GuestHca(guest, new_folder(), ports, program, **options)
        else:
            hca = SoftHca(build, new_folder(), ports, program, **options)
        mine.append(hca)
        running.append(hca)
        return hca

    yield start
    for hca in reversed(mine):
        hca.close()
        running.remove(hca)


@pytest.fixture
def pci_of(request: pytest.FixtureRequest) -> Callable[[int], str]:
    """Where EAL will find the PCI function of a port created by start_softhca."""
    return guest_pci_address if _in_guest(request) else pci_address


@pytest.fixture(scope="module", params=RING_FORMATS)
def datapath(request: pytest.FixtureRequest) -> str:
    """Runs every test of the module on each ring format."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def stack(datapath: str, open_stack: OpenStack) -> Iterator[Stack]:
    """Two net_rawqp ports with one queue each, wires on sockets, shared by the module."""
    with open_stack(2, datapath=datapath) as stack:
        yield stack


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Adds to a failure how to repeat it, and how to start the same programs manually."""
    outcome: Any = yield
    report = outcome.get_result()
    if not report.failed:
        return
    settings = [
        f"{name}={shlex.quote(os.environ[name])}"
        for name in ("RAWQP_BUILD", "RAWQP_SANITIZE")
        if name in os.environ
    ]
    test = item.nodeid.removeprefix("functional/")
    command = ["/usr/bin/python3", "-m", "pytest", f"tests/functional/{test}"]
    if item.config.getoption("--front") == "guest":
        command.append("--front=guest")
    lines = [" ".join([*settings, shlex.join(command)])]
    lines += [hca.repeat_line() for hca in getattr(item.config, "rig_running", [])]
    report.sections.append(("run it again", "\n".join(lines)))

