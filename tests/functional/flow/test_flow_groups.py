# SPDX-License-Identifier: BSD-3-Clause
"""rte_flow groups and jumps between them, which the mlx5 engine implements with flow tables (DevX); and the same
by software steering, which serves all groups while one has a template table."""

import re
from typing import Iterator

import pytest
from rig.flow_rules import MARK, TAKE, engines_of, flow_stack, receive, taken
from rig.flow_templates import configure, create_table
from rig.packets import ether, ipv4, opaque, tcp4, tcp6, udp4, udp6
from rig.ports import lossless
from rig.stack import Stack
from rig.wire import padded
from scapy.layers.inet import UDP
from scapy.layers.l2 import Dot1AD, Dot1Q
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from functional.conftest import OpenStack

COMMANDS, SOFTWARE_0, SOFTWARE_1 = "commands", "software0", "software1"
# Daily, each format of steering entries with one engine.
DAILY = {("mlx5", COMMANDS), ("verbs", COMMANDS), ("mlx5", SOFTWARE_0), ("verbs", SOFTWARE_1)}
pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("receiving"),
              pytest.mark.daily(when=lambda params: (params["datapath"], params["stack"]) in DAILY)]
# Tests on other ports, which are the same every time.
on_other_ports = pytest.mark.daily(when=lambda params: params["stack"] == COMMANDS)

DATA = Raw(b"payload" * 8)


@pytest.fixture(scope="module", params=[COMMANDS, SOFTWARE_0, SOFTWARE_1])
def stack(datapath: str, open_stack: OpenStack, request: pytest.FixtureRequest) -> Iterator[Stack]:
    with flow_stack(open_stack, datapath, steering_format="1" if request.param == SOFTWARE_1 else "0") as stack:
        if request.param != COMMANDS:
            configure(stack)
            create_table(stack, "1 group 99 rules_number 1", "eth / ipv4", "drop", "drop")
        yield stack


@pytest.fixture
def by_software(stack: Stack, request: pytest.FixtureRequest) -> bool:
    return "software" in request.node.callspec.params["stack"]


def create(stack: Stack, rule: str) -> int:
    return stack.testpmd.create_flow(0, rule)


def jump(stack: Stack, group: int, pattern: str = "eth / ipv4", to: str = "") -> int:
    return create(stack, f"{to} ingress pattern {pattern} / end actions jump group {group} / end")


def missed(stack: Stack, frame: bytes) -> None:
    """Requires that no queue receives the frame, but that later frames arrive."""
    position = stack.testpmd.mark_output()
    stack.wires[0].send_all([frame, bytes(udp6())])
    packet, = stack.testpmd.received(position, 1)
    assert packet.mark is None


def test_a_group_sees_what_jumps_to_it(stack: Stack, by_software: bool) -> None:
    create(stack, f"group 1 ingress pattern eth / ipv4 / udp dst is 2000 / {TAKE}")
    assert taken(stack, [udp4(), tcp4(), udp6()]) == 0
    way = jump(stack, 1)
    assert set(engines_of(stack, group=1)) == {"software steering" if by_software else "mlx5"}
    assert taken(stack, [udp4()]) == 1
    assert taken(stack, [udp6()]) == 0
    for bit in range(16):
        missed(stack, bytes(udp4(dport=2000 ^ 1 << bit)))
    stack.testpmd.destroy_flow(0, way)
    assert taken(stack, [udp4(), tcp4()]) == 0


def test_a_jump_into_nothing_loses_the_packet(stack: Stack) -> None:
    way = jump(stack, 7)
    missed(stack, bytes(udp4()))
    stack.testpmd.destroy_flow(0, way)
    assert taken(stack, [udp4()]) == 0


def test_from_group_to_group(stack: Stack) -> None:
    """Each group narrows down the packets of the previous one; the chain uses all levels of the device."""
    jump(stack, 1)
    for group in range(1, 22):
        jump(stack, group + 1, f"eth / ipv4 / udp src spec {1 << group % 16} src mask {1 << group % 16}"
             if group < 16 else "eth / ipv4", f"group {group}")
    create(stack, f"group 22 ingress pattern eth / ipv4 / udp / {TAKE}")
    assert taken(stack, [udp4(sport=0xFFFE), udp4(sport=0xFFFF)]) == 2
    for bit in range(1, 16):
        missed(stack, bytes(udp4(sport=0xFFFF ^ 1 << bit)))


