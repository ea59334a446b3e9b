# SPDX-License-Identifier: BSD-3-Clause
"""rte_flow: every item bit by bit, every action, priorities, the life of rules.

Rules under test mark what they take: one batch of frames then shows hits and misses at once.
"""

import re
from dataclasses import dataclass
from typing import Iterator, Sequence

import pytest
from rig.packets import ether, ipv4, ipv6, opaque, tcp4, tcp6, udp4, udp6
from rig.ports import lossless
from rig.stack import Stack
from rig.testpmd import ReceivedPacket
from rig.toeplitz import flow_hash
from scapy.layers.inet import ICMP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6ExtHdrFragment
from scapy.layers.l2 import GRE, Dot1AD, Dot1Q
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from functional.conftest import OpenStack

pytestmark = pytest.mark.guest

QUEUES = 4
MARK = 0x5A5A
TAKE = f"end actions mark id {MARK} / queue index 2 / end"
RSS_HASH = 1 << 19  # RTE_ETH_RX_OFFLOAD_RSS_HASH
BATCH = 128  # frames at once: fewer than a queue has descriptors
# Rings have no part in how rules are put to the device: each engine is tested with one kind. `auto`
# uses verbs for all that verbs has words for.
ENGINES = {"mlx5": "auto", "verbs": "mlx5"}


@pytest.fixture(scope="module")
def stack(datapath: str, open_stack: OpenStack) -> Iterator[Stack]:
    # Promiscuous, as testpmd starts: frames that a rule misses arrive without a mark.
    arguments = [f"--rxq={QUEUES}", f"--txq={QUEUES}", "--rss-udp"]
    if datapath == "mlx5":  # verbs cannot report hashes
        arguments.append(f"--rx-offloads={RSS_HASH:#x}")
    ports = lossless(1, devargs=f"flow_engine={ENGINES[datapath]}")
    with open_stack(ports, datapath=datapath, testpmd_args=arguments) as stack:
        stack.testpmd.silent("set verbose 1")
        yield stack


@pytest.fixture
def engine(datapath: str) -> str:
    return ENGINES[datapath]


@pytest.fixture(autouse=True)
def receiving(stack: Stack) -> Iterator[None]:
    stack.testpmd.start("rxonly")
    yield
    stack.testpmd.stop()
    stack.testpmd.flush_flows(0)


def receive(stack: Stack, frames: Sequence[bytes | Packet]) -> list[ReceivedPacket]:
    """All frames arrive, in any order."""
    packets = []
    for start in range(0, len(frames), BATCH):
        batch = frames[start : start + BATCH]
        position = stack.testpmd.mark_output()
        stack.wires[0].send_all(batch)
        packets += stack.testpmd.received(position, len(batch))
    assert len(packets) == len(frames)
    return packets


def taken(stack: Stack, frames: Sequence[bytes | Packet]) -> int:
    """How many of the frames the rules under test take."""
    packets = receive(stack, frames)
    hits = [packet for packet in packets if packet.mark is not None]
    assert all((packet.mark, packet.queue) == (MARK, 2) for packet in hits)
    return len(hits)


# -- items: each bit of each field ------------------------------------------------------------------

VLAN_FRAME = ether() / Dot1Q(vlan=0x123, prio=5, id=0) / ipv4() / UDP(sport=7, dport=53) / Raw(b"x")
SERVICE_FRAME = ether() / Dot1AD(vlan=0x123, prio=5) / ipv4() / UDP(sport=7, dport=53) / Raw(b"x")
VXLAN_FRAME = (ether() / ipv4() / UDP(sport=7, dport=4789) / VXLAN(vni=0x123456)
               / ether() / ipv4() / UDP() / Raw(b"x"))
ICMP_FRAME = ether() / ipv4() / ICMP(type=8, id=0x1234, seq=7) / Raw(bytes(40))
PING6_FRAME = ether() / ipv6() / ICMPv6EchoRequest() / Raw(bytes(40))
ESP_FRAME = ether() / ipv4(proto=50) / Raw(bytes.fromhex("12345678") + bytes(40))
QINQ_FRAME = ether() / Dot1AD(vlan=7) / Dot1Q(vlan=0x123, prio=5) / ipv4() / UDP() / Raw(bytes(40))
TWICE_FRAME = ether() / Dot1Q(vlan=7) / Dot1Q(vlan=0x123, prio=5) / ipv4() / UDP() / Raw(bytes(40))
INSIDE = ipv4(ttl=7) / UDP(sport=7, dport=53) / Raw(bytes(20))
GRE_IP_FRAME = ether() / ipv4() / GRE() / INSIDE
KEY_FRAME = ether() / ipv4() / GRE(key_present=1, key=0x12345678) / INSIDE
NVGRE_FRAME = (ether() / ipv4() / GRE(proto=0x6558, key_present=1, key=0x12345678)
               / ether() / INSIDE)


def over_udp(port: int, header: str, payload: Packet = ether() / INSIDE) -> Packet:
    return ether() / ipv4() / UDP(sport=7, dport=port) / Raw(bytes.fromhex(header)) / payload


