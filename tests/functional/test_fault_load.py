# SPDX-License-Identifier: BSD-3-Clause
"""Faults while packets are in flight: afterwards, all packets sent have arrived or are counted as dropped,
and traffic continues."""

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Iterator

import pytest
from rig.packets import marker, numbered
from rig.ports import PortSpec
from rig.reliability import TellFaults
from rig.stack import Stack
from rig.wire import padded

from functional.conftest import OpenStack

# Daily, each fate of the packets on one ring format.
pytestmark = [pytest.mark.guest, pytest.mark.daily(when=lambda params: (params["datapath"], params["stack"]) in {
    ("mlx5", "pause"), ("verbs", "drop")})]

FRAME = next(numbered(1))[:14]  # to port 0


@pytest.fixture(scope="module", params=["pause", "drop"])
def stack(request: pytest.FixtureRequest, datapath: str, open_stack: OpenStack) -> Iterator[Stack]:
    """An empty ring pauses the wire, or drops packets."""
    ports = [PortSpec(options={"pause": "on"} if request.param == "pause" else {}) for _ in range(2)]
    with open_stack(ports, datapath=datapath, testpmd_args=["--rxq=2", "--txq=2"]) as stack:
        stack.testpmd.start("io", lossless=True)
        yield stack


@dataclass
class Load:
    """Packets that a thread sends to port 0, from which they are forwarded to port 1, and their fate."""

    stack: Stack
    sent: int = 0
    arrived: int = 0

    def drops(self) -> int:
        """All drops counted by devices and testpmd."""
        counted = sum(value for port in range(2) for name, value in self.stack.counters(port).items()
                      if name.startswith("drop_"))
        forwarded = self.stack.testpmd.forward_stats()
        return counted + sum(port.tx_dropped for port in forwarded.values())

    def drain(self) -> None:
        """Sends markers until one passes; like other packets, earlier ones may be dropped."""
        one, other = self.stack.wires
        for number in range(20):
            one.send(marker(number))
            self.sent += 1
            while (frame := other.poll(1)) is not None:
                self.arrived += 1
                if frame == padded(marker(number)):
                    return
        raise AssertionError("nothing passes any more")


@contextmanager
def load(stack: Stack) -> Iterator[Load]:
    """Packets are in flight; at the end all are accounted for."""
    one, other = stack.wires
    other.drain()
    under_way = Load(stack)
    before = under_way.drops()
    ends = threading.Event()

    def send() -> None:
        for number in count():
            if ends.is_set():
                return
            if one.try_send(FRAME + number.to_bytes(8, "big") + bytes(42)):
                under_way.sent += 1
            else:
                one.wait_for_room()

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    try:
        yield under_way
    finally:
        ends.set()
        sender.join()
    under_way.drain()
    assert under_way.sent == under_way.arrived + under_way.drops() - before
    assert under_way.arrived > 0


@pytest.mark.parametrize("times", [10, pytest.param(100, marks=pytest.mark.thorough)])
def test_a_link_that_flaps(stack: Stack, times: int, tell_faults: TellFaults) -> None:
    """The link of the receiving and of the sending port, alternately."""
    with load(stack):
        for number in range(times):
            port, before = number % 2, stack.counters(number % 2)["drop_link_down"]
            stack.set_link(port, False)
            if number < 2:  # packets hit it at least once, however slow the machine
                stack.wait_counter(port, "drop_link_down", before + 1)
            stack.set_link(port, True)
    tell_faults("link", times)


@pytest.mark.parametrize("times", [5, pytest.param(50, marks=pytest.mark.thorough)])
def test_a_device_that_stands_still(stack: Stack, times: int, tell_faults: TellFaults) -> None:
    """Either device, for a moment or for as long as it takes to fill all rings."""
    with load(stack) as under_way:
        for number in range(times):
            stack.break_queue(number % 2, f"stall:{(5, 200)[number % 4 == 3]}")
    assert under_way.arrived > times
    tell_faults("stall", times)


def test_a_second_in_which_nothing_drains(stack: Stack, tell_faults: TellFaults) -> None:
    """The far end accepts nothing: the Tx ring fills, then the Rx rings, then the wire pauses or the device
    drops."""
    with load(stack):
        stack.wires[1].hold(True)
        time.sleep(1)
        stack.wires[1].hold(False)
    tell_faults("empty", 1)