@pytest.mark.parametrize("priorities", [(0, 1, 2), (2, 1, 0), (4095, 17, 3), (5, 4095, 0)])
def test_priorities_of_a_group(stack: Stack, priorities: tuple[int, ...]) -> None:
    """The best one wins, whichever rule was created first or is more specific."""
    jump(stack, 3)
    patterns = ("eth / ipv4 / udp dst is 2000", "eth / ipv4", "eth")
    rules = {}
    for number, priority in enumerate(priorities):
        rules[priority] = create(
            stack, f"group 3 priority {priority} ingress pattern {patterns[number]} / end actions"
                   f" mark id {priority} / queue index 1 / end")
    for priority in sorted(rules):
        assert receive(stack, [udp4()])[0].mark == priority
        stack.testpmd.destroy_flow(0, rules[priority])
    missed(stack, bytes(udp4()))


def test_many_priorities(stack: Stack) -> None:
    jump(stack, 1)
    chosen = list(range(4000, 0, -97))
    stack.testpmd.create_flows(0, [
        f"group 1 priority {priority} ingress pattern eth / ipv4 / udp src is {priority}"
        f" / end actions mark id {priority} / queue index 1 / end" for priority in chosen])
    create(stack, "group 1 priority 2000 ingress pattern eth / ipv4 / end actions mark id 1"
                  " / queue index 1 / end")
    packets = receive(stack, [udp4(sport=priority) for priority in chosen])
    marks = {packet.mark for packet in packets}
    assert marks == {p for p in chosen if p < 2000} | {1}


def test_many_rules_of_one_mask(stack: Stack) -> None:
    """Ranges of the table grow, and destroyed rules make room."""
    ports = range(1, 301 if stack.patience == 1 else 151)
    jump(stack, 1)
    def create_all(marks: dict[int, int]) -> list[int]:
        return stack.testpmd.create_flows(0, [
            f"group 1 ingress pattern eth / ipv4 / udp dst is {port} / end actions"
            f" mark id {mark} / queue index 1 / end" for port, mark in marks.items()])
    rules = create_all({port: port for port in ports})
    packets = receive(stack, [udp4(dport=port) for port in ports])
    assert sorted(packet.mark or 0 for packet in packets) == list(ports)
    stack.testpmd.destroy_flows(0, rules[::2])
    missed(stack, bytes(udp4(dport=1)))
    create_all({port: port + 1000 for port in ports[::2]})
    packets = receive(stack, [udp4(dport=1), udp4(dport=2), udp4(dport=ports[-2])])
    assert {packet.mark for packet in packets} == {1001, 2, 1000 + ports[-2]}


def test_rss_in_a_group(stack: Stack) -> None:
    jump(stack, 1, "eth")
    create(stack, "group 1 ingress pattern eth / end actions rss types ipv4-udp ipv6-tcp end"
                  " queues 1 3 end / end")
    def spread(frames: list[bytes]) -> set[int]:
        return {packet.queue for packet in receive(stack, frames)}
    ports = range(1, 40)
    assert spread([bytes(udp4(sport=n)) for n in ports]) == {1, 3}
    assert spread([bytes(tcp6(sport=n)) for n in ports]) == {1, 3}
    assert spread([bytes(tcp4(sport=n)) for n in ports]) == {1}
    assert spread([opaque(60, n) for n in ports]) == {1}


def test_marks_and_counts_on_the_way(stack: Stack) -> None:
    """A mark set by a rule that jumps remains unless the group sets another one."""
    way = create(stack, "ingress pattern eth / ipv4 / end"
                        " actions count / mark id 11 / jump group 1 / end")
    kept = create(stack, "group 1 ingress pattern eth / ipv4 / udp / end"
                         " actions count / queue index 1 / end")
    other = create(stack, "group 1 ingress pattern eth / ipv4 / tcp / end"
                          " actions count / mark id 12 / queue index 1 / end")
    gone = create(stack, "group 1 ingress pattern eth / ipv4 proto is 50 / end actions count / drop / end")
    packets = receive(stack, [udp4(), tcp4(), tcp4()])
    assert sorted(packet.mark or 0 for packet in packets) == [11, 12, 12]
    missed(stack, bytes(ether() / ipv4(proto=50) / (b"x" * 60)))
    count = stack.testpmd.query_count
    assert [count(0, rule)[0] for rule in (way, kept, other, gone)] == [4, 1, 2, 1]


