# SPDX-License-Identifier: BSD-3-Clause
"""Rules of DPDK's own net_mlx5 for headers in tunnels, and for those other than TCP and UDP: each takes its
packet, and not one that differs in one bit. For rules that change received and sent packets, the output
is what Scapy builds."""

import re
import time
from typing import Iterator

import pytest
from rig.packets import ether, ipv4, ipv6
from rig.ports import lossless, port_mac
from rig.stack import Stack
from scapy.layers.inet import ICMP, UDP
from scapy.layers.inet6 import ICMPv6EchoReply, ICMPv6EchoRequest
from scapy.layers.ipsec import ESP
from scapy.layers.l2 import GRE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from functional.conftest import OpenStack

pytestmark = pytest.mark.guest

MARK = 0x5A5A
QUEUE = 2
DATA = Raw(bytes(40))


def vxlan(vni: int, inner: Packet) -> Packet:
    return ether() / ipv4() / UDP(sport=7, dport=4789) / VXLAN(vni=vni) / ether() / inner


def udp(ttl: int = 64, destination: str = port_mac(0), **addresses: str) -> Packet:
    return ether(destination) / ipv4(ttl=ttl, **addresses) / UDP(sport=9, dport=10) / DATA


def gre(inner: Packet, **fields: int) -> Packet:
    return ether() / ipv4() / GRE(**fields) / inner


def nvgre(vsid: int, flow: int) -> Packet:
    return gre(ether() / ipv4() / UDP() / DATA, proto=0x6558, key_present=1, key=vsid << 8 | flow)


def over_udp(port: int, header: str, inner: Packet) -> Packet:
    return ether() / ipv4() / UDP(sport=7, dport=port) / Raw(bytes.fromhex(header)) / inner


def geneve(vni: int, port: int = 9) -> Packet:
    return over_udp(6081, f"00006558{vni:06x}00", ether() / ipv4() / UDP(dport=port) / DATA)


def gtpu(teid: int, port: int = 9) -> Packet:
    inner = ipv4() / UDP(dport=port) / DATA
    return over_udp(2152, f"30ff{len(inner):04x}{teid:08x}", inner)


def labelled(label: int) -> Packet:
    return Raw(bytes.fromhex(f"{label:05x}140")) / ipv4() / UDP() / DATA


def mpls(label: int) -> Packet:
    return over_udp(6635, "", labelled(label))


def esp(spi: int) -> Packet:
    return ether() / ipv4() / ESP(spi=spi, seq=1, data=bytes(40))


RULES: dict[str, tuple[Packet, Packet]] = {
    "eth / ipv4 / udp / vxlan vni is 0x123456 / eth / ipv4 / udp dst is 53": (
        vxlan(0x123456, ipv4() / UDP(dport=53) / DATA),
        vxlan(0x123456, ipv4() / UDP(dport=52) / DATA)),
    "eth / ipv4 / udp / vxlan vni is 0x123456": (
        vxlan(0x123456, ipv4() / UDP() / DATA), vxlan(0x123457, ipv4() / UDP() / DATA)),
    "eth / ipv4 / udp / vxlan / eth / ipv4": (
        vxlan(1, ipv4() / UDP() / DATA), vxlan(1, ipv6() / UDP() / DATA)),
    "eth / ipv4 / udp / vxlan / eth / ipv6 dst is fd00::2": (
        vxlan(1, ipv6(destination="fd00::2") / UDP() / DATA),
        vxlan(1, ipv6(destination="fd00::3") / UDP() / DATA)),
    "eth / ipv4 / gre / ipv4": (gre(ipv4() / DATA), gre(ipv6() / DATA, proto=0x86DD)),
    "eth / ipv4 / gre protocol is 0x0800 / ipv4 dst is 10.7.0.1": (
        gre(ipv4(destination="10.7.0.1") / DATA), gre(ipv4(destination="10.7.0.0") / DATA)),
    "eth / ipv4 / gre / gre_key value is 5 / ipv4": (
        gre(ipv4() / DATA, key_present=1, key=5), gre(ipv4() / DATA, key_present=1, key=4)),
    "eth / ipv4 / nvgre tni is 0x123": (nvgre(0x123, 1), nvgre(0x122, 1)),
    "eth / ipv4 / udp / geneve vni is 0x123456": (geneve(0x123456), geneve(0x123457)),
    "eth / ipv4 / udp / geneve / eth / ipv4 / udp dst is 53": (geneve(1, 53), geneve(1, 52)),
    "eth / ipv4 / udp / gtp teid is 0x12345678": (gtpu(0x12345678), gtpu(0x12345679)),
    "eth / ipv4 / udp / gtp / ipv4 / udp dst is 53": (gtpu(1, 53), gtpu(1, 52)),
    "eth / ipv4 / udp / mpls label is 0x12345": (mpls(0x12345), mpls(0x12344)),
    "eth / ipv4 / gre / mpls label is 0x12345": (
        gre(labelled(0x12345), proto=0x8847), gre(labelled(0x12344), proto=0x8847)),
    "eth / ipv4 / esp spi is 0x11223344": (esp(0x11223344), esp(0x11223345)),
    "eth / ipv4 / icmp type is 8 code is 0": (
        ether() / ipv4() / ICMP(type=8) / DATA, ether() / ipv4() / ICMP(type=0) / DATA),
    "eth / ipv6 / icmp6 type is 128": (
        ether() / ipv6() / ICMPv6EchoRequest() / DATA, ether() / ipv6() / ICMPv6EchoReply() / DATA),
}