GENEVE_FRAME = over_udp(6081, "00006558 12345600")
GPE_FRAME = over_udp(4790, "0c000003 12345600")
GTP_FRAME = over_udp(2152, "30ff0030 12345678", INSIDE)
MPLS_FRAME = ether(type=0x8847) / Raw(bytes.fromhex("12345140")) / INSIDE
MPLS_UDP_FRAME = over_udp(6635, "12345140", INSIDE)
MPLS_GRE_FRAME = ether() / ipv4() / GRE(proto=0x8847) / Raw(bytes.fromhex("12345140")) / INSIDE
VXLAN6_FRAME = (ether() / ipv4() / UDP(sport=7, dport=4789) / VXLAN(vni=5)
                / ether() / ipv6(fl=0x12345, tc=0xB8) / TCP(sport=9, dport=80, flags="S"))
LATER_FRAGMENT = ether() / ipv4(proto=17, frag=3) / Raw(bytes(40))
FIRST_FRAGMENT = ether() / ipv4(proto=17, flags="MF") / UDP(dport=2000) / Raw(bytes(40))
FRAGMENT6 = ether() / ipv6() / IPv6ExtHdrFragment(offset=4, nh=17) / Raw(bytes(40))
GRE_FRAME = bytes(ether() / ipv4(proto=47, tos=0xB8) / Raw(bytes(40)))
ICMP6_FRAME = bytes(ether() / ipv6(nh=58, tc=0xB8, fl=0x12345) / Raw(bytes(40)))
ETH_DST, ETH_SRC, ETH_TYPE, VLAN_TCI = 0, 6, 12, 14
IPV4_TOS, IPV4_TTL, IPV4_PROTO, IPV4_SRC, IPV4_DST = 15, 22, 23, 26, 30
IPV6_WORD, IPV6_NEXT, IPV6_HOP, IPV6_SRC, IPV6_DST = 14, 20, 21, 22, 38
L4_OVER_IPV4, L4_OVER_IPV6 = 34, 54
UDP_TUNNEL, VXLAN_INSIDE = 42, 50  # a tunnel's header after UDP; the Ethernet header in VXLAN


