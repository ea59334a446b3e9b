# SPDX-License-Identifier: BSD-3-Clause
"""Received tunnels: packet types of both headers, and verdicts on the inner checksums."""

from typing import Iterator

import pytest
from rig.packets import ether, ipv4, ipv6
from rig.stack import Stack
from rig.testpmd import ReceivedPacket
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import GRE, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from functional.conftest import OpenStack

pytestmark = pytest.mark.guest

FLAG = "RTE_MBUF_F_RX_"
GOOD_IP, GOOD_L4 = f"{FLAG}IP_CKSUM_GOOD", f"{FLAG}L4_CKSUM_GOOD"
VERDICTS = {GOOD_IP, GOOD_L4, f"{FLAG}IP_CKSUM_BAD", f"{FLAG}L4_CKSUM_BAD"}

INNER_IPV4 = IP(src="192.168.0.1", dst="192.168.0.2")
INNER_IPV6 = IPv6(src="fd0a::1", dst="fd0a::2")


def tunnel(kind: str, outer: Packet, inside: Packet) -> Packet:
    """A frame with `inside` (from L3 on) in such a tunnel."""
    start = ether() / outer.copy()
    if kind == "vxlan":
        return start / UDP(sport=5555, dport=4789) / VXLAN(vni=42) / ether() / inside
    if kind == "gre":
        return start / GRE(proto=0x86DD if IPv6 in inside else 0x0800) / inside
    if kind == "nvgre":
        return start / GRE(proto=0x6558, key_present=1, key=7) / ether() / inside
    return start / inside  # IP in IP: Scapy fills in the protocol


@pytest.fixture(scope="module")
def stack(open_stack: OpenStack) -> Iterator[Stack]:
    with open_stack(1, datapath="mlx5", testpmd_args=["--enable-rx-cksum"]) as stack:
        stack.testpmd.silent("set verbose 1")
        stack.testpmd.start("rxonly")
        yield stack


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "beside_filters"])
def test_rules_that_tell_tunnels_apart(open_stack: OpenStack, isolated: bool) -> None:
    """Each kind has its own queues, so packet types include it. In isolated mode, or if the port's filters, which
    admit tunnels of all kinds, lead to other queues."""
    names = {"vxlan": "TUNNEL_VXLAN", "gre": "TUNNEL_GRE"}
    items = {"vxlan": "udp / vxlan", "gre": "gre"}
    arguments = ["--rxq=4", "--txq=4", *(["--flow-isolate-all"] if isolated else [])]
    with open_stack(1, datapath="mlx5", testpmd_args=arguments) as stack:
        testpmd = stack.testpmd
        testpmd.silent("set verbose 1")
        if not isolated:
            testpmd.set_reta(0, [0] * testpmd.reta_size(0))
        testpmd.create_flow(0, f"ingress pattern eth / ipv4 / {items['vxlan']} / end"
                               " actions rss queues 1 2 end / end")
        testpmd.create_flow(0, f"ingress pattern eth / ipv4 / {items['gre']} / end"
                               " actions queue index 3 / end")
        testpmd.create_flow(0, "ingress pattern eth / ipv4 / tcp / end actions queue index 3 / end")
        testpmd.start("rxonly")

        def types(kind: str) -> list[str]:
            return receive(stack, tunnel(kind, ipv4(), INNER_IPV4 / UDP(sport=1, dport=2))).hw_ptype

        for kind, name in names.items():
            assert name in types(kind)
        if not isolated:  # from the filters
            gre6 = receive(stack, tunnel("gre", ipv6(), INNER_IPV4 / UDP(sport=1, dport=2)))
            assert gre6.queue == 0 and not any("TUNNEL" in word for word in gre6.hw_ptype)
        plain = receive(stack, ether() / ipv4() / TCP(sport=1, dport=2))
        assert not any("TUNNEL" in word for word in plain.hw_ptype)
        mixed = testpmd.create_flow(
            0, "ingress priority 1 pattern eth / end actions queue index 3 / end")
        assert not any("TUNNEL" in word for word in types("gre"))
        assert names["vxlan"] in types("vxlan")
        testpmd.destroy_flow(0, mixed)
        assert names["gre"] in types("gre")


def receive(stack: Stack, frame: bytes | Packet) -> ReceivedPacket:
    position = stack.testpmd.mark_output()
    stack.wires[0].send(frame)
    return stack.testpmd.received(position, 1)[0]