@pytest.fixture(scope="module")
def stack(open_stack: OpenStack) -> Iterator[Stack]:
    with open_stack(lossless(1), pmd="mlx5", testpmd_args=["--rxq=4", "--txq=4"]) as stack:
        yield stack


def test_rules_take_their_packets(stack: Stack) -> None:
    """One after the other on one stack: in the guest, a stack takes seconds."""
    stack.testpmd.silent("set verbose 1")
    for rule, frames in RULES.items():
        stack.testpmd.create_flow(
            0, f"ingress pattern {rule} / end actions mark id {MARK} / queue index {QUEUE} / end")
        stack.testpmd.start("rxonly")  # a burst begun before the first marking rule shows marks plus one
        position = stack.testpmd.mark_output()
        stack.wires[0].send_all(frames)
        packets = stack.testpmd.received(position, len(frames))
        hits = [packet for packet in packets if packet.mark is not None]
        assert [(hit.mark, hit.queue) for hit in hits] == [(MARK, QUEUE)], rule
        assert hits[0].length == max(len(frames[0]), 60), rule
        stack.testpmd.stop()
        stack.testpmd.flush_flows(0)
    stack.testpmd.silent("set verbose 0")


def test_esp_over_ipv6_spreads_by_its_spi(stack: Stack) -> None:
    """The hash has no addresses, so that the TIR's type of L3 says nothing."""
    frames = [ether() / ipv6() / ESP(spi=spi, seq=1, data=bytes(40)) for spi in range(1, 33)]
    stack.testpmd.silent("set verbose 1")
    stack.testpmd.create_flow(
        0, "ingress pattern eth / ipv6 / esp / end actions rss types esp end queues 0 1 2 3 end / end")
    stack.testpmd.start("rxonly")
    position = stack.testpmd.mark_output()
    stack.wires[0].send_all(frames)
    packets = stack.testpmd.received(position, len(frames))
    stack.testpmd.stop()
    stack.testpmd.flush_flows(0)
    stack.testpmd.silent("set verbose 0")
    assert {packet.queue for packet in packets} == {0, 1, 2, 3}


def test_meters_are_refused(stack: Stack) -> None:
    """Its meters are actions of software steering, which entries of format 0 cannot express."""
    stack.testpmd.expect("show port meter cap 0", "Meter is not supported")


NEW_MAC = "02:11:22:33:44:55"
# testpmd's `set vxlan` for the action, and the same as headers.
TUNNEL = ("vni 7 udp-src 8 udp-dst 4789 ip-src 198.51.100.1 ip-dst 198.51.100.2 "
          "eth-src 02:0a:0a:0a:0a:0a eth-dst 02:0b:0b:0b:0b:0b")


