# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the tests that need a kernel: one guest serves them all.

Tests that also work without one are in tests/functional, which runs here with --front=guest.
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
# Drivers of the ports, as arguments of a stack: ours on either ring format, and DPDK's own driver, which
# distinguishes a fault of the device from one of ours. Its flow rules use verbs, too, so that its requests
# are the same.
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
    """The kernel must not have complained after any test."""
    yield
    if not guest.channel.ended:  # otherwise its fixture reports it
        guest.check_alarms()


@pytest.fixture(scope="session")
def open_stack(guest: Guest, new_folder: Callable[[], Path]) -> OpenStack:
    """open_stack(2, datapath=…, …): a context with testpmd on new ports, which must end properly. See
    GuestStack."""

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
    """The same for one test, with automatic teardown."""
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
    """A host at the far end of the port's cable."""
    assert port.wire
    with Peer(port.wire) as peer:
        yield peer