@dataclass
class Field:
    """`frame` matches `pattern`; so do those that differ outside `mask` in the bytes at `offset`."""

    pattern: str
    frame: bytes | Packet
    offset: int
    mask: str  # hexadecimal

    def variants(self) -> tuple[list[bytes], list[bytes]]:
        """Frames that still match and frames that no longer do, each with one bit changed."""
        frame = bytes(self.frame)
        mask = bytes.fromhex(self.mask)
        hits: list[bytes] = [frame]
        misses: list[bytes] = []
        for bit in range(len(mask) * 8):
            changed = bytearray(frame)
            changed[self.offset + bit // 8] ^= 0x80 >> bit % 8
            (misses if mask[bit // 8] & 0x80 >> bit % 8 else hits).append(bytes(changed))
        return hits, misses


FIELDS = {
    "eth dst": Field("eth dst is 02:00:00:00:00:01", udp4(), ETH_DST, "ff" * 6),
    "eth dst masked": Field("eth dst spec 02:00:00:00:00:00 dst mask ff:ff:00:0f:00:80",
                            udp4(), ETH_DST, "ffff000f0080"),
    "eth dst multicast": Field("eth dst is 01:00:5e:00:00:05",
                               opaque(60, 1, "01:00:5e:00:00:05"), ETH_DST, "ff" * 6),
    "eth dst group bit": Field("eth dst spec 01:00:00:00:00:00 dst mask 01:00:00:00:00:00",
                               opaque(60, 1, "01:00:5e:00:00:05"), ETH_DST, "010000000000"),
    "eth src": Field("eth src is 02:aa:00:00:00:01", udp4(), ETH_SRC, "ff" * 6),
    "eth type": Field("eth type is 0x88b5", opaque(60, 1), ETH_TYPE, "ffff"),
    "eth type masked": Field("eth type spec 0x8800 type mask 0xff00", opaque(60, 1), ETH_TYPE, "ff00"),
    "vlan vid": Field("eth / vlan vid is 0x123", VLAN_FRAME, VLAN_TCI, "0fff"),
    "vlan pcp": Field("eth / vlan pcp is 5", VLAN_FRAME, VLAN_TCI, "e000"),
    "vlan tci": Field("eth / vlan tci is 0xa123", VLAN_FRAME, VLAN_TCI, "ffff"),
    "vlan any": Field("eth / vlan", VLAN_FRAME, VLAN_TCI, "0000"),
    "vlan inner type": Field("eth / vlan inner_type is 0x88b5",
                             ether() / Dot1Q(vlan=9, type=0x88B5) / Raw(bytes(60)), 16, "ffff"),
    "ipv4 src": Field("eth / ipv4 src is 10.0.0.1", udp4(), IPV4_SRC, "ff" * 4),
    "ipv4 dst": Field("eth / ipv4 dst is 10.0.0.2", udp4(), IPV4_DST, "ff" * 4),
    "ipv4 dst masked": Field("eth / ipv4 dst spec 10.0.0.2 dst mask 255.15.0.3",
                             udp4(), IPV4_DST, "ff0f0003"),
    "ipv4 proto": Field("eth / ipv4 proto is 47", GRE_FRAME, IPV4_PROTO, "ff"),
    "ipv4 tos": Field("eth / ipv4 tos is 0xb8", GRE_FRAME, IPV4_TOS, "ff"),
    "ipv4 tos masked": Field("eth / ipv4 tos spec 0xb8 tos mask 0xfc", GRE_FRAME, IPV4_TOS, "fc"),
    "ipv4 ttl": Field("eth / ipv4 ttl is 64", GRE_FRAME, IPV4_TTL, "ff"),
    "ipv4 ttl masked": Field("eth / ipv4 ttl spec 64 ttl mask 0xf0", GRE_FRAME, IPV4_TTL, "f0"),
    "ipv4 without eth": Field("ipv4 src is 10.0.0.1", udp4(), IPV4_SRC, "ff" * 4),
    "ipv6 src": Field("eth / ipv6 src is fd00::1", udp6(), IPV6_SRC, "ff" * 16),
    "ipv6 dst": Field("eth / ipv6 dst is fd00::2", udp6(), IPV6_DST, "ff" * 16),
    "ipv6 dst masked": Field("eth / ipv6 dst spec fd00::2 dst mask ffff:0:ff::f",
                             udp6(), IPV6_DST, "ffff000000ff" + "00" * 9 + "0f"),
    "ipv6 proto": Field("eth / ipv6 proto is 58", ICMP6_FRAME, IPV6_NEXT, "ff"),
    "ipv6 hop": Field("eth / ipv6 hop is 64", ICMP6_FRAME, IPV6_HOP, "ff"),
    # The first four bits are the version: others than 6 are no IPv6.
    "ipv6 tc": Field("eth / ipv6 tc is 0xb8", ICMP6_FRAME, IPV6_WORD, "fff00000"),
    "ipv6 flow": Field("eth / ipv6 flow is 0x12345", ICMP6_FRAME, IPV6_WORD, "f00fffff"),
    "udp src": Field("eth / ipv4 / udp src is 1000", udp4(), L4_OVER_IPV4, "ffff"),
    "udp dst": Field("eth / ipv4 / udp dst is 2000", udp4(), L4_OVER_IPV4 + 2, "ffff"),
    "udp dst masked": Field("eth / ipv4 / udp dst spec 0x07d0 dst mask 0xff0f",
                            udp4(), L4_OVER_IPV4 + 2, "ff0f"),
    "udp over ipv6": Field("eth / ipv6 / udp dst is 2000", udp6(), L4_OVER_IPV6 + 2, "ffff"),
    "tcp src": Field("eth / ipv4 / tcp src is 1000", tcp4(), L4_OVER_IPV4, "ffff"),
    "tcp dst": Field("eth / ipv4 / tcp dst is 2000", tcp4(), L4_OVER_IPV4 + 2, "ffff"),
    "tcp flags": Field("eth / ipv4 / tcp flags is 0x18", tcp4(), L4_OVER_IPV4 + 13, "ff"),
    "tcp flag": Field("eth / ipv6 / tcp flags spec 0x08 flags mask 0x08",
                      tcp6(), L4_OVER_IPV6 + 13, "08"),
    "vxlan vni": Field("eth / ipv4 / udp / vxlan vni is 0x123456",
                       VXLAN_FRAME, L4_OVER_IPV4 + 12, "ffffff"),
    "second vlan": Field("eth / vlan vid is 7 / vlan tci is 0xa123", QINQ_FRAME, 18, "ffff"),
    "second vlan 802.1Q": Field("eth / vlan / vlan vid is 0x123", TWICE_FRAME, 18, "0fff"),
    "icmp type": Field("eth / ipv4 / icmp type is 8", ICMP_FRAME, L4_OVER_IPV4, "ff"),
    "icmp code": Field("eth / ipv4 / icmp code is 0", ICMP_FRAME, L4_OVER_IPV4 + 1, "ff"),
    "icmp ident": Field("eth / ipv4 / icmp ident is 0x1234", ICMP_FRAME, L4_OVER_IPV4 + 4, "ffff"),
    "icmp6 type": Field("eth / ipv6 / icmp6 type is 128", PING6_FRAME, L4_OVER_IPV6, "ff"),
    "icmp6 code": Field("eth / ipv6 / icmp6 code is 0", PING6_FRAME, L4_OVER_IPV6 + 1, "ff"),
    "esp spi": Field("eth / ipv4 / esp spi is 0x12345678", ESP_FRAME, L4_OVER_IPV4, "ff" * 4),
    "gre protocol": Field("eth / ipv4 / gre protocol is 0x800",
                          GRE_IP_FRAME, L4_OVER_IPV4 + 2, "ffff"),
    "gre_key": Field("eth / ipv4 / gre / gre_key value is 0x12345678",
                     KEY_FRAME, L4_OVER_IPV4 + 4, "ff" * 4),
    "nvgre tni": Field("eth / ipv4 / nvgre tni is 0x123456",
                       NVGRE_FRAME, L4_OVER_IPV4 + 4, "ffffff00"),
    "geneve vni": Field("eth / ipv4 / udp / geneve vni is 0x123456",
                        GENEVE_FRAME, UDP_TUNNEL + 4, "ffffff"),
    "geneve protocol": Field("eth / ipv4 / udp / geneve protocol is 0x6558",
                             GENEVE_FRAME, UDP_TUNNEL + 2, "ffff"),
    "vxlan-gpe vni": Field("eth / ipv4 / udp / vxlan-gpe vni is 0x123456",
                           GPE_FRAME, UDP_TUNNEL + 4, "ffffff"),
    "gtp teid": Field("eth / ipv4 / udp / gtp teid is 0x12345678",
                      GTP_FRAME, UDP_TUNNEL + 4, "ff" * 4),
    "gtpu msg_type": Field("eth / ipv4 / udp / gtpu msg_type is 255", GTP_FRAME, UDP_TUNNEL + 1, "ff"),
    "mpls label": Field("eth / mpls label is 0x12345", MPLS_FRAME, 14, "fffff0"),
    "mpls over udp": Field("eth / ipv4 / udp / mpls label is 0x12345",
                           MPLS_UDP_FRAME, UDP_TUNNEL, "fffff0"),
    "mpls over gre": Field("eth / ipv4 / gre / mpls label is 0x12345",
                           MPLS_GRE_FRAME, L4_OVER_IPV4 + 4, "fffff0"),
    "inner eth dst": Field("eth / ipv4 / udp / vxlan / eth dst is 02:00:00:00:00:01",
                           VXLAN_FRAME, VXLAN_INSIDE, "ff" * 6),
    "inner ipv4 dst": Field("eth / ipv4 / udp / vxlan / eth / ipv4 dst is 10.0.0.2",
                            VXLAN_FRAME, VXLAN_INSIDE + 30, "ff" * 4),
    "inner without eth": Field("eth / ipv4 / udp / vxlan / ipv4 src is 10.0.0.1",
                               VXLAN_FRAME, VXLAN_INSIDE + 26, "ff" * 4),
    "inner ipv6 flow": Field("eth / ipv4 / udp / vxlan / eth / ipv6 flow is 0x12345",
                             VXLAN6_FRAME, VXLAN_INSIDE + 14, "f00fffff"),
    "inner tcp flags": Field("eth / ipv4 / udp / vxlan / eth / ipv6 / tcp flags is 2",
                             VXLAN6_FRAME, VXLAN_INSIDE + 54 + 13, "ff"),
    "in geneve": Field("eth / ipv4 / udp / geneve / eth / ipv4 / udp dst is 53",
                       GENEVE_FRAME, UDP_TUNNEL + 8 + 36, "ffff"),
    "in gtp": Field("eth / ipv4 / udp / gtp / ipv4 ttl is 7", GTP_FRAME, UDP_TUNNEL + 8 + 8, "ff"),
    "in gre": Field("eth / ipv4 / gre / ipv4 dst is 10.0.0.2",
                    GRE_IP_FRAME, L4_OVER_IPV4 + 4 + 16, "ff" * 4),
    "in nvgre": Field("eth / ipv4 / nvgre / eth / ipv4 / udp dst is 53",
                      NVGRE_FRAME, L4_OVER_IPV4 + 8 + 36, "ffff"),
    "802.1ad": Field("eth type is 0x88a8 / vlan tci is 0xa123", SERVICE_FRAME, VLAN_TCI, "ffff"),
    "beside has_vlan": Field("eth has_vlan is 1 / vlan vid is 0x123", VLAN_FRAME, VLAN_TCI, "0fff"),
    "tcp over ipv6": Field("eth / ipv6 / tcp src is 1000", tcp6(), L4_OVER_IPV6, "ffff"),
    "all layers": Field("eth src is 02:aa:00:00:00:01 / vlan vid is 0x123 / ipv4 src is 10.0.0.1"
                        " / udp dst is 53", VLAN_FRAME, L4_OVER_IPV4 + 6, "ffff"),
}


MULTICAST = {"eth dst multicast", "eth dst group bit"}
# Of each kind one: the guest is slow.
FIELDS_IN_GUEST = {"eth dst masked", "eth type", "ipv4 ttl masked", "tcp flag", "802.1ad",
                   "gre_key", "inner ipv6 flow", "in gtp", "second vlan", "udp dst masked", "tcp over ipv6", "all layers"}


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.guest(name in FIELDS_IN_GUEST)) for name in FIELDS])
def test_every_bit_of_a_field(stack: Stack, engine: str, name: str) -> None:
    field = FIELDS[name]
    if engine == "mlx5" and name in MULTICAST:
        why = stack.testpmd.refused_flow(0, f"ingress pattern {field.pattern} / {TAKE}")
        assert "matches multicast, which the kernel's driver tries after all other" in why
        return
    hits, misses = field.variants()
    assert taken(stack, [*hits, *misses]) == 0
    stack.testpmd.create_flow(0, f"ingress pattern {field.pattern} / {TAKE}")
    assert taken(stack, hits) == len(hits)
    assert taken(stack, misses) == 0


