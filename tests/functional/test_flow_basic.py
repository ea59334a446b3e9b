# SPDX-License-Identifier: BSD-3-Clause
"""rte_flow through testpmd: each action once, and match against miss by one bit.

The full matrix of items is in flow/test_flow_items.py.
"""

import re
from typing import Callable, Iterator, Sequence

import pytest
from rig.packets import tcp4, udp4
from rig.stack import Stack
from rig.testpmd import ReceivedPacket
from scapy.packet import Packet

from functional.conftest import OpenStack

pytestmark = pytest.mark.guest

QUEUES = 4


@pytest.fixture(scope="module")
def stack(datapath: str, open_stack: OpenStack) -> Iterator[Stack]:
    arguments = [f"--rxq={QUEUES}", f"--txq={QUEUES}", "--rss-udp"]
    with open_stack(1, datapath=datapath, testpmd_args=arguments) as stack:
        stack.testpmd.silent("set verbose 1")
        yield stack


Receive = Callable[[Sequence[Packet | bytes]], list[ReceivedPacket]]


@pytest.fixture
def receive(stack: Stack) -> Iterator[Receive]:
    """Sends frames and returns those that arrived."""
    stack.testpmd.start("rxonly")
    yield stack.show
    stack.testpmd.stop()
    stack.testpmd.flush_flows(0)


def test_queue(stack: Stack, receive: Receive) -> None:
    stack.testpmd.create_flow(
        0, "ingress pattern eth / ipv4 / udp dst is 53 / end actions queue index 3 / end")
    hits = receive([udp4(sport=n, dport=53) for n in range(1, 9)])
    assert [packet.queue for packet in hits] == [3] * 8
    misses = receive([udp4(sport=n, dport=53 ^ 1 << bit) for n, bit in enumerate(range(16), 1)])
    assert len(misses) == 16 and len({packet.queue for packet in misses}) > 1


@pytest.mark.guest(when=lambda params: params["bit"] == 10)
@pytest.mark.parametrize("bit", range(0, 32, 5))
def test_an_address_misses_by_one_bit(stack: Stack, receive: Receive, bit: int) -> None:
    stack.testpmd.create_flow(
        0, "ingress pattern eth / ipv4 src is 10.0.0.1 / end actions drop / end")
    value = 0x0A000001 ^ 1 << bit
    other = ".".join(str(byte) for byte in value.to_bytes(4, "big"))
    assert receive([udp4(source_ip="10.0.0.1")]) == []
    assert len(receive([udp4(source_ip=other)])) == 1


def test_a_masked_address(stack: Stack, receive: Receive) -> None:
    stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 src spec 10.1.0.0 src mask 255.255.0.0"
                                 " / end actions drop / end")
    assert receive([udp4(source_ip=ip) for ip in ("10.1.0.0", "10.1.2.3", "10.1.255.255")]) == []
    assert len(receive([udp4(source_ip=ip) for ip in ("10.0.255.255", "10.2.0.0")])) == 2


def test_drop_is_counted(stack: Stack, receive: Receive) -> None:
    before = stack.counters(0)["drop_rule"]
    stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / tcp / end actions drop / end")
    assert receive([tcp4(), tcp4(), tcp4()]) == []
    assert stack.counters(0)["drop_rule"] == before + 3
    assert len(receive([udp4()])) == 1


def test_mark(stack: Stack, receive: Receive) -> None:
    stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp dst is 7 / end"
                                 " actions mark id 0xabcd / queue index 1 / end")
    receive([udp4(dport=8)])  # for a burst that may have begun before the port's first rule with a mark
    marked, plain = receive([udp4(dport=7), udp4(dport=8)])
    assert (marked.mark, marked.queue) == (0xABCD, 1)
    assert plain.mark is None


def test_rss_to_some_queues(stack: Stack, receive: Receive) -> None:
    stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp / end actions"
                                 " rss types ipv4-udp end queues 1 2 end / end")
    queues = {packet.queue for packet in receive([udp4(sport=n) for n in range(1, 30)])}
    assert queues == {1, 2}


def test_priorities(stack: Stack, receive: Receive) -> None:
    """0 takes precedence, whatever the order of creation."""
    stack.testpmd.create_flow(
        0, "priority 1 ingress pattern eth / ipv4 / udp / end actions queue index 1 / end")
    stack.testpmd.create_flow(
        0, "priority 0 ingress pattern eth / ipv4 / udp dst is 9 / end actions queue index 2 / end")
    nine, other = receive([udp4(dport=9), udp4(dport=10)])
    assert (nine.queue, other.queue) == (2, 1)


def test_destroy(stack: Stack, receive: Receive) -> None:
    rule = "ingress pattern eth / ipv4 / udp dst is 11 / end actions drop / end"
    number = stack.testpmd.create_flow(0, rule)
    assert receive([udp4(dport=11)]) == []
    stack.testpmd.destroy_flow(0, number)
    assert len(receive([udp4(dport=11)])) == 1


def test_a_rule_made_while_stopped_works_after_the_start(stack: Stack, receive: Receive) -> None:
    """testpmd flushes the rules of a port that it stops, so it cannot show more than this."""
    testpmd = stack.testpmd
    testpmd.stop()
    testpmd.stop_port(0)
    testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp dst is 12 / end actions drop / end")
    testpmd.start_port(0)
    testpmd.start("rxonly")
    assert receive([udp4(dport=12)]) == []
    assert len(receive([udp4(dport=13)])) == 1


REFUSED = {
    "ingress pattern eth / ipv4 / udp / end actions queue index 99 / end": r"(?i)queue",
    "ingress egress pattern eth / end actions drop / end": "two directions",
    "ingress pattern eth / ipv4 / udp / end actions end": r"(?i)action|fate",
    "ingress pattern eth / vxlan / end actions drop / end": r"(?i)item|vxlan",
    "ingress pattern eth type is 0x86dd / ipv4 / end actions drop / end": r"(?i)ipv4|type",
}


@pytest.mark.guest(when=lambda params: params["datapath"] == "mlx5")
@pytest.mark.parametrize("rule", REFUSED)
def test_what_cannot_be_done_is_refused_with_the_reason(stack: Stack, rule: str) -> None:
    why = stack.testpmd.refused_flow(0, rule)
    assert re.search(REFUSED[rule], why), why
