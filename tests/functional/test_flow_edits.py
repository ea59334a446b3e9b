# SPDX-License-Identifier: BSD-3-Clause
"""rte_flow actions that change packets: those received on port 0 leave port 1 changed; and those sent by
port 1 are changed by egress rules. A packet that differs from the pattern in one bit is unchanged."""

import re
from typing import Iterator

import pytest
from rig.packets import ether, ipv4, ipv6
from rig.stack import ROOT, Stack
from rig.wire import padded
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import GRE, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from functional.conftest import OpenStack

pytestmark = pytest.mark.guest

DATA = Raw(b"payload" * 8)


@pytest.fixture(scope="module")
def stack(open_stack: OpenStack) -> Iterator[Stack]:
    with open_stack(2, datapath="mlx5") as stack:
        yield stack


@pytest.fixture(autouse=True)
def forwarding(stack: Stack) -> Iterator[None]:
    stack.testpmd.start("io", lossless=True)
    yield
    stack.testpmd.stop()
    for port in (0, 1):
        stack.testpmd.flush_flows(port)


def passed(stack: Stack, frame: Packet | bytes) -> bytes:
    stack.wires[0].send(frame)
    return stack.wires[1].receive()


def udp4(dport: int = 53, source: str = "10.0.0.1", destination: str = "10.0.0.2",
         **fields: int) -> Packet:
    return ether() / ipv4(source, destination, **fields) / UDP(sport=7, dport=dport) / DATA


def tcp6(tc: int = 0, flags: int | str = "A", **fields: int) -> Packet:
    given: dict[str, int | str] = {"sport": 7, "dport": 80, "seq": 100, "ack": 200, "flags": flags, **fields}
    return ether() / ipv6(tc=tc) / TCP(**given) / DATA


def tagged(vlan: int, source: str = "10.0.0.1", tos: int = 0) -> Packet:
    return ether() / Dot1Q(vlan=vlan, prio=5) / ipv4(source, tos=tos) / UDP(sport=7, dport=53) / DATA


UDP4, TCP6, VLAN = "eth / ipv4 / udp dst is 53", "eth / ipv6 / tcp dst is 80", "eth / vlan vid is 5 / ipv4"
PAIR = "02:11:22:33:44:55"