def in_tunnel(frame: Packet) -> Packet:
    outer = ether("02:0b:0b:0b:0b:0b", "02:0a:0a:0a:0a:0a")
    outer /= ipv4("198.51.100.1", "198.51.100.2", id=0)
    return outer / UDP(sport=8, dport=4789, chksum=0) / VXLAN(vni=7, flags=8) / frame


# All other packets use the queue of the rules under test, so that nothing overtakes them.
OTHERS = "priority 1 ingress pattern eth / end actions queue index 2 / end"
# The rule's pattern and actions, an input frame and the output (None: nothing).
UDP_TO_QUEUE = "ingress pattern eth / ipv4 / udp / end actions {} / queue index 2 / end"
CHANGES: list[tuple[str, Packet, Packet | None]] = [
    (UDP_TO_QUEUE.format(f"set_mac_dst mac_addr {NEW_MAC}"), udp(), udp(destination=NEW_MAC)),
    (UDP_TO_QUEUE.format("dec_ttl"), udp(), udp(ttl=63)),
    (UDP_TO_QUEUE.format("set_ipv4_src ipv4_addr 10.9.8.7 / set_tp_dst port 99"), udp(),
     ether() / ipv4("10.9.8.7") / UDP(sport=9, dport=99) / DATA),
    ("ingress pattern eth / ipv4 / udp / vxlan / eth / end actions vxlan_decap / queue index 2 / end",
     vxlan(5, ipv4() / UDP() / DATA), ether() / ipv4() / UDP() / DATA),
    ("egress pattern eth / ipv4 / udp / end actions drop / end", udp(), None),
    (f"egress pattern eth / ipv4 / udp / end actions set_mac_dst mac_addr {NEW_MAC} / end", udp(),
     udp(destination=NEW_MAC)),
    ("egress pattern eth / ipv4 / udp / end actions vxlan_encap / end", udp(), in_tunnel(udp())),
]


def comes_out(stack: Stack, frame: Packet, changed: Packet | None) -> None:
    """Requires the changed frame, or none, on the wire of arrival, from a testpmd that forwards on a single queue."""
    last = ether() / ipv6() / UDP() / Raw(b"last of a rule" * 4)
    stack.wires[0].send_all([frame, last])
    stack.wires[0].expect([changed, last] if changed else [last])


def test_rules_change_packets(stack: Stack) -> None:
    stack.testpmd.silent(f"set vxlan ip-version ipv4 {TUNNEL}")
    stack.testpmd.start("io")
    for rule, frame, changed in CHANGES:
        stack.testpmd.create_flow(0, rule)
        stack.testpmd.create_flow(0, OTHERS)
        comes_out(stack, frame, changed)
        stack.testpmd.flush_flows(0)
    stack.testpmd.stop()


AGE_S = 2
AGED = "Port 0: flow aged event"


def test_rules_count_and_age(stack: Stack) -> None:
    """With DevX counters, which the driver makes the device write to memory about once a second."""
    stack.testpmd.start("io")
    to_queue = "ingress pattern eth / {} / end actions {} / queue index 2 / end"
    position = stack.testpmd.mark_output()
    counting = stack.testpmd.create_flow(0, to_queue.format("ipv4 / udp", "count"))
    ageing = stack.testpmd.create_flow(0, to_queue.format("ipv6 / udp", f"age timeout {AGE_S}"))
    for _ in range(3):
        stack.wires[0].send(udp())
    stack.wires[0].expect([udp()] * 3)
    # The other rule does not age while it takes packets.
    packets, begin = 0, time.monotonic()
    while (counted := stack.testpmd.query_count(0, counting)) == (0, 0) or time.monotonic() < begin + 3 * AGE_S:
        assert time.monotonic() < begin + 20
        stack.wires[0].transfer([ether() / ipv6() / UDP() / DATA], to=stack.wires[0])
        packets += 1
    assert counted == (3, 3 * len(udp()))
    assert AGED not in stack.program.output[position:], f"aged, although {packets} packets came"
    stack.program.wait_for(AGED, position, timeout=20)
    assert re.search(rf"^\S*\s*{ageing}\s", stack.testpmd.command("flow aged 0"), re.MULTILINE)
    stack.testpmd.flush_flows(0)
    stack.testpmd.stop()