LAYERS: dict[str, tuple[list[Packet | bytes], list[Packet | bytes]]] = {
    "eth": ([opaque(60, 1), udp4(), tcp6(), VLAN_FRAME], []),
    "eth / ipv4": ([udp4(), tcp4(), VLAN_FRAME, GRE_FRAME], [udp6(), opaque(60, 1)]),
    "eth / ipv6": ([udp6(), tcp6(), ICMP6_FRAME], [udp4(), opaque(60, 1)]),
    "eth / ipv4 / udp": ([udp4(), VLAN_FRAME], [tcp4(), udp6(), GRE_FRAME]),
    "eth / ipv6 / tcp": ([tcp6()], [tcp4(), udp6(), ICMP6_FRAME]),
    "eth / vlan": ([VLAN_FRAME], [udp4(), udp6(), opaque(60, 1)]),
    "eth / vlan / ipv4 / tcp": ([], [VLAN_FRAME, tcp4()]),
    "eth / void / ipv4 / void": ([udp4()], [udp6()]),
    "eth has_vlan is 0": ([udp4(), tcp6(), opaque(60, 1)], [VLAN_FRAME, SERVICE_FRAME]),
    "eth has_vlan is 0 / ipv4 / udp": ([udp4()], [VLAN_FRAME, SERVICE_FRAME, udp6()]),
    "eth has_vlan is 1": ([VLAN_FRAME, SERVICE_FRAME], [udp4(), opaque(60, 1)]),
    "eth has_vlan is 1 / ipv4": ([VLAN_FRAME, SERVICE_FRAME], [udp4(), udp6()]),
    "eth type is 0x8100": ([VLAN_FRAME], [udp4(), SERVICE_FRAME]),
    "eth / vlan has_more_vlan is 0": ([VLAN_FRAME], [QINQ_FRAME, TWICE_FRAME, SERVICE_FRAME, udp4()]),
    "eth / vlan / vlan": ([QINQ_FRAME, TWICE_FRAME], [VLAN_FRAME, SERVICE_FRAME, udp4()]),
    "eth type is 0x8100 / vlan has_more_vlan is 1": ([TWICE_FRAME], [QINQ_FRAME, VLAN_FRAME]),
    "eth / ipv4 / udp / vxlan / eth / ipv4 / udp": ([VXLAN_FRAME], [VXLAN6_FRAME, udp4(), GPE_FRAME]),
    "eth / ipv4 / udp / geneve": ([GENEVE_FRAME], [VXLAN_FRAME, udp4()]),
    "eth / ipv4 / udp / vxlan-gpe / eth / ipv4": ([GPE_FRAME], [VXLAN_FRAME, GENEVE_FRAME]),
    "eth / ipv4 / gre / ipv4 / udp": ([GRE_IP_FRAME], [GRE_FRAME, udp4()]),
    "eth / ipv4 / gre / gre_key": ([KEY_FRAME, NVGRE_FRAME], [GRE_IP_FRAME]),
    "eth / ipv4 / nvgre": ([NVGRE_FRAME], [KEY_FRAME, GRE_IP_FRAME]),
    "eth / mpls": ([MPLS_FRAME], [udp4(), MPLS_UDP_FRAME]),
    "eth type is 0x88a8 / vlan": ([SERVICE_FRAME], [udp4(), VLAN_FRAME]),
    "eth / ipv4 fragment_offset spec 0 fragment_offset mask 0x3fff":
        ([udp4(), tcp4()], [LATER_FRAGMENT, FIRST_FRAGMENT, udp6()]),
    "eth / ipv4 fragment_offset spec 1 fragment_offset last 0x3fff fragment_offset mask 0x3fff":
        ([LATER_FRAGMENT, FIRST_FRAGMENT], [udp4(), FRAGMENT6]),
    "eth / ipv6 has_frag_ext is 1": ([FRAGMENT6], [udp6(), LATER_FRAGMENT]),
    "eth / ipv6 has_frag_ext is 0": ([udp6()], [FRAGMENT6, udp4()]),
    "eth / ipv6 / ipv6_frag_ext": ([FRAGMENT6], [udp6(), LATER_FRAGMENT]),
    "eth / ipv4 / any": ([udp4(), tcp4()], [udp6()]),
    "eth / ipv4 / icmp": ([ether() / ipv4() / ICMP()], [udp4(), tcp4()]),
    "eth / ipv6 / icmp6": ([ether() / ipv6() / ICMPv6EchoRequest()], [udp6()]),
    "eth / ipv4 / gre": ([ether() / ipv4() / GRE() / ipv4() / UDP()], [udp4(), tcp4()]),
    "eth / ipv4 / ah": ([ether() / ipv4(proto=51) / Raw(bytes(40))], [udp4(), GRE_FRAME]),
    "eth / ipv4 / esp": ([ether() / ipv4(proto=50) / Raw(bytes(40))], [udp4(), GRE_FRAME]),
    "eth / ipv4 / udp / vxlan": ([VXLAN_FRAME], [udp4(), udp6()]),
    "eth / ipv4 / udp dst spec 2000 dst last 2005 dst mask 0xffff":
        ([udp4(dport=port) for port in range(2000, 2006)],
         [udp4(dport=port) for port in (1999, 2006, 2010, 10000)]),
    "eth type is 0x0800": ([udp4(), tcp4()], [udp6(), opaque(60, 1)]),
    "eth type is 0x0800 / ipv4": ([udp4(), tcp4()], [udp6()]),
    "eth / ipv4 proto is 17 / udp": ([udp4()], [tcp4()]),
}