# Actions, pattern, a packet and the result.
CHANGES: dict[str, tuple[str, Packet, Packet]] = {
    "set_mac_src mac_addr " + PAIR: (
        UDP4, udp4(), ether(source=PAIR) / udp4().payload),
    "set_mac_dst mac_addr " + PAIR: (UDP4, udp4(), ether(PAIR) / udp4().payload),
    "set_ipv4_src ipv4_addr 192.168.3.4": (UDP4, udp4(), udp4(source="192.168.3.4")),
    "set_ipv4_dst ipv4_addr 192.168.3.4": (UDP4, udp4(), udp4(destination="192.168.3.4")),
    "set_ipv6_src ipv6_addr fd01:2:3:4::9": (
        TCP6, tcp6(), ether() / ipv6(source="fd01:2:3:4::9") / tcp6()[TCP]),
    "set_ipv6_dst ipv6_addr fd01:2:3:4::9": (
        TCP6, tcp6(), ether() / ipv6(destination="fd01:2:3:4::9") / tcp6()[TCP]),
    "set_tp_src port 4242": (UDP4, udp4(), ether() / ipv4() / UDP(sport=4242, dport=53) / DATA),
    "set_tp_dst port 4242": (TCP6, tcp6(), tcp6(dport=4242)),
    "set_ttl ttl_value 9": (UDP4, udp4(ttl=64), udp4(ttl=9)),
    "dec_ttl": (UDP4, udp4(ttl=64), udp4(ttl=63)),
    "set_ipv4_dscp dscp_value 46": (UDP4, udp4(tos=3), udp4(tos=46 << 2 | 3)),
    "set_ipv6_dscp dscp_value 46": (TCP6, tcp6(tc=3), tcp6(tc=46 << 2 | 3)),
    "of_set_vlan_vid vlan_vid 77": (VLAN, tagged(5), tagged(77)),
    "inc_tcp_seq value 11": (TCP6, tcp6(), tcp6(seq=111)),
    "dec_tcp_seq value 11": (TCP6, tcp6(), tcp6(seq=89)),
    "inc_tcp_ack value 11": (TCP6, tcp6(), tcp6(ack=211)),
    "dec_tcp_ack value 11": (TCP6, tcp6(), tcp6(ack=189)),
    "modify_field op set dst_type ipv4_ttl src_type value src_value 07 width 8":
        (UDP4, udp4(ttl=64), udp4(ttl=7)),
    "modify_field op sub dst_type ipv4_ttl src_type value src_value 07 width 8":
        (UDP4, udp4(ttl=64), udp4(ttl=57)),
    "modify_field op add dst_type udp_port_dst src_type value src_value 0100 width 16":
        (UDP4, udp4(), udp4(dport=53 + 256)),
    "modify_field op set dst_type ipv4_ecn src_type value src_value 02 width 2":
        (UDP4, udp4(tos=0xED), udp4(tos=0xEE)),
    "modify_field op set dst_type ipv6_ecn src_type value src_value 03 width 2":
        (TCP6, tcp6(tc=0xB8), tcp6(tc=0xBB)),
    "modify_field op add dst_type ipv6_ecn src_type value src_value 01 width 2":
        (TCP6, tcp6(tc=0xB9), tcp6(tc=0xBA)),
    "modify_field op set dst_type tcp_flags src_type value src_value 0155 width 9":
        (TCP6, tcp6(flags="A", reserved=5), tcp6(flags=0x155, reserved=5)),
    "modify_field op set dst_type tcp_flags dst_offset 1 src_type value src_value 0007 width 3":
        (TCP6, tcp6(flags="FU"), tcp6(flags="FSRU")),
    "modify_field op set dst_type udp_port_src src_type udp_port_dst width 16":
        (UDP4, udp4(), ether() / ipv4() / UDP(sport=53, dport=53) / DATA),
    "modify_field op set dst_type mac_dst src_type mac_src width 48":
        (UDP4, udp4(), ether(udp4().src) / udp4().payload),
    "modify_field op set dst_type ipv6_dst src_type ipv6_src width 128":
        (TCP6, tcp6(), ether() / ipv6(destination=tcp6()[IPv6].src) / tcp6()[TCP]),
    "modify_field op set dst_type ipv4_src dst_offset 8 src_type ipv4_dst src_offset 1 width 4":
        (UDP4, udp4(destination="10.0.0.22"), udp4(source="10.0.11.1", destination="10.0.0.22")),
    "modify_field op set dst_type ipv4_ttl dst_offset 4 src_type value src_value a7 width 3":
        (UDP4, udp4(ttl=0b0100_0001), udp4(ttl=0b0010_0001)),
    "modify_field op set dst_type udp_port_src src_type value src_value 12f0 width 8":
        (UDP4, udp4(), ether() / ipv4() / UDP(sport=0xF0, dport=53) / DATA),
    "modify_field op set dst_type mac_dst dst_offset 12 src_type value src_value 0123456789ab width 12":
        (UDP4, ether("02:00:00:00:00:00") / udp4().payload, ether("02:00:00:67:80:00") / udp4().payload),
    "modify_field op set dst_type ipv6_src dst_offset 60 src_type value"
    " src_value 00112233445566778899aabbccddeeff width 8":
        (TCP6, tcp6(), ether() / ipv6(source="fd00::7:8000:0:0:1") / tcp6()[TCP]),
    "modify_field op set dst_type mac_src dst_offset 8 src_type ipv6_dst width 40":
        (TCP6, tcp6(), ether(source="00:00:00:00:02:01") / tcp6().payload),
    "modify_field op set dst_type vlan_id src_type value src_value 004d width 12": (VLAN, tagged(5), tagged(77)),
    "modify_field op set dst_type vlan_id dst_offset 4 src_type value src_value 0ab0 width 8":
        (VLAN, tagged(5), tagged(0xAB5)),
    "modify_field op set dst_type vlan_id src_type ipv4_dscp width 6":
        (VLAN, tagged(5, tos=46 << 2), tagged(46, tos=46 << 2)),
    "modify_field op set dst_type ipv4_src dst_offset 4 src_type vlan_id width 12":
        (VLAN, tagged(5), tagged(5, source="10.0.0.81")),
    "modify_field op set dst_type ipv4_dscp src_type vlan_id width 6": (VLAN, tagged(5), tagged(5, tos=5 << 2)),
    "modify_field op set dst_type mac_src src_type mac_dst width 48":
        (UDP4, udp4(), ether(source=udp4().dst) / udp4().payload),
    "modify_field op set dst_type ipv4_dst src_type ipv4_src width 32": (UDP4, udp4(), udp4(destination="10.0.0.1")),
    "modify_field op set dst_type udp_port_dst src_type ipv4_ecn width 2": (UDP4, udp4(tos=2), udp4(54, tos=2)),
    "modify_field op set dst_type ipv4_ttl src_type udp_port_src width 8": (UDP4, udp4(ttl=64), udp4(ttl=7)),
    "modify_field op set dst_type udp_port_dst src_type ipv4_ttl width 8": (UDP4, udp4(ttl=64), udp4(64, ttl=64)),
    "modify_field op set dst_type ipv6_dscp src_type tcp_port_src width 6": (TCP6, tcp6(tc=3), tcp6(tc=7 << 2 | 3)),
    "modify_field op set dst_type tcp_port_src src_type ipv6_hoplimit width 8": (TCP6, tcp6(), tcp6(sport=64)),
    "modify_field op set dst_type ipv6_hoplimit src_type tcp_seq_num width 8":
        (TCP6, tcp6(), ether() / ipv6(hlim=100) / tcp6()[TCP]),
    "modify_field op set dst_type tcp_seq_num src_type tcp_ack_num width 32": (TCP6, tcp6(), tcp6(seq=200)),
    "modify_field op set dst_type tcp_ack_num src_type tcp_port_dst width 16": (TCP6, tcp6(), tcp6(ack=80)),
    "modify_field op set dst_type tcp_port_dst src_type ipv6_dscp width 6":
        (TCP6, tcp6(tc=46 << 2), tcp6(tc=46 << 2, dport=110)),
    "modify_field op set dst_type tcp_flags src_type ipv6_ecn width 2": (TCP6, tcp6(tc=3), tcp6(tc=3, flags=0x13)),
    "modify_field op set dst_type ipv6_ecn src_type tcp_flags width 2":
        (TCP6, tcp6(flags="AF"), tcp6(flags="AF", tc=1)),
    "set_ttl ttl_value 9 / set_mac_dst mac_addr " + PAIR + " / set_ipv4_dst ipv4_addr 10.9.9.9":
        (UDP4, udp4(), ether(PAIR) / udp4(ttl=9, destination="10.9.9.9").payload),
}


