# SPDX-License-Identifier: BSD-3-Clause
"""Action sample: which packets are copied, how many, and what happens to copies and originals. Further refusals
are in tests/unit/flow/sample_test.cpp."""

from collections import Counter
from typing import Sequence

import pytest
from rig.flow_rules import receive
from rig.packets import ether, ipv4, udp4
from rig.stack import Stack
from rig.testpmd import ReceivedPacket
from scapy.layers.inet import UDP
from scapy.layers.l2 import Dot1Q
from scapy.packet import Packet, Raw

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("receiving")]

TO_100 = "eth / ipv4 / udp dst is 100 / end"
Seen = tuple[int, int | None]  # queue and mark


def sampled(stack: Stack, copies: str, ratio: int = 1, group: int = 0, pattern: str = TO_100,
            actions: str = "mark id 7 / queue index 2") -> int:
    stack.testpmd.command(f"set sample_actions 0 {copies} / end")
    return stack.testpmd.create_flow(0, f"group {group} ingress pattern {pattern}"
                                        f" actions sample ratio {ratio} index 0 / {actions} / end")


def into(stack: Stack, group: int) -> None:
    """Directs all packets of group 0 to this group."""
    stack.testpmd.create_flow(0, f"priority 1 ingress pattern eth / end actions jump group {group} / end")


def seen(stack: Stack, frames: Sequence[Packet], copies: int) -> list[ReceivedPacket]:
    position = stack.testpmd.mark_output()
    stack.wires[0].send_all(frames)
    packets = stack.testpmd.received(position, len(frames) + copies)
    assert len(packets) == len(frames) + copies
    return packets


def where(packets: Sequence[ReceivedPacket]) -> Counter[Seen]:
    return Counter((packet.queue, packet.mark) for packet in packets)


@pytest.mark.parametrize("group", [0, 1])
def test_each_packet_and_its_copy(stack: Stack, group: int) -> None:
    """A packet that differs in one bit has no copy. `receive` checks that no extra packets arrive."""
    sampled(stack, "mark id 9 / queue index 1", group=group)
    if group:
        into(stack, group)
        stack.testpmd.create_flow(0, f"group {group} priority 1 ingress pattern eth / end"
                                     " actions queue index 0 / end")
    assert where(seen(stack, [udp4(dport=100)] * 3, copies=3)) == {(2, 7): 3, (1, 9): 3}
    misses = receive(stack, [udp4(dport=100 ^ 1 << bit) for bit in range(16)])
    assert {packet.mark for packet in misses} == {None}


def test_copies_without_a_mark_have_none(stack: Stack) -> None:
    sampled(stack, "queue index 1")
    assert where(seen(stack, [udp4(dport=100)], copies=1)) == {(2, 7): 1, (1, None): 1}


def test_copies_keep_what_an_earlier_group_has_said(stack: Stack) -> None:
    """Copies have the mark of a rule that jumps, not that of the rule that copies."""
    stack.testpmd.create_flow(0, "ingress pattern eth / end actions mark id 5 / jump group 1 / end")
    sampled(stack, "queue index 1", group=1)
    assert where(seen(stack, [udp4(dport=100)], copies=1)) == {(2, 7): 1, (1, 5): 1}


def test_copies_are_of_what_came(stack: Stack) -> None:
    frame = ether() / Dot1Q(vlan=5) / ipv4() / UDP(dport=100) / Raw(bytes(100))
    sampled(stack, "mark id 9 / queue index 1", pattern="eth / vlan / ipv4 / udp dst is 100 / end",
            actions="of_pop_vlan / mark id 7 / queue index 2")
    packets = seen(stack, [frame], copies=1)
    assert {packet.mark: packet.length for packet in packets} == {9: len(frame), 7: len(frame) - 4}


def test_one_of_so_many(stack: Stack) -> None:
    """On average, 100 of 400 packets; less than 60 or more than 140 in one of 250,000 runs."""
    rule = sampled(stack, "queue index 1 / count", ratio=4)
    position = stack.testpmd.mark_output()
    for number in range(1, 9):
        stack.wires[0].send_all([udp4(dport=100)] * 50)
        stack.testpmd.program.wait_until(
            lambda _: where(stack.testpmd.received_so_far(position))[2, 7] == 50 * number,
            f"packet {50 * number}, besides copies")
    copies, bytes_ = stack.testpmd.query_count(0, rule)
    assert 60 <= copies <= 140 and bytes_ == 60 * copies


def test_the_rule_counts_packets_and_not_copies(stack: Stack) -> None:
    rule = sampled(stack, "queue index 1", actions="count / queue index 2")
    seen(stack, [udp4(dport=100), udp4(dport=101), udp4(dport=100)], copies=2)
    assert stack.testpmd.query_count(0, rule)[0] == 2


def test_from_a_jump_the_rest_goes_on(stack: Stack) -> None:
    sampled(stack, "mark id 9 / queue index 1", actions="jump group 1")
    stack.testpmd.create_flow(0, "group 1 ingress pattern eth / end actions mark id 8 / queue index 3 / end")
    assert where(seen(stack, [udp4(dport=100)] * 2, copies=2)) == {(3, 8): 2, (1, 9): 2}


def test_of_what_is_dropped_copies_are_left(stack: Stack) -> None:
    sampled(stack, "mark id 9 / queue index 1", actions="drop")
    position = stack.testpmd.mark_output()
    stack.wires[0].send_all([udp4(dport=100), udp4(dport=101)])
    assert where(stack.testpmd.received(position, 2))[1, 9] == 1


def test_a_change_before_the_copies_is_refused(stack: Stack) -> None:
    """The list is an order, and copies are of what came. Metadata belongs to no copy."""
    stack.testpmd.command("set sample_actions 0 queue index 1 / end")
    rule = ("ingress pattern eth / vlan / ipv4 / udp dst is 100 / end"
            " actions {} / sample ratio 1 index 0 / queue index 2")
    for change in ("of_pop_vlan", "dec_ttl", "of_push_vlan ethertype 0x8100", "set_mac_src mac_addr 02:00:00:00:00:09"):
        why = stack.testpmd.refused_flow(0, f"{rule.format(change)} / end")
        assert "its copies are of packets as they came, and an action before it changes these: put sample first" in why
    stack.testpmd.create_flow(0, f"{rule.format('set_meta data 5 mask 0xffffffff')} / end")


def test_what_copies_cannot_do_is_said(stack: Stack) -> None:
    for copies, why in (("rss queues 0 1 end", "they go to one queue"),
                        ("port_id id 0", "the port has no embedded switch"),
                        ("mark id 1", "no destination: add action queue")):
        stack.testpmd.command(f"set sample_actions 0 {copies} / end")
        assert why in stack.testpmd.refused_flow(
            0, f"ingress pattern {TO_100} actions sample ratio 1 index 0 / queue index 0 / end")