# Rings have no part in this: in the guest one kind is enough.
@pytest.mark.guest(when=lambda params: params["datapath"] == "mlx5")
@pytest.mark.parametrize("pattern", LAYERS)
def test_layers_without_conditions(stack: Stack, pattern: str) -> None:
    hits, misses = LAYERS[pattern]
    stack.testpmd.create_flow(0, f"ingress pattern {pattern} / {TAKE}")
    assert taken(stack, hits) == len(hits)
    assert taken(stack, misses) == 0


# -- actions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", [0, 1, 0xFFFFFD])
def test_marks_from_the_first_to_the_last(stack: Stack, mark: int) -> None:
    stack.testpmd.create_flow(
        0, f"ingress pattern eth / ipv6 / end actions mark id {mark} / queue index 0 / end")
    packet, = receive(stack, [udp6()])
    assert packet.mark == mark
    packet, = receive(stack, [udp4()])
    assert packet.mark is None


def test_flag(stack: Stack) -> None:
    stack.testpmd.create_flow(
        0, "ingress pattern eth / ipv6 / end actions flag / queue index 0 / end")
    flagged, = receive(stack, [udp6()])
    assert "RTE_MBUF_F_RX_FDIR" in flagged.flags and flagged.mark is None
    plain, = receive(stack, [udp4()])
    assert "RTE_MBUF_F_RX_FDIR" not in plain.flags