@pytest.mark.parametrize("direction", ["ingress", "egress"])
def test_fields_change(stack: Stack, direction: str) -> None:
    """The rules are installed one at a time, as each would change what the next one matches."""
    port, fate = (0, " / queue index 0") if direction == "ingress" else (1, "")
    for actions, (pattern, frame, changed) in CHANGES.items():
        rule = stack.testpmd.create_flow(
            port, f"{direction} pattern {pattern} / end actions {actions}{fate} / end")
        assert passed(stack, frame) == padded(changed), actions
        other = bytearray(padded(frame))
        other[14 + 40 + 3 if pattern == TCP6 else 15 if pattern == VLAN else 37] ^= 1
        assert passed(stack, bytes(other)) == bytes(other), actions
        stack.testpmd.destroy_flow(port, rule)


METADATA = {"meta", "tag", "mark"}  # in flow/test_flow_metadata.py and flow/test_flow.py


@pytest.mark.guest(False)
@pytest.mark.parametrize("role", ["dst", "src"])
def test_no_field_of_modify_field_is_left_out(role: str) -> None:
    """Each is set, and copied to another one."""
    source = (ROOT / "drivers/net/rawqp/ethdev/flow/modify_field.cpp").read_text()
    fields = {name.lower() for name in re.findall(r"\{RTE_FLOW_FIELD_(\w+), k", source)}
    used = {name for actions in CHANGES for name in re.findall(rf"{role}_type (\w+)", actions)} - {"value"}
    assert len(fields) > 20 and fields - METADATA == used


