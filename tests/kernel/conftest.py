# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the tests that need a kernel: one guest serves them all.

What also works without one is in tests/functional, which runs here by --front=guest.
"""
from __future__ import annotations

from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Callable, ContextManager, Iterator

import pytest
from rig.guest import Guest, GuestPort
from rig.guest_stack import GuestStack
from rig.peer import Peer
from rig.ports import PortSpec, lossless

OpenStack = Callable[..., ContextManager[GuestStack]]
StartStack = Callable[..., GuestStack]
# What drives the ports, as arguments of a stack: ours on either ring format, and DPDK's own driver,
# which tells a fault of the device from one of ours. Flow rules go by verbs there as well, so that
# it asks for the same things.
DRIVERS: dict[str, dict[str, Any]] = {
    "mlx5": {"datapath": "mlx5"},
    "verbs": {"datapath": "verbs"},
    "net_mlx5": {"pmd": "mlx5", "pmd_devargs": "dv_flow_en=0", "memory_mb": 512},
}


@pytest.fixture(scope="module", params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


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
        specs = lossless(ports) if isinstance(ports, int) else ports
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
    function, = guest.provide(lossless(1), new_folder())
    yield function
    if not guest.channel.ended:
        function.unplug()
    elif function.wire:
        function.wire.close()


@pytest.fixture
def peer(port: GuestPort) -> Iterator[Peer]:
    """Somebody at the far end of the port's cable."""
    assert port.wire
    with Peer(port.wire) as peer:
        yield peer