@pytest.mark.guest(when=lambda params: params["l4"].name == "UDP" and
                   (IP in params["outer"]) != (IP in params["inner"]))
@pytest.mark.parametrize("kind", ["vxlan", "gre", "nvgre", "ipip"])
@pytest.mark.parametrize("outer", [ipv4(), ipv6()], ids=["outer4", "outer6"])
@pytest.mark.parametrize("inner", [INNER_IPV4, INNER_IPV6], ids=["inner4", "inner6"])
@pytest.mark.parametrize("l4", [UDP(sport=1, dport=2), TCP(sport=1, dport=2, flags="A")],
                         ids=["udp", "tcp"])
def test_types_and_good_checksums(
    stack: Stack, kind: str, outer: Packet, inner: Packet, l4: Packet
) -> None:
    packet = receive(stack, tunnel(kind, outer, inner / l4 / Raw(b"inside")))
    version = "IPV4" if IP in outer else "IPV6"
    inner_version = "IPV4" if IP in inner else "IPV6"
    assert packet.hw_ptype == [
        "L2_ETHER", f"L3_{version}_EXT_UNKNOWN", f"INNER_L3_{inner_version}_EXT_UNKNOWN",
        f"INNER_L4_{l4.name}",
    ]
    assert VERDICTS & set(packet.flags) == ({GOOD_IP, GOOD_L4} if IP in inner else {GOOD_L4})


@pytest.mark.parametrize("kind", ["vxlan", "gre", "ipip"])
def test_other_protocols_inside(stack: Stack, kind: str) -> None:
    packet = receive(stack, tunnel(kind, ipv4(), INNER_IPV4 / ICMP()))
    assert packet.hw_ptype[-2:] == ["INNER_L3_IPV4_EXT_UNKNOWN", "INNER_L4_NONFRAG"]
    assert VERDICTS & set(packet.flags) == {GOOD_IP}


def broken(frame: Packet, layer: type[Packet], number: int) -> bytes:
    """One bit of the checksum of the `number`-th such layer is wrong."""
    built = Ether(bytes(frame))
    built.getlayer(layer, number).chksum ^= 0x10
    return bytes(built)


@pytest.mark.parametrize("kind", ["vxlan", "gre", "nvgre"])
def test_bad_inner_checksums_are_never_good(stack: Stack, kind: str) -> None:
    frame = tunnel(kind, ipv6(), INNER_IPV4 / TCP(sport=1, dport=2) / Raw(b"inside"))
    assert GOOD_L4 not in receive(stack, broken(frame, TCP, 1)).flags
    assert GOOD_IP in receive(stack, broken(frame, TCP, 1)).flags
    assert GOOD_IP not in receive(stack, broken(frame, IP, 1)).flags


def test_bad_outer_checksums_are_never_good(stack: Stack) -> None:
    """The CQE has one verdict for both: an application that trusts it must be able to forward the packet."""
    frame = tunnel("vxlan", ipv4(), INNER_IPV4 / TCP(sport=1, dport=2) / Raw(b"inside"))
    assert GOOD_IP not in receive(stack, broken(frame, IP, 1)).flags
    assert GOOD_L4 not in receive(stack, broken(frame, UDP, 1)).flags


def test_an_outer_udp_checksum_is_optional(stack: Stack) -> None:
    frame = ether() / ipv4() / UDP(sport=5, dport=4789, chksum=0) / VXLAN() / ether()
    packet = receive(stack, frame / INNER_IPV4 / UDP(sport=1, dport=2) / Raw(b"inside"))
    assert {GOOD_IP, GOOD_L4} <= set(packet.flags)


def test_what_only_looks_like_a_tunnel(stack: Stack) -> None:
    """Another port, a fragment, an unknown GRE version: the outer headers are reported."""
    inside = INNER_IPV4 / UDP(sport=1, dport=2)
    not_vxlan = ether() / ipv4() / UDP(sport=5, dport=4790) / VXLAN() / ether() / inside
    fragment = ether() / ipv4(proto=4, flags="MF") / inside
    version = ether() / ipv4() / GRE(proto=0x0800, version=1) / inside
    for frame in (not_vxlan, fragment, version):
        packet = receive(stack, bytes(frame))
        assert not [word for word in packet.hw_ptype if word.startswith("INNER")], packet.hw_ptype