def test_dump_names_what_changes(stack: Stack) -> None:
    stack.testpmd.create_flow(0, f"ingress pattern {UDP4} / end actions of_push_vlan ethertype 0x8100 /"
                                 " of_set_vlan_vid vlan_vid 5 / of_set_vlan_pcp vlan_pcp 3 / dec_ttl /"
                                 f" set_mac_dst mac_addr {PAIR} / count / queue index 0 / end")
    assert ("queue 0, count, ipv4 ttl minus 0x1, eth dst set to 021122334455, tag 0x6005 put on,"
            " TPID 0x8100 (by mlx5)") in stack.testpmd.command("flow dump 0 all")


OUTER = Ether(dst="02:00:00:00:00:31", src="02:00:00:00:00:32") / ipv4("10.3.0.1", "10.3.0.2", ttl=9)


def test_a_tunnel_comes_off(stack: Stack) -> None:
    inside = udp4()
    frame = ether() / ipv4() / UDP(sport=7, dport=4789) / VXLAN(vni=5) / inside
    stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp / vxlan vni is 5 / end"
                                 " actions vxlan_decap / queue index 0 / end")
    assert passed(stack, frame) == padded(inside)
    other = ether() / ipv4() / UDP(sport=7, dport=4789) / VXLAN(vni=4) / inside
    assert passed(stack, other) == padded(other)


@pytest.mark.parametrize("inner, left", [("ipv4", udp4()), ("ipv6", tcp6())])
def test_a_tunnel_of_ip_comes_off(stack: Stack, inner: str, left: Packet) -> None:
    """Also pushes an Ethernet header."""
    stack.testpmd.silent("set raw_decap 0 eth / ipv4 / gre / end_set",
                         f"set raw_encap 0 eth src is {OUTER.src} dst is {OUTER.dst} type is {left.type} / end_set")
    stack.testpmd.create_flow(0, f"ingress pattern eth / ipv4 / gre / {inner} / end"
                                 " actions raw_decap index 0 / raw_encap index 0 / queue index 0 / end")
    frame = ether() / ipv4() / GRE(proto=left.type) / left.payload
    assert passed(stack, frame) == padded(Ether(src=OUTER.src, dst=OUTER.dst) / left.payload)
    other = ether() / ipv4() / GRE(proto=left.type ^ 1) / Raw(bytes(left.payload))
    assert passed(stack, other) == padded(other)


def test_nvgre_comes_off(stack: Stack) -> None:
    def frame(tni: int) -> Packet:
        return ether() / ipv4() / GRE(proto=0x6558, key_present=1, key=tni << 8) / udp4()

    stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / nvgre tni is 5 / end"
                                 " actions nvgre_decap / queue index 0 / end")
    assert passed(stack, frame(5)) == padded(udp4())
    assert passed(stack, frame(4)) == padded(frame(4))


def test_a_tunnel_comes_off_and_what_was_inside_changes(stack: Stack) -> None:
    def frame(inside: Packet) -> Packet:
        return ether() / ipv4(ttl=33) / UDP(sport=7, dport=4789) / VXLAN(vni=5) / inside

    stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp / vxlan / eth / ipv6 / tcp / end actions"
                                 " vxlan_decap / dec_ttl / set_tp_dst port 4242 / queue index 0 / end")
    changed = ether() / ipv6(hlim=63) / TCP(sport=7, dport=4242, seq=100, ack=200, flags="A") / DATA
    assert passed(stack, frame(ether() / ipv6(hlim=64) / tcp6()[TCP])) == padded(changed)
    assert passed(stack, frame(udp4())) == padded(frame(udp4()))


def test_a_tunnel_goes_on(stack: Stack) -> None:
    stack.testpmd.silent("set raw_encap 0 eth src is 02:00:00:00:00:32 dst is 02:00:00:00:00:31 /"
                         " ipv4 src is 10.3.0.1 dst is 10.3.0.2 ttl is 9 / udp src is 77 dst is 4789"
                         " / vxlan vni is 5 / end_set")
    stack.testpmd.create_flow(
        1, f"egress pattern {UDP4} / end actions raw_encap index 0 / end")
    sent = Ether(passed(stack, udp4()))
    assert (sent.dst, sent.src) == (OUTER.dst, OUTER.src)
    assert (sent[IP].src, sent[IP].dst, sent[IP].ttl) == ("10.3.0.1", "10.3.0.2", 9)
    assert sent[IP].len == len(sent) - 14
    assert (sent[UDP].sport, sent[UDP].dport) == (77, 4789)
    assert bytes(sent)[50:] == bytes(udp4()) and bytes(sent)[46:49] == b"\0\0\5"
    assert passed(stack, udp4(dport=52)) == padded(udp4(dport=52))