def spread(packets: Sequence[ReceivedPacket]) -> set[int]:
    return {packet.queue for packet in packets}


def test_rss_hashes_each_class_as_asked(stack: Stack) -> None:
    """TCP over IPv4 by its ports, IPv6 by addresses, the rest goes to the first queue."""
    stack.testpmd.create_flow(0, "ingress pattern eth / end actions"
                                 " rss types ipv4-tcp ipv6 end queues 1 3 end / end")
    ports = range(1, 60)
    assert spread(receive(stack, [tcp4(sport=n) for n in ports])) == {1, 3}
    assert len(spread(receive(stack, [udp6(sport=n) for n in ports]))) == 1
    addresses = [ether() / ipv6(f"fd00::{n:x}") / UDP() for n in ports]
    assert spread(receive(stack, addresses)) == {1, 3}
    assert spread(receive(stack, [udp4(sport=n) for n in ports])) == {1}
    assert spread(receive(stack, [opaque(60, n) for n in ports])) == {1}


def test_rss_over_three_queues_is_fair(stack: Stack) -> None:
    stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp / end actions"
                                 " rss types ipv4-udp end queues 0 1 3 end / end")
    packets = receive(stack, [udp4(sport=n) for n in range(1, 301)])
    assert spread(packets) == {0, 1, 3}
    for queue in (0, 1, 3):
        assert 60 <= sum(packet.queue == queue for packet in packets) <= 140


def test_rss_with_a_key_of_its_own(stack: Stack, datapath: str) -> None:
    key = bytes(range(1, 41))
    rule = ("ingress pattern eth / ipv4 / udp / end actions rss func toeplitz types ipv4-udp end"
            f" key {key.hex()} key_len 40 queues 0 1 2 3 end / end")
    stack.testpmd.create_flow(0, rule)
    by_hash: dict[int, int] = {}
    for sport in range(1, 20):
        packet, = receive(stack, [udp4(sport=sport)])
        value = flow_hash(key, "10.0.0.1", "10.0.0.2", (sport, 2000))
        if datapath == "mlx5":
            assert packet.rss_hash == value
        # The same low bits, the same table entry.
        assert by_hash.setdefault(value % 4, packet.queue) == packet.queue
    assert len(set(by_hash.values())) == 4


@pytest.fixture
def counting(stack: Stack, engine: str) -> bool:
    """Flows by mlx5dv count by DevX only, and say so."""
    if engine == "auto":
        return True
    why = stack.testpmd.refused_flow(0, "ingress pattern eth / end actions count / drop / end")
    assert "mlx5dv flows have counters by DevX only" in why
    return False


def test_counts_of_a_rule(stack: Stack, counting: bool) -> None:
    """Frames of 100 and 60 bytes, the FCS not among them; what other rules take does not count."""
    if not counting:
        return
    first = stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp dst is 53 / end"
                                            " actions count / mark id 5 / queue index 1 / end")
    other = stack.testpmd.create_flow(0, "ingress pattern eth / ipv6 / end"
                                         " actions count / queue index 2 / end")
    assert stack.testpmd.query_count(0, first) == (0, 0)
    frames = [bytes(udp4(dport=53)).ljust(size, b"x") for size in (60, 100, 100)]
    packets = receive(stack, [*frames, udp4(dport=54), udp6()])
    assert sorted(packet.queue for packet in packets if packet.mark == 5) == [1, 1, 1]
    assert stack.testpmd.query_count(0, first) == (3, 260)
    assert stack.testpmd.query_count(0, other) == (1, max(60, len(udp6())))


def test_counts_of_what_is_dropped(stack: Stack, counting: bool) -> None:
    if not counting:
        return
    rule = stack.testpmd.create_flow(
        0, "ingress pattern eth / ipv4 / end actions count / drop / end")
    stack.wires[0].send_all([udp4(), tcp4()])
    receive(stack, [udp6()])
    assert stack.testpmd.query_count(0, rule)[0] == 2