def test_dump_tells_groups_and_jumps(stack: Stack, by_software: bool) -> None:
    jump(stack, 1)
    create(stack, f"group 1 ingress pattern eth / ipv4 / udp / {TAKE}")
    text = stack.testpmd.command("flow dump 0 all")
    engine = "software steering" if by_software else "mlx5"
    assert re.search(rf"ingress priority 0: eth .* / ipv4 .*: jump to group 1 \(by {engine}\)", text)
    assert re.search(rf"ingress group 1 priority 0: .* / udp: queue 2, mark {MARK} \(by {engine}\)", text)


@pytest.mark.parametrize("rule, why", [
    ("group 2 ingress pattern eth / end actions jump group 2 / end", "from group 2 to 2"),
    ("group 2 ingress pattern eth / end actions jump group 1 / end", "a jump leads to a higher group"),
    ("ingress pattern eth / end actions jump group 1 / queue index 0 / end", "has jump already"),
    ("group 1 priority 4096 ingress pattern eth / end actions drop / end", "a group above 0 is 4095"),
])
def test_refusals(stack: Stack, rule: str, why: str) -> None:
    assert why in stack.testpmd.refused_flow(0, rule)


def test_groups_far_up(stack: Stack, by_software: bool) -> None:
    rule = "ingress pattern eth / end actions jump group 31 / end"
    if not by_software:
        assert "tells groups up to 23 apart" in stack.testpmd.refused_flow(0, f"group 30 {rule}")
        return
    jump(stack, 30)
    create(stack, f"group 30 {rule}")
    create(stack, f"group 31 ingress pattern eth / {TAKE}")
    assert taken(stack, [udp4(), tcp4()]) == 2


@on_other_ports
def test_without_devx(open_stack: OpenStack, datapath: str) -> None:
    """On a kernel without DevX, the refusal says so, and group 0 works."""
    with open_stack(lossless(1, devargs="flow_engine=mlx5", devx="off"), datapath=datapath) as stack:
        stack.testpmd.silent("set verbose 1")
        why = stack.testpmd.refused_flow(0, "ingress pattern eth / end actions jump group 1 / end")
        assert "need flow tables by DevX, which the kernel does not give to this process" in why
        why = stack.testpmd.refused_flow(0, "ingress pattern eth / end actions count / drop / end")
        assert "mlx5dv flows have counters by DevX only" in why
        why = stack.testpmd.refused_flow(
            0, "ingress pattern eth / vlan / end actions of_pop_vlan / queue index 0 / end")
        assert "VLAN tags come off and go on in flow tables by DevX, which" in why
        stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / end actions drop / end")


# -- VLAN tags ---------------------------------------------------------------------------------------


def tagged(vlan: int, prio: int = 5, tpid: int = 0x8100) -> Packet:
    return ether() / Dot1Q(type=0x800, vlan=vlan, prio=prio) / ipv4() / UDP(sport=7, dport=53) / DATA \
        if tpid == 0x8100 else ether() / Dot1AD(type=0x800, vlan=vlan, prio=prio) / ipv4() \
        / UDP(sport=7, dport=53) / DATA


def twice(vlan: int, prio: int, tpid: int = 0x8100) -> Packet:
    """With another tag before that of VLAN 5."""
    return ether(type=tpid) / Dot1Q(type=0x8100, vlan=vlan, prio=prio) / tagged(5)[Dot1Q]


PLAIN = ether() / ipv4() / UDP(sport=7, dport=53) / DATA
TAG5 = "eth / vlan vid is 5 pcp is 5 / ipv4"
VLAN5, UDP53 = "eth / vlan vid is 5 / ipv4", "eth has_vlan is 0 / ipv4 / udp dst is 53"
PUSH = "of_push_vlan ethertype 0x8100"