def test_nvgre_goes_on(stack: Stack) -> None:
    stack.testpmd.silent("set nvgre ip-version ipv4 tni 5 ip-src 10.3.0.1 ip-dst 10.3.0.2"
                         f" eth-src {OUTER.src} eth-dst {OUTER.dst}")
    stack.testpmd.create_flow(1, f"egress pattern {UDP4} / end actions nvgre_encap / end")
    outer = OUTER / GRE(proto=0x6558, key_present=1, key=5 << 8) / udp4()
    outer[IP].id, outer[IP].ttl = 0, 64
    assert passed(stack, udp4()) == bytes(outer)
    assert passed(stack, udp4(dport=52)) == padded(udp4(dport=52))


def test_vxlan_goes_on_as_it_is_given(stack: Stack) -> None:
    """With a tag, and with the UDP port that Linux uses by default."""
    stack.testpmd.silent("set vxlan-with-vlan ip-version ipv4 vni 5 udp-src 77 udp-dst 8472 ip-src 10.3.0.1"
                         f" ip-dst 10.3.0.2 vlan-tci 9 eth-src {OUTER.src} eth-dst {OUTER.dst}")
    stack.testpmd.create_flow(1, f"egress pattern {UDP4} / end actions vxlan_encap / end")
    outer = (Ether(src=OUTER.src, dst=OUTER.dst) / Dot1Q(vlan=9) / ipv4("10.3.0.1", "10.3.0.2", id=0)
             / UDP(sport=77, dport=8472, chksum=0) / VXLAN(vni=5, flags=8) / udp4())
    assert passed(stack, udp4()) == bytes(outer)
    assert passed(stack, udp4(dport=52)) == padded(udp4(dport=52))


def test_drop_on_the_way_out(stack: Stack) -> None:
    stack.testpmd.create_flow(1, f"egress pattern {UDP4} / end actions drop / end")
    stack.wires[0].send(udp4())
    assert passed(stack, udp4(dport=52)) == padded(udp4(dport=52))


@pytest.mark.parametrize("rule, why", [
    ("ingress pattern eth / end actions passthru / end", "into a group of 1 … 22, and jump there"),
    ("ingress pattern eth / end actions sample ratio 1 index 0 / queue index 0 / end",
     "its copies have no destination: add action queue"),
    ("egress pattern eth / end actions queue index 0 / end", "action queue is for received packets"),
    ("ingress pattern eth / ipv4 / end actions set_tp_dst port 5 / queue index 0 / end",
     "the pattern has no item tcp or udp"),
    ("ingress pattern eth / ipv4 / end actions vxlan_decap / queue index 0 / end", "has no tunnel"),
    ("ingress pattern eth / ipv4 / nvgre / end actions vxlan_decap / queue index 0 / end",
     "action vxlan_decap: the tunnel of the pattern is another one: use raw_decap"),
    ("ingress pattern eth / ipv4 / gre / ipv4 / end actions raw_decap index 0 / queue index 0 / end",
     "action raw_decap: what the tunnel carries has no Ethernet header, and needs one: add raw_encap"),
    # In this order the changes would apply to the tunnel's own headers.
    ("ingress pattern eth / ipv4 / udp / vxlan / eth / ipv4 / end actions set_ttl ttl_value 3 / vxlan_decap"
     " / queue index 0 / end",
     "action vxlan_decap: the device takes a tunnel off before it changes or copies fields"),
    ("ingress pattern eth / ipv4 / udp / vxlan / end actions vxlan_decap / set_ttl ttl_value 3 / queue index 0"
     " / end", "the pattern has no item ipv4 or ipv6 inside the tunnel: add it"),
    (f"egress pattern {UDP4} / end actions vxlan_encap / set_ttl ttl_value 3 / end",
     "action set_ttl: the device changes and copies fields before it puts a header on"),
])
def test_what_cannot_be_changed_is_refused(stack: Stack, rule: str, why: str) -> None:
    stack.testpmd.silent("set raw_decap 0 eth / ipv4 / gre / end_set")
    assert why in stack.testpmd.refused_flow(0, rule)