def test_counts_of_a_rule_that_spreads(stack: Stack, counting: bool) -> None:
    """The driver makes several of the device's rules of it: their sum is what it shows."""
    if not counting:
        return
    rule = stack.testpmd.create_flow(
        0, "ingress pattern eth / end actions count / rss types ipv4-udp ipv6-tcp ipv6 end"
           " queues 1 3 end / end")
    frames = [udp4(), tcp4(), udp6(), tcp6(), opaque(60, 1)]
    receive(stack, frames)
    assert stack.testpmd.query_count(0, rule)[0] == len(frames)


def test_a_rule_without_count_has_none(stack: Stack) -> None:
    rule = stack.testpmd.create_flow(0, f"ingress pattern eth / {TAKE}")
    assert "no count action" in stack.testpmd.command(f"flow query 0 {rule} count")


# -- priorities --------------------------------------------------------------------------------------


def test_three_priorities(stack: Stack) -> None:
    """Also against specificity: a wide rule of a better priority wins."""
    for priority, pattern in ((2, "eth / ipv4 / udp dst is 2000"), (1, "eth / ipv4"), (0, "eth")):
        stack.testpmd.create_flow(0, f"priority {priority} ingress pattern {pattern} / end actions"
                                     f" mark id {priority} / queue index {3 - priority} / end")
        packet, = receive(stack, [udp4()])
        assert (packet.mark, packet.queue) == (priority, 3 - priority)


def test_more_layers_win_within_a_priority(stack: Stack) -> None:
    rules = ["eth / ipv4 / udp dst is 2000", "eth", "eth / ipv4"]
    for mark, pattern in enumerate(rules):
        stack.testpmd.create_flow(0, f"ingress pattern {pattern} / end actions"
                                     f" mark id {mark} / queue index 1 / end")
    marks = [receive(stack, [frame])[0].mark for frame in (udp4(), opaque(60, 1), tcp4())]
    assert marks == [0, 1, 2]


def test_rules_stand_above_the_ports_own_filters(stack: Stack, engine: str) -> None:
    """Multicast too, although the device's driver sorts multicast rules last by itself."""
    multicast = ("ff:ff:ff:ff:ff:ff", "33:33:00:00:00:07") if engine == "auto" else ()
    for destination in ("02:00:00:00:00:01", *multicast):
        stack.testpmd.create_flow(0, f"ingress pattern eth dst is {destination} / {TAKE}")
        assert taken(stack, [opaque(60, 1, destination), udp4(destination=destination)]) == 2


# -- what is refused ---------------------------------------------------------------------------------

REFUSED = {
    "ingress priority 3 pattern eth / end actions drop / end": "priority 3: the largest is 2",
    "transfer pattern eth / end actions drop / end": "transfer rules are not supported",
    "pattern eth / end actions drop / end": "set ingress",
    "ingress pattern eth / eth / end actions drop / end": "item eth is out of order",
    "ingress pattern eth / vlan / vlan / vlan / end actions drop / end": "item vlan is out of order",
    "ingress pattern eth / udp / end actions drop / end":
        "item udp is out of order: it needs item ipv4 or ipv6 right before it, not eth",
    "ingress pattern eth / ipv4 / sctp / end actions drop / end": "ipv4 or ipv6 with proto 132",
    "ingress pattern eth / mark id is 7 / end actions drop / end": "item mark is not supported: no",
    "ingress pattern eth / any num is 2 / end actions drop / end": "item any: a number of headers",
    "ingress pattern eth / any / ipv4 / end actions drop / end": "item ipv4 after item any",
    "ingress pattern eth has_vlan is 0 / vlan / end actions drop / end": "item vlan contradicts",
    "ingress pattern eth / ipv4 / udp dst is 8472 / vxlan / end actions drop / end":
        "item vxlan contradicts field dst 0x2118 of item udp before it",
    "ingress pattern eth / ipv4 fragment_offset is 7 / end actions drop / end":
        "field fragment_offset cannot be matched",
    "ingress pattern eth / ipv6 / ipv6_frag_ext next_hdr is 17 / end actions drop / end":
        "item ipv6_frag_ext: its fields",
    "ingress pattern eth / ipv4 / ipv6 / end actions drop / end": "item ipv6 is out of order",
    "ingress pattern eth type is 0x86dd / ipv4 / end actions drop / end": "item ipv4 contradicts",
    "ingress pattern eth / ipv4 proto is 6 / udp / end actions drop / end": "item udp contradicts",
    "ingress pattern eth / ipv4 / udp dst spec 1 dst last 65534 dst mask 65535 / end actions drop"
    " / end": "item udp: range on field dst: .* made of 30",
    "ingress pattern eth / ipv4 src spec 10.0.0.1 src last 10.9.0.1 src mask 255.255.0.0 / end"
    " actions drop / end": "item ipv4: range on field src: ranges are of whole fields",
    "ingress pattern eth / end actions mark id 0xfffffe / queue index 0 / end": "action mark",
    "ingress pattern eth / end actions queue index 1 / drop / end": "has queue already",
    "ingress pattern eth / end actions mark id 1 / drop / end": "no effect on dropped",
    "ingress pattern eth / end actions mark id 1 / end": "no fate action",
    "ingress pattern eth / end actions queue index 4 / end": "no Rx queue 4",
    "ingress pattern eth / ipv4 / end actions rss types ipv6 end queues 0 1 end / end":
        "none of its types applies",
    "ingress pattern eth / end actions rss queues 0 7 end / end": "no Rx queue 7",
    "ingress pattern eth / end actions rss level 2 types ip end queues 0 1 end / end": "level 2",
    "ingress pattern eth / end actions rss func simple_xor types ip end queues 0 1 end / end":
        "hash function",
    "ingress pattern eth / end actions rss types l2-payload end queues 0 1 end / end":
        "types .* are not supported",
}