# Actions, pattern, a packet and the result.
TAGS: dict[str, tuple[str, Packet, Packet]] = {
    "of_pop_vlan": (VLAN5, tagged(5), PLAIN),
    PUSH: (UDP53, PLAIN, tagged(0, 0)),
    PUSH + " / of_set_vlan_vid vlan_vid 77": (UDP53, PLAIN, tagged(77, 0)),
    PUSH + " / of_set_vlan_vid vlan_vid 77 / of_set_vlan_pcp vlan_pcp 3": (UDP53, PLAIN, tagged(77, 3)),
    "of_push_vlan ethertype 0x88a8 / of_set_vlan_pcp vlan_pcp 7 / of_set_vlan_vid vlan_vid 4095":
        (UDP53, PLAIN, tagged(4095, 7, 0x88A8)),
    "of_pop_vlan / " + PUSH + " / of_set_vlan_vid vlan_vid 9": (VLAN5, tagged(5), tagged(9, 0)),
    "of_set_vlan_vid vlan_vid 77": (VLAN5, tagged(5), tagged(77)),
    "of_set_vlan_vid vlan_vid 6 / " + PUSH + " / of_set_vlan_vid vlan_vid 7":
        (VLAN5, tagged(5), ether(type=0x8100) / Dot1Q(type=0x8100, vlan=7) / tagged(6)[Dot1Q]),
    # A tag starts as the one that was outermost, as far as the rule knows that.
    "of_push_vlan ethertype 0x88a8": (VLAN5, tagged(5), twice(5, 0, tpid=0x88A8)),
    PUSH + " / of_set_vlan_vid vlan_vid 7 ": (TAG5, tagged(5), twice(7, 5)),
    "of_set_vlan_vid vlan_vid 5 / " + PUSH: (TAG5, tagged(5), twice(5, 5)),
}


@on_other_ports
@pytest.mark.parametrize("group", [0, 1])
@pytest.mark.parametrize("direction", ["ingress", "egress"])
def test_tags_come_off_and_go_on(forwarders: Stack, direction: str, group: int) -> None:
    """A packet that differs from the pattern in one bit keeps its tags."""
    port, fate = (0, " / queue index 0") if direction == "ingress" else (1, "")
    testpmd, wires = forwarders.testpmd, forwarders.wires

    def passed(frame: bytes) -> bytes:
        wires[0].send(frame)
        return wires[1].receive()

    if group == 1:
        testpmd.create_flow(port, f"{direction} pattern eth / end actions jump group 1 / end")
    testpmd.create_flow(port, f"group {group} priority 9 {direction} pattern eth / end actions"
                              f" count{fate} / end")
    for actions, (pattern, frame, changed) in TAGS.items():
        rule = testpmd.create_flow(
            port, f"group {group} {direction} pattern {pattern} / end actions {actions}{fate} / end")
        assert passed(padded(frame)) == padded(changed), actions
        other = bytearray(padded(frame))
        other[37 if pattern == UDP53 else 15] ^= 1
        assert passed(bytes(other)) == bytes(other), actions
        testpmd.destroy_flow(port, rule)
    testpmd.flush_flows(port)


@on_other_ports
def test_the_tag_inside_a_tunnel_comes_off(forwarders: Stack) -> None:
    testpmd, wires = forwarders.testpmd, forwarders.wires
    testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp / vxlan / eth / vlan / end"
                           " actions vxlan_decap / of_pop_vlan / queue index 0 / end")
    wires[0].send(ether() / ipv4() / UDP(sport=7, dport=4789) / VXLAN(vni=5, flags=8) / tagged(5))
    assert wires[1].receive() == padded(PLAIN)
    testpmd.flush_flows(0)


@pytest.mark.parametrize("rule, why", [
    ("group 1 ingress pattern eth / end actions of_pop_vlan / queue index 0 / end",
     "the pattern has no item vlan"),
    ("group 1 ingress pattern eth / vlan / end actions of_set_vlan_pcp vlan_pcp 1 / queue index 0 / end",
     "take it off and push another one before"),
    ("group 1 ingress pattern eth / vlan / end actions of_pop_vlan / of_set_vlan_vid vlan_vid 1"
     " / queue index 0 / end", "the tag is off by then"),
    ("group 1 ingress pattern eth / end actions of_push_vlan ethertype 0x9100 / queue index 0 / end",
     "EtherType 0x9100 is no VLAN tag's"),
    (f"group 1 ingress pattern eth / end actions {PUSH} / {PUSH} / queue index 0 / end",
     "only one tag can go on"),
    # In this order the tag would go on inside the tunnel.
    (f"group 1 egress pattern eth / end actions vxlan_encap / {PUSH} / end", "put it before vxlan_encap"),
    # No tag would be left to copy from.
    ("group 1 ingress pattern eth / vlan / end actions modify_field op set dst_type tag"
     " src_type vlan_id width 12 / of_pop_vlan / queue index 0 / end",
     "the device takes a tag off before it changes or copies an id"),
])
def test_tags_that_cannot_change(stack: Stack, rule: str, why: str) -> None:
    assert why in stack.testpmd.refused_flow(0, rule)
