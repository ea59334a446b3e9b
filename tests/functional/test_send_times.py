# SPDX-License-Identifier: BSD-3-Clause
"""Packets that testpmd schedules (`set txtimes`), sent by DPDK's own net_mlx5 and by our driver: none may leave
before its time. How late they are depends on the machine's load."""

import struct
import time
from typing import Iterator, NamedTuple

import pytest
from rig.packets import ether, ipv4
from rig.ports import port_mac
from rig.stack import Stack
from rig.wire import SocketWire
from scapy.layers.inet import UDP
from scapy.packet import Raw

from functional.conftest import OpenStack

SEND_ON_TIMESTAMP = 1 << 21  # RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP
GAP = 5_000_000  # ns
# testpmd's data after the UDP header: signature, numbers of packet and queue, time.
MARK = struct.Struct("!IHHQ")
SIGNATURE = 0xBEEFC0DE
MARK_AT = 42


class Driver(NamedTuple):
    pmd: str
    options: dict[str, str]
    counts: bool  # counts times that it cannot keep


DRIVERS = {"mlx5": Driver("mlx5", {}, False),
           "rawqp": Driver("rawqp", {"datapath": "mlx5"}, True)}


@pytest.fixture(scope="module", params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> Driver:
    return DRIVERS[request.param]


@pytest.fixture(scope="module")
def stack(open_stack: OpenStack, driver: Driver) -> Iterator[Stack]:
    with open_stack(1, pmd=driver.pmd, **driver.options,
                    testpmd_args=[f"--tx-offloads={SEND_ON_TIMESTAMP:#x}", "--txd=256"]) as stack:
        yield stack


def arrivals(wire: SocketWire, count: int) -> list[tuple[int, int]]:
    """(scheduled time, arrival time) of `count` packets; 0: unscheduled. The device's clock is the machine's."""
    seen: list[tuple[int, int]] = []
    while len(seen) < count:
        frame = wire.receive(timeout=20)
        here = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        signature, _, _, due = MARK.unpack_from(frame, MARK_AT)
        assert signature == SIGNATURE
        seen.append((due, here))
    return seen


def send(stack: Stack, inter: int, count: int, burst: int = 1, intra: int = 0) -> list[tuple[int, int]]:
    """testpmd continues with the times where it stopped: these tests are ordered, and nothing is dropped."""
    stack.testpmd.silent(f"set burst {burst}", f"set txtimes {inter},{intra}")
    stack.testpmd.start("txonly", lossless=True)
    try:
        return arrivals(stack.wires[0], count)
    finally:
        stack.testpmd.stop()


def settle(stack: Stack) -> None:
    """Unsent packets are discarded with the queue; those sent before are still on the wire."""
    stack.testpmd.stop_port(0)
    while stack.wires[0].poll(0.2) is not None:
        pass
    stack.testpmd.start_port(0)
    stack.testpmd.clear_stats()


def test_packets_without_a_time(stack: Stack) -> None:
    stack.testpmd.silent("set txtimes 0,0")
    stack.testpmd.start("io")
    frames = [ether(port_mac(0)) / ipv4() / UDP() / Raw(bytes([i]) * 50) for i in range(50)]
    stack.wires[0].transfer(frames, stack.wires[0])
    stack.testpmd.stop()


def test_packets_leave_at_their_times(stack: Stack, driver: Driver) -> None:
    seen = send(stack, GAP, 60)
    assert [due for due, _ in seen] == [seen[0][0] + i * GAP for i in range(len(seen))]
    early = [due - here for due, here in seen if here < due]
    assert not early, f"so many ns too early: {early}"
    if driver.counts:
        assert stack.testpmd.xstats(0)["tx_timestamp_future_errors"] == 0
    settle(stack)


def test_packets_after_one_leave_with_it(stack: Stack) -> None:
    """The first packet of each burst has a time, or every packet."""
    for intra in (0, GAP // 8):
        seen = send(stack, GAP, 96, burst=8, intra=intra)
        due = 0
        for wanted, here in seen:
            assert wanted == 0 or wanted > due, "order"
            due = wanted or due
            assert here >= due
        assert sum(wanted != 0 for wanted, _ in seen) == (96 if intra else 12)
        settle(stack)


def test_times_that_cannot_be_kept(stack: Stack, driver: Driver) -> None:
    """Packets with past times are sent at once, and so are those too far ahead for the device."""
    send(stack, 1, 500)  # the first ones' times may still be ahead
    if driver.counts:
        assert stack.testpmd.xstats(0)["tx_timestamp_past_errors"] >= 100
    settle(stack)
    if driver.counts:
        send(stack, 60_000_000_000, 100)
        assert stack.testpmd.xstats(0)["tx_timestamp_future_errors"] >= 100
        settle(stack)