# In the guest those that the device has a say in; the others the driver refuses by itself.
@pytest.mark.guest(when=lambda params: "type is 0x" in params["rule"])
@pytest.mark.parametrize("rule", REFUSED)
def test_validate_and_create_refuse_with_the_same_reason(stack: Stack, rule: str) -> None:
    why = stack.testpmd.refused_flow(0, rule)
    assert re.search(REFUSED[rule], why), why


def test_validate_installs_nothing(stack: Stack) -> None:
    assert stack.testpmd.validate_flow(0, f"ingress pattern eth / {TAKE}") == ""
    assert taken(stack, [udp4(), opaque(60, 1)]) == 0


def test_the_same_match_twice(stack: Stack) -> None:
    rule = "ingress pattern eth / ipv4 / udp dst is 53 / end actions queue index {} / end"
    first = stack.testpmd.create_flow(0, rule.format(1))
    why = stack.testpmd.refused_flow(0, rule.format(2))
    assert "matches eth/ipv4/udp with the same values already" in why
    stack.testpmd.create_flow(0, "priority 1 " + rule.format(2))
    assert [packet.queue for packet in receive(stack, [udp4(dport=53)])] == [1]
    stack.testpmd.destroy_flow(0, first)
    assert [packet.queue for packet in receive(stack, [udp4(dport=53)])] == [2]


# -- the life of rules -------------------------------------------------------------------------------


@pytest.mark.guest(when=lambda params: params["datapath"] == "mlx5")
def test_hundreds_of_rules(stack: Stack) -> None:
    ports = range(1, 401 if stack.patience == 1 else 151)
    numbers = [
        stack.testpmd.create_flow(
            0, f"ingress pattern eth / ipv4 / udp dst is {port} / end actions"
               f" mark id {port} / queue index {port % QUEUES} / end")
        for port in ports
    ]
    packets = receive(stack, [udp4(dport=port) for port in ports])
    assert sorted(packet.mark or 0 for packet in packets) == list(ports)
    assert all(packet.queue == (packet.mark or 0) % QUEUES for packet in packets)
    for number in numbers[::2]:
        stack.testpmd.destroy_flow(0, number)
    marks = {packet.mark for packet in receive(stack, [udp4(dport=port) for port in ports])}
    assert marks == {None, *list(ports)[1::2]}


def test_rules_made_while_the_port_is_stopped(stack: Stack) -> None:
    testpmd = stack.testpmd
    testpmd.stop()
    testpmd.stop_port(0)
    kept = testpmd.create_flow(0, f"ingress pattern eth / ipv4 / {TAKE}")
    gone = testpmd.create_flow(0, f"ingress pattern eth / ipv6 / {TAKE}")
    testpmd.destroy_flow(0, gone)
    testpmd.start_port(0)
    testpmd.start("rxonly")
    assert taken(stack, [udp4(), udp6()]) == 1
    testpmd.destroy_flow(0, kept)
    assert taken(stack, [udp4(), udp6()]) == 0


def test_start_names_the_rule_whose_queue_is_gone(stack: Stack) -> None:
    testpmd = stack.testpmd
    testpmd.stop()
    testpmd.stop_port(0)  # testpmd flushes rules here: they are made after it
    testpmd.create_flow(0, f"ingress pattern eth / ipv4 / {TAKE}")
    testpmd.create_flow(0, "ingress pattern eth / ipv6 / end actions queue index 3 / end")
    testpmd.command("port config all rxq 3")
    answer = testpmd.command("port start 0")
    assert "rte_flow rule 2 of 2" in answer and "Rx queue 3" in answer, answer
    testpmd.command(f"port config all rxq {QUEUES}")
    testpmd.start_port(0)
    testpmd.start("rxonly")
    assert taken(stack, [udp4()]) == 1


def test_the_device_has_the_last_word(open_stack: OpenStack) -> None:
    """Verbs has a place for a TTL, which mlx5_ib refuses: on a running port and on a stopped one."""
    with open_stack(lossless(1, devargs="flow_engine=verbs"), datapath="mlx5") as stack:
        rule = "ingress pattern eth / ipv4 ttl is 1 / end actions drop / end"
        assert "does not offer" in stack.testpmd.refused_flow(0, rule)
        untagged = "ingress pattern eth has_vlan is 0 / end actions drop / end"
        why = stack.testpmd.refused_flow(0, untagged)
        assert "item eth: field has_vlan cannot be matched: verbs flow specs have no place" in why
        stack.testpmd.stop_port(0)
        assert "does not offer" in stack.testpmd.refused_flow(0, rule)
        stack.testpmd.start_port(0)
