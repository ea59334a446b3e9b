# SPDX-License-Identifier: BSD-3-Clause
"""Rules of DPDK's own net_mlx5 in groups, which it creates through software steering: libmlx5 writes hash tables
and header edits into ICM, and the device executes them. They match and change the same as rules of group 0
(test_stock_flow.py), for which the kernel's driver uses flow tables. With each format of entries; format 1 also
has meters."""

import time
from typing import Iterator

import pytest
from rig.flow_meters import Meters
from rig.packets import ether, ipv4, ipv6
from rig.ports import lossless
from rig.sanitizers import leaks_ignored
from rig.stack import Stack
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import GRE, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from functional.conftest import OpenStack
from functional.test_stock_flow import (CHANGES, DATA, MARK, NEW_MAC, OTHERS, QUEUE, RULES, TUNNEL, comes_out, udp)


FORMAT_0, FORMAT_1 = "0", "1"

# In the guest, where a stack takes long to start, one test of each kind runs daily, all with the same stack: rules that
# match and change, count, copy and meter packets.
pytestmark = pytest.mark.guest(daily=lambda _: False)
guest_daily = pytest.mark.guest(daily=lambda params: params["stack"] == FORMAT_1)


@pytest.fixture(scope="module", params=[FORMAT_0, FORMAT_1], ids=lambda number: f"format{number}")
def stack(open_stack: OpenStack, request: pytest.FixtureRequest,
          tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    ports = lossless(1, steering_format=request.param)
    # net_mlx5 leaks libmlx5's allocations for actions that run meters.
    not_ours = leaks_ignored(tmp_path_factory.mktemp("leaks"), "mlx5dv_dr_action_create_aso")
    with open_stack(ports, pmd="mlx5", testpmd_args=["--rxq=4", "--txq=4"], env=not_ours,
                    memory_mb=128) as stack:
        yield stack


@pytest.fixture
def meters(stack: Stack) -> Iterator[Meters]:
    meters = Meters(stack)
    yield meters
    meters.clear()


only_format_1 = pytest.mark.parametrize("stack", [FORMAT_1], indirect=True, ids=["format1"])


def jump(stack: Stack, direction: str, group: int = 1, to: str = "") -> None:
    stack.testpmd.create_flow(0, f"{to} {direction} pattern eth / end actions jump group {group} / end")


def test_rules_of_a_group_take_their_packets(stack: Stack) -> None:
    stack.testpmd.silent("set verbose 1")
    for rule, frames in RULES.items():
        if "esp" in rule:  # libmlx5 of rdma-core 44 omits the SPI from its entries
            continue
        jump(stack, "ingress")
        stack.testpmd.create_flow(0, f"group 1 ingress pattern {rule} / end"
                                  f" actions mark id {MARK} / queue index {QUEUE} / end")
        stack.testpmd.start("rxonly")
        position = stack.testpmd.mark_output()
        stack.wires[0].send_all(reversed(frames))  # a packet that misses is gone when the other one arrives
        packets = stack.testpmd.received(position, 1)
        assert [(hit.mark, hit.queue) for hit in packets] == [(MARK, QUEUE)], rule
        assert packets[0].length == max(len(frames[0]), 60), rule
        stack.testpmd.stop()
        stack.testpmd.flush_flows(0)
    stack.testpmd.silent("set verbose 0")


# Bits of rte_flow's integrity item, from which net_mlx5 creates rules for valid packets.
L3_OK, L4_OK, IPV4_CHECKSUM_OK, L4_CHECKSUM_OK = 0x04, 0x08, 0x20, 0x40


def integrity(bits: int, level: int = 0) -> str:
    return f"integrity level is {level} value mask {bits} value spec {bits}"


def in_vxlan(inner: Packet) -> Packet:
    return ether() / ipv4() / UDP(sport=7, dport=4789) / VXLAN(vni=5) / ether() / inner


V4, V6, MORE = ether() / ipv4(), ether() / ipv6(), Raw(bytes(100))  # the length tells which one was taken
# A rule, a packet that matches, one that does not, and the definer layouts that libmlx5 uses for it in a group.
Taking = tuple[str, Packet, Packet, set[int]]
INTEGRITY: list[Taking] = [
    (f"{integrity(L4_OK)} / eth / ipv4 / udp", V4 / UDP() / MORE, V4 / UDP(chksum=1) / DATA, {2}),
    (f"{integrity(L4_CHECKSUM_OK)} / eth / ipv4 / tcp", V4 / TCP() / MORE, V4 / TCP(chksum=1) / DATA, {2}),
    (f"{integrity(IPV4_CHECKSUM_OK)} / eth / ipv4", V4 / UDP() / MORE, ether() / ipv4(chksum=1) / UDP() / DATA, {0}),
    (f"{integrity(L3_OK)} / eth / ipv4 src is 10.0.0.1 / udp dst is 53", V4 / UDP(dport=53) / MORE,
     ether() / ipv4(chksum=1) / UDP(dport=53) / DATA, {33}),
    (f"{integrity(L3_OK)} / eth / ipv6 src is fd00::1", V6 / UDP() / MORE,
     ether() / ipv6(plen=1000) / UDP() / DATA, {26}),
]
# No layout contains the surrounding headers, so libmlx5 would refuse this in a group.
INNER_INTEGRITY: list[Taking] = [
    (f"eth / ipv4 / udp / vxlan / {integrity(L4_OK, 2)} / eth / ipv4 / udp",
     in_vxlan(ipv4() / UDP() / MORE), in_vxlan(ipv4() / UDP(chksum=1) / DATA), set()),
]
TUNNELS: list[Taking] = [
    ("eth / ipv4 / udp / vxlan vni is 5 / eth / ipv4 dst is 10.0.0.3 / udp dst is 53",
     in_vxlan(ipv4(destination="10.0.0.3") / UDP(dport=53) / MORE), in_vxlan(ipv4() / UDP(dport=53) / DATA), {25}),
    ("eth / ipv4 src is 10.0.0.1 / udp / vxlan / eth / ipv4 dst is 10.0.0.3 / udp dst is 53",
     in_vxlan(ipv4(destination="10.0.0.3") / UDP(dport=53) / MORE), in_vxlan(ipv4() / UDP(dport=53) / DATA), {28}),
]


@only_format_1
@pytest.mark.parametrize("group,rules", [(0, INTEGRITY + INNER_INTEGRITY), (1, INTEGRITY)], ids=["root", "group"])
def test_rules_ask_for_sound_packets(stack: Stack, group: int, rules: list[Taking]) -> None:
    take_only(stack, group, rules)


@only_format_1
def test_rules_of_tunnels_look_at_all_at_once(stack: Stack) -> None:
    take_only(stack, 1, TUNNELS)


@only_format_1
def test_rules_know_the_queue_that_sends(stack: Stack) -> None:
    others = {definer["number"] for definer in stack.dump()["definers"]}
    jump(stack, "egress")
    answer = stack.testpmd.command("flow create 0 group 1 egress pattern tx_queue tx_queue_value is 2 / end"
                                   " actions drop / end")
    if "Bad arguments" in answer:
        stack.testpmd.flush_flows(0)
        pytest.skip("testpmd knows the item tx_queue since 23.07")
    assert "created" in answer
    assert {row["layout"] for row in stack.dump()["definers"] if row["number"] not in others} == {16}
    stack.testpmd.start("io")
    for protocol, queue in ("ipv4", 2), ("ipv6", 1):
        stack.testpmd.create_flow(0, f"ingress pattern eth / {protocol} / end actions queue index {queue} / end")
    last = ether() / ipv6() / UDP() / DATA
    for _ in range(3):
        stack.wires[0].send_all([udp(), last])
        stack.wires[0].expect([last])
    stack.testpmd.flush_flows(0)
    stack.testpmd.stop()


def take_only(stack: Stack, group: int, rules: list[Taking]) -> None:
    stack.testpmd.silent("set verbose 1")
    for rule, taken, left, layouts in rules:
        if group:
            jump(stack, "ingress", group)
            stack.testpmd.create_flow(0, f"group {group} priority 5 ingress pattern eth / end"
                                      " actions queue index 0 / end")
        others = {definer["number"] for definer in stack.dump()["definers"]}
        stack.testpmd.create_flow(0, f"group {group} ingress pattern {rule} / end"
                                  f" actions mark id {MARK} / queue index {QUEUE} / end")
        made = {definer["layout"] for definer in stack.dump()["definers"] if definer["number"] not in others}
        assert made == (layouts if group else set()), rule
        stack.testpmd.start("rxonly")
        position = stack.testpmd.mark_output()
        stack.wires[0].send_all([left, taken])
        packets = stack.testpmd.received(position, 2)
        hits = [packet for packet in packets if packet.mark is not None]
        assert [(hit.mark, hit.queue) for hit in hits] == [(MARK, QUEUE)], rule
        assert hits[0].length == len(taken), rule
        stack.testpmd.stop()
        stack.testpmd.flush_flows(0)
    stack.testpmd.silent("set verbose 0")


# Rules of group 1, and the result for a frame that was received and sent again.
TAKE = "group 1 ingress pattern eth / end actions queue index 2 / end"
GROUP_CHANGES: list[tuple[list[str], Packet, Packet | None]] = [
    (["group 1 egress pattern eth / ipv4 / udp dst is 10 / end actions of_push_vlan ethertype 0x8100"
      " / of_set_vlan_vid vlan_vid 5 / of_set_vlan_pcp vlan_pcp 3 / end"],
     udp(), ether() / Dot1Q(vlan=5, prio=3) / ipv4() / UDP(sport=9, dport=10) / DATA),
    (["group 1 egress pattern eth / ipv6 src is fd00::1 / tcp / end actions set_ttl ttl_value 9 / end"],
     ether() / ipv6() / TCP() / DATA, ether() / ipv6(hlim=9) / TCP() / DATA),
    (["group 1 ingress pattern eth / vlan / ipv4 / end actions of_pop_vlan / queue index 2 / end"],
     ether() / Dot1Q(vlan=5) / ipv4() / TCP() / DATA, ether() / ipv4() / TCP() / DATA),
    (["group 1 ingress pattern eth / ipv4 / end actions dec_ttl / jump group 2 / end",
      "group 2 ingress pattern eth / ipv4 ttl is 63 / end"
      f" actions set_mac_dst mac_addr {NEW_MAC} / queue index 2 / end"],
     udp(), udp(ttl=63, destination=NEW_MAC)),
    (["group 1 ingress pattern eth / ipv6 / tcp / end actions"
      " set_ipv6_dst ipv6_addr fd00::99 / set_tp_src port 7 / queue index 2 / end"],
     ether() / ipv6() / TCP(sport=1, dport=2) / DATA,
     ether() / ipv6(destination="fd00::99") / TCP(sport=7, dport=2) / DATA),
]


def in_group(rule: str) -> list[str]:
    return [f"group 1 {rule}"]


@guest_daily
def test_rules_of_a_group_change_packets(stack: Stack) -> None:
    change_packets(stack, [(in_group(rule), frame, changed) for rule, frame, changed in CHANGES] + GROUP_CHANGES)


def change_packets(stack: Stack, changes: list[tuple[list[str], Packet, Packet | None]]) -> None:
    stack.testpmd.silent(f"set vxlan ip-version ipv4 {TUNNEL}")
    stack.testpmd.start("io")
    for rules, frame, changed in changes:
        egress = "egress" in rules[0]
        jump(stack, "egress" if egress else "ingress")
        for rule in rules:
            stack.testpmd.create_flow(0, rule)
        stack.testpmd.create_flow(0, OTHERS if egress else f"group 1 {OTHERS}")
        comes_out(stack, frame, changed)
        stack.testpmd.flush_flows(0)
    stack.testpmd.stop()


@only_format_1
def test_rules_share_a_list_of_edits(stack: Stack) -> None:
    """The values to set are in separate arguments of each rule, which libmlx5 writes by WQEs."""
    macs = {10: "02:11:22:33:44:55", 11: "02:66:77:88:99:aa"}
    stack.testpmd.start("io")
    jump(stack, "ingress")
    for port, mac in macs.items():
        stack.testpmd.create_flow(0, f"group 1 ingress pattern eth / ipv4 / udp dst is {port} / end"
                                  f" actions set_mac_dst mac_addr {mac} / queue index 2 / end")
    frames = {port: ether() / ipv4() / UDP(dport=port) / DATA for port in macs}
    for port, frame in frames.items():
        stack.wires[0].send(frame)
        stack.wires[0].expect([ether(macs[port]) / frame.payload])
    # Only now: nothing waits for these WQEs, but the device executes them before it receives.
    arguments = stack.dump()["edit_arguments"]
    for mac in macs.values():
        high, low = mac.replace(":", "")[:8], mac.replace(":", "")[8:]  # one edit each
        assert len([row for row in arguments if high in row["data"] and low in row["data"]]) == 1
    stack.testpmd.flush_flows(0)
    stack.testpmd.stop()


OUTER = "eth src is 02:00:00:00:00:01 dst is 02:00:00:00:00:09 type is 0x0800"
L3_TUNNEL = f"{OUTER} / ipv4 src is 10.0.0.8 dst is 10.0.0.9 proto is 47 ttl is 64 / gre protocol is 0x0800"


def test_tunnels_of_l3(stack: Stack) -> None:
    """Tunnels without an inner L2 header: the frame's is removed or added."""
    for command in (f"raw_encap 0 {L3_TUNNEL}", "raw_decap 0 eth", f"raw_encap 1 {OUTER}",
                    "raw_decap 1 eth / ipv4 / gre"):
        stack.testpmd.silent(f"set {command} / end_set")
    l2 = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:09")
    inner = ipv4() / UDP(sport=9, dport=10) / DATA
    outer = IP(src="10.0.0.8", dst="10.0.0.9", ttl=64, id=0) / GRE(proto=0x0800)
    change_packets(stack, [
        (["group 1 egress pattern eth / ipv4 / udp / end actions raw_decap index 0 / raw_encap index 0 / end"],
         ether() / inner, l2 / outer / inner),
        (["group 1 ingress pattern eth / ipv4 / gre protocol is 0x0800 / ipv4 / end"
          " actions raw_decap index 1 / raw_encap index 1 / queue index 2 / end"],
         ether() / outer / inner, l2 / inner),
    ])


@guest_daily
def test_rules_of_a_group_count(stack: Stack) -> None:
    stack.testpmd.start("io")
    jump(stack, "ingress")
    counting = stack.testpmd.create_flow(
        0, "group 1 ingress pattern eth / ipv4 / udp dst is 10 / end actions count / queue index 2 / end")
    stack.testpmd.create_flow(0, "group 1 priority 1 ingress pattern eth / end actions queue index 1 / end")
    other = ether() / ipv4() / UDP(dport=11) / DATA
    for frames in [udp()] * 3, [other]:  # on another queue, which may be faster
        stack.wires[0].send_all(frames)
        stack.wires[0].expect(frames)
    deadline = time.monotonic() + 20
    while (counted := stack.testpmd.query_count(0, counting)) == (0, 0):
        assert time.monotonic() < deadline
        time.sleep(0.1)  # the driver makes the device write counters to memory about once a second
    assert counted == (3, 3 * len(udp()))
    stack.testpmd.flush_flows(0)
    stack.testpmd.stop()


def test_many_rules_of_a_group(stack: Stack) -> None:
    """Tables grow and are rewritten as rules are added; each still takes its own packets."""
    stack.testpmd.silent("set verbose 1")
    jump(stack, "ingress")
    for port in range(1, 301):
        stack.testpmd.create_flow(0, f"group 1 ingress pattern eth / ipv4 / udp dst is {port} / end"
                                  f" actions mark id {port} / queue index {port % 4} / end")
    stack.testpmd.start("rxonly")
    position = stack.testpmd.mark_output()
    sent = [1, 2, 77, 150, 299, 300]
    for port in sent:
        stack.wires[0].send(ether() / ipv4() / UDP(dport=port) / DATA)
    packets = stack.testpmd.received(position, len(sent))
    assert sorted((packet.mark, packet.queue) for packet in packets) == [(port, port % 4) for port in sent]
    stack.testpmd.flush_flows(0)
    stack.testpmd.stop()
    stack.testpmd.silent("set verbose 0")


@guest_daily
def test_a_rule_of_a_group_copies_packets(stack: Stack) -> None:
    stack.testpmd.silent("set verbose 1")
    stack.testpmd.start("rxonly")
    stack.testpmd.silent("set sample_actions 0 queue index 3 / end")
    jump(stack, "ingress")
    stack.testpmd.create_flow(0, "group 1 ingress pattern eth / ipv4 / udp / end"
                              " actions sample ratio 1 index 0 / queue index 1 / end")
    position = stack.testpmd.mark_output()
    stack.wires[0].send(udp())
    packets = stack.testpmd.received(position, 2)
    assert sorted((packet.queue, packet.length) for packet in packets) == [(1, len(udp())), (3, len(udp()))]
    stack.testpmd.flush_flows(0)
    stack.testpmd.stop()
    stack.testpmd.silent("set verbose 0")


TOKENS = 1  # per second: only what the buckets held passes
POLICE = "group 1 ingress pattern eth / ipv4 / udp / end actions meter mtr_id 1 / queue index 2 / end"
SLACK = 8  # packets, in a test that takes some seconds


def police(stack: Stack) -> None:
    jump(stack, "ingress")
    stack.testpmd.create_flow(0, POLICE)
    stack.testpmd.create_flow(0, "group 1 priority 5 ingress pattern eth / end actions queue index 2 / end")


def policed(stack: Stack, frames: list[Packet]) -> list[bytes]:
    """The frames that pass and are sent again."""
    last = ether() / ipv6() / UDP() / DATA
    stack.wires[0].send_all([*frames, last])
    return stack.wires[0].receive_until(last)


@guest_daily
@only_format_1
@pytest.mark.parametrize("profile,green,yellow", [
    (f"srtcm_rfc2697 {TOKENS} 10 15 1", 10, 15),
    (f"trtcm_rfc2698 {TOKENS} {TOKENS} 10 30 1", 10, 20),
    (f"trtcm_rfc4115 {TOKENS} {TOKENS} 10 15 1", 10, 15),
])
def test_a_meter_of_packets(stack: Stack, meters: Meters, profile: str, green: int, yellow: int) -> None:
    stack.testpmd.start("io")
    meters.make(1, profile)
    police(stack)
    passed = policed(stack, [udp()] * 60)
    assert set(passed) == {bytes(udp())}
    assert green + yellow <= len(passed) <= green + yellow + 2 * SLACK
    stack.testpmd.stop()


@only_format_1
def test_a_meter_of_bytes(stack: Stack, meters: Meters) -> None:
    """20 packets, with the length in the IP header."""
    stack.testpmd.start("io")
    meters.make(1, f"srtcm_rfc2697 {TOKENS} {20 * (len(udp()) - 14)} 0 0")
    police(stack)
    assert len(policed(stack, [udp()] * 40)) == 20
    stack.testpmd.stop()


@only_format_1
def test_a_meter_of_what_is_sent(stack: Stack, meters: Meters) -> None:
    stack.testpmd.start("io")
    meters.make(1, f"srtcm_rfc2697 {TOKENS} 10 0 1")
    jump(stack, "egress")
    stack.testpmd.create_flow(0, "group 1 egress pattern eth / ipv4 / udp / end actions meter mtr_id 1 / end")
    # Through one queue, which keeps their order: the last packet shows that no others follow.
    stack.testpmd.create_flow(0, "ingress pattern eth / end actions queue index 2 / end")
    assert 10 <= len(policed(stack, [udp()] * 40)) <= 10 + SLACK
    stack.testpmd.stop()
