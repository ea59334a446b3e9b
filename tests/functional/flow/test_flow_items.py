# SPDX-License-Identifier: BSD-3-Clause
"""rte_flow items: every field bit by bit, on both engines, and items without fields."""

from dataclasses import dataclass

import pytest
from rig.flow_rules import TAKE, engines_of, taken
from rig.guide import features, matched_fields
from rig.packets import ether, ipv4, ipv6, opaque, tcp4, tcp6, udp4, udp6
from rig.stack import Build, Stack
from scapy.layers.inet import ICMP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6ExtHdrFragment
from scapy.layers.l2 import ARP, GRE, Dot1AD, Dot1Q
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from functional.test_ethdev import listing

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("receiving")]


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
GRE_ETH_FRAME = ether() / ipv4() / GRE(proto=0x6558) / ether() / INSIDE
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
IPV4_VERSION, IPV4_TOS, IPV4_TTL, IPV4_PROTO, IPV4_SRC, IPV4_DST = 14, 15, 22, 23, 26, 30
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
    # The first four bits are the version: anything but 6 is not IPv6.
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
    "in mpls": Field("eth / mpls / ipv4 ttl is 7", MPLS_FRAME, 14 + 4 + 8, "ff"),
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
    "vlan dei": Field("eth / vlan dei is 0", VLAN_FRAME, VLAN_TCI, "1000"),
    "ipv4 version_ihl": Field("eth / ipv4 version_ihl is 0x45", udp4(), IPV4_VERSION, "ff"),
    "ipv4 ecn": Field("eth / ipv4 tos spec 0 tos mask 0x03", GRE_FRAME, IPV4_TOS, "03"),
    "icmp seq": Field("eth / ipv4 / icmp seq is 7", ICMP_FRAME, L4_OVER_IPV4 + 6, "ffff"),
    "mpls tc": Field("eth / mpls tc is 0", MPLS_FRAME, 16, "0e"),
    "mpls s": Field("eth / mpls s is 1", MPLS_FRAME, 16, "01"),
    "gre c_bit": Field("eth / ipv4 / gre c_bit is 0", GRE_IP_FRAME, L4_OVER_IPV4, "80"),
    "gre k_bit": Field("eth / ipv4 / gre k_bit is 1", KEY_FRAME, L4_OVER_IPV4, "20"),
    "gre s_bit": Field("eth / ipv4 / gre s_bit is 0", GRE_IP_FRAME, L4_OVER_IPV4, "10"),
    "geneve optlen": Field("eth / ipv4 / udp / geneve optlen is 0", GENEVE_FRAME, UDP_TUNNEL, "3f"),
    "gtp flags": Field("eth / ipv4 / udp / gtp v_pt_rsv_flags is 0x30", GTP_FRAME, UDP_TUNNEL, "ff"),
    "gtpu flags": Field("eth / ipv4 / udp / gtpu v_pt_rsv_flags is 0x30", GTP_FRAME, UDP_TUNNEL, "ff"),
    "gtp msg_type": Field("eth / ipv4 / udp / gtp msg_type is 255", GTP_FRAME, UDP_TUNNEL + 1, "ff"),
    "gtpu teid": Field("eth / ipv4 / udp / gtpu teid is 0x12345678", GTP_FRAME, UDP_TUNNEL + 4, "ff" * 4),
    "in gtpu": Field("eth / ipv4 / udp / gtpu / ipv4 ttl is 7", GTP_FRAME, UDP_TUNNEL + 8 + 8, "ff"),
    "in vxlan-gpe": Field("eth / ipv4 / udp / vxlan-gpe / eth / ipv4 ttl is 7",
                          GPE_FRAME, UDP_TUNNEL + 8 + 14 + 8, "ff"),
    "in mpls over udp": Field("eth / ipv4 / udp / mpls / ipv4 ttl is 7",
                              MPLS_UDP_FRAME, UDP_TUNNEL + 4 + 8, "ff"),
    "in mpls over gre": Field("eth / ipv4 / gre / mpls / ipv4 ttl is 7",
                              MPLS_GRE_FRAME, L4_OVER_IPV4 + 4 + 4 + 8, "ff"),
    "after gre_key": Field("eth / ipv4 / gre / gre_key / ipv4 ttl is 7",
                           KEY_FRAME, L4_OVER_IPV4 + 8 + 8, "ff"),
    "802.1ad": Field("eth type is 0x88a8 / vlan tci is 0xa123", SERVICE_FRAME, VLAN_TCI, "ffff"),
    "beside has_vlan": Field("eth has_vlan is 1 / vlan vid is 0x123", VLAN_FRAME, VLAN_TCI, "0fff"),
    "tcp over ipv6": Field("eth / ipv6 / tcp src is 1000", tcp6(), L4_OVER_IPV6, "ffff"),
    # Without a mask, the item's default one applies, and fields outside it are ignored.
    "eth default": Field("eth src spec 02:aa:00:00:00:01 dst spec 02:00:00:00:00:01", udp4(), ETH_DST,
                         "ff" * 12),
    "vlan default": Field("eth / vlan vid spec 0x123", VLAN_FRAME, VLAN_TCI, "0fff"),
    "ipv4 default": Field("eth / ipv4 src spec 10.0.0.1 dst spec 10.0.0.2 ttl spec 9", udp4(),
                          IPV4_SRC, "ff" * 8),
    "ipv6 default": Field("eth / ipv6 src spec fd00::1 dst spec fd00::2 hop spec 9", udp6(), IPV6_SRC,
                          "ff" * 32),
    "udp default": Field("eth / ipv4 / udp src spec 1000 dst spec 2000", udp4(), L4_OVER_IPV4, "ff" * 4),
    "tcp default": Field("eth / ipv4 / tcp src spec 1000 dst spec 2000 flags spec 1", tcp4(),
                         L4_OVER_IPV4, "ff" * 4),
    "icmp default": Field("eth / ipv4 / icmp type spec 8 code spec 0 seq spec 1", ICMP_FRAME,
                          L4_OVER_IPV4, "ffff"),
    "icmp6 default": Field("eth / ipv6 / icmp6 type spec 128", PING6_FRAME, L4_OVER_IPV6, "ffff"),
    "esp default": Field("eth / ipv4 / esp spi spec 0x12345678", ESP_FRAME, L4_OVER_IPV4, "ff" * 4),
    "vxlan default": Field("eth / ipv4 / udp / vxlan vni spec 0x123456", VXLAN_FRAME,
                           L4_OVER_IPV4 + 12, "ffffff"),
    "gre default": Field("eth / ipv4 / gre protocol spec 0x800", GRE_IP_FRAME, L4_OVER_IPV4 + 2, "ffff"),
    "gre_key default": Field("eth / ipv4 / gre / gre_key value spec 0x12345678", KEY_FRAME,
                             L4_OVER_IPV4 + 4, "ff" * 4),
    "nvgre default": Field("eth / ipv4 / nvgre tni spec 0x123456", NVGRE_FRAME, L4_OVER_IPV4 + 4,
                           "ffffff"),
    "geneve default": Field("eth / ipv4 / udp / geneve vni spec 0x123456", GENEVE_FRAME, UDP_TUNNEL + 4,
                            "ffffff"),
    "gtp default": Field("eth / ipv4 / udp / gtp teid spec 0x12345678", GTP_FRAME, UDP_TUNNEL + 4,
                         "ff" * 4),
    "mpls default": Field("eth / mpls label spec 0x12345", MPLS_FRAME, 14, "fffff0"),
    "all layers": Field("eth src is 02:aa:00:00:00:01 / vlan vid is 0x123 / ipv4 src is 10.0.0.1"
                        " / udp dst is 53", VLAN_FRAME, L4_OVER_IPV4 + 6, "ffff"),
}


MULTICAST = {"eth dst multicast", "eth dst group bit"}
# At least one of each item: the guest is slow.
FIELDS_IN_GUEST = {"eth dst masked", "eth type", "ipv4 ttl masked", "ipv4 version_ihl", "ipv6 tc", "tcp flag", "802.1ad",
                   "gre k_bit", "gre_key", "nvgre tni", "vxlan vni", "inner ipv6 flow", "geneve vni", "vxlan-gpe vni",
                   "gtp teid", "gtpu msg_type", "in gtp", "mpls label", "icmp type", "icmp6 type", "esp spi",
                   "second vlan", "udp dst masked", "tcp over ipv6", "all layers"}

# With flow_engine=auto, verbs serves a rule if it has words for it that mlx5_ib accepts.
FIELDS_NOT_BY_VERBS = {
    "ipv4 ttl", "ipv4 ttl masked", "ipv6 hop", "ipv4 version_ihl", "tcp flags", "tcp flag", "inner tcp flags",
    "second vlan", "second vlan 802.1Q", "802.1ad", "icmp type", "icmp code", "icmp ident", "icmp seq", "icmp default",
    "icmp6 type", "icmp6 code", "icmp6 default", "gre c_bit", "gre k_bit", "gre s_bit", "gre_key", "gre_key default",
    "after gre_key", "nvgre tni", "nvgre default", "in nvgre", "geneve vni", "geneve protocol", "geneve optlen",
    "geneve default", "in geneve", "vxlan-gpe vni", "in vxlan-gpe", "gtp teid", "gtp flags", "gtp msg_type",
    "gtp default", "in gtp", "gtpu teid", "gtpu flags", "gtpu msg_type", "in gtpu", "in mpls", "in mpls over udp",
    "in mpls over gre"}


def served_by(stack: Stack, engine: str, by_auto: set[str]) -> bool:
    """Whether the expected engines, and no others, have taken the rule."""
    return set(engines_of(stack, 0)) == (by_auto if engine == "auto" else {engine})


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
    assert served_by(stack, engine, {"mlx5" if name in FIELDS_NOT_BY_VERBS else "verbs"})
    assert taken(stack, hits) == len(hits)
    assert taken(stack, misses) == 0


def in_vxlan(vni: int, inside: Packet) -> Packet:
    return ether() / ipv4() / UDP(sport=7, dport=4789) / VXLAN(vni=vni) / inside


TWICE_IN_VXLAN = in_vxlan(0x123456, in_vxlan(3, udp4()))
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
    "eth / ipv4 / udp / vxlan vni is 0x123456 / eth / ipv4 / udp / vxlan":
        ([TWICE_IN_VXLAN], [VXLAN_FRAME, in_vxlan(3, in_vxlan(0x123456, udp4()))]),
    "eth / ipv4 / udp / geneve": ([GENEVE_FRAME], [VXLAN_FRAME, udp4()]),
    "eth / ipv4 / udp / vxlan-gpe / eth / ipv4": ([GPE_FRAME], [VXLAN_FRAME, GENEVE_FRAME]),
    "eth / ipv4 / gre / ipv4 / udp": ([GRE_IP_FRAME], [GRE_FRAME, GRE_ETH_FRAME, udp4()]),
    "eth / ipv4 / gre / eth / ipv4 / udp": ([GRE_ETH_FRAME], [GRE_FRAME, GRE_IP_FRAME, udp4()]),
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
    "eth / arp_eth_ipv4": ([ether() / ARP(pdst="10.0.0.9")], [udp4(), opaque(60, 1)]),
    "eth / ipv4 / esp": ([ether() / ipv4(proto=50) / Raw(bytes(40))], [udp4(), GRE_FRAME]),
    "eth / ipv4 / udp / vxlan": ([VXLAN_FRAME], [udp4(), udp6()]),
    "eth / ipv4 / udp dst spec 2000 dst last 2005 dst mask 0xffff":
        ([udp4(dport=port) for port in range(2000, 2006)],
         [udp4(dport=port) for port in (1999, 2006, 2010, 10000)]),
    "eth / vlan vid spec 0x123 vid last 0x124 vid mask 0xfff":
        ([VLAN_FRAME, ether() / Dot1Q(vlan=0x124) / udp6().payload],
         [*(ether() / Dot1Q(vlan=vid) / udp6().payload for vid in (0x122, 0x125, 0x23, 0x923)), udp4()]),
    # Two fields, although they are adjacent in the header and in the device.
    "eth / ipv4 / icmp ident spec 0 ident last 1 ident mask 0xffff seq is 2":
        ([ether() / ipv4() / ICMP(id=ident, seq=2) for ident in (0, 1)],
         [ether() / ipv4() / ICMP(id=ident, seq=seq) for ident, seq in ((0, 3), (1, 0), (2, 2))]),
    "eth type is 0x0800": ([udp4(), tcp4()], [udp6(), opaque(60, 1)]),
    "eth type is 0x0800 / ipv4": ([udp4(), tcp4()], [udp6()]),
    "eth / ipv4 proto is 17 / udp": ([udp4()], [tcp4()]),
}


LAYERS_NOT_BY_VERBS = {
    "eth has_vlan is 0", "eth has_vlan is 0 / ipv4 / udp", "eth / vlan has_more_vlan is 0", "eth / vlan / vlan",
    "eth type is 0x8100 / vlan has_more_vlan is 1", "eth type is 0x88a8 / vlan",
    "eth / ipv4 / udp / vxlan vni is 0x123456 / eth / ipv4 / udp / vxlan",
    "eth / ipv4 / udp / vxlan-gpe / eth / ipv4", "eth / ipv4 / gre / gre_key", "eth / ipv4 / nvgre",
    "eth / ipv4 fragment_offset spec 0 fragment_offset mask 0x3fff",
    "eth / ipv4 fragment_offset spec 1 fragment_offset last 0x3fff fragment_offset mask 0x3fff",
    "eth / ipv6 has_frag_ext is 1", "eth / ipv6 has_frag_ext is 0", "eth / ipv6 / ipv6_frag_ext",
    "eth / ipv4 / icmp ident spec 0 ident last 1 ident mask 0xffff seq is 2"}
# One rule for each kind of tag: 802.1ad is left to mlx5.
LAYERS_BY_BOTH = {"eth has_vlan is 1", "eth has_vlan is 1 / ipv4"}
# Items without fields.
LAYERS_OF_BOTH_ENGINES = {"eth / void / ipv4 / void", "eth / ipv6 / ipv6_frag_ext", "eth / ipv4 / any",
                          "eth / ipv4 / ah", "eth / arp_eth_ipv4"}


# Independent of the rings: in the guest, one kind is mostly enough.
@pytest.mark.guest(when=lambda params: params["datapath"] == "mlx5" or params["pattern"] in LAYERS_OF_BOTH_ENGINES)
@pytest.mark.parametrize("pattern", LAYERS)
def test_layers_without_conditions(stack: Stack, engine: str, pattern: str) -> None:
    hits, misses = LAYERS[pattern]
    stack.testpmd.create_flow(0, f"ingress pattern {pattern} / {TAKE}")
    assert served_by(stack, engine, {"verbs", "mlx5"} if pattern in LAYERS_BY_BOTH else
                     {"mlx5" if pattern in LAYERS_NOT_BY_VERBS else "verbs"})
    assert taken(stack, hits) == len(hits)
    assert taken(stack, misses) == 0


# Fields that testpmd names differently from the guide, and those that it cannot express, which are in FlowFields of
# ethdev-test.
IN_TESTPMD = {("ipv4", "version"): "version_ihl"}
NOT_IN_TESTPMD = {
    ("mpls", "ttl"), ("ipv6", "version"), ("tcp", "sent_seq"), ("tcp", "recv_ack"), ("esp", "seq"),
    *(("gre", name) for name in ("reserved bit", "rsvd0", "version")),
    *(("nvgre", name) for name in ("c_bit", "reserved bit", "k_bit", "s_bit", "rsvd0", "version",
                                   "protocol", "flow_id")),
    ("vxlan-gpe", "flags"), ("vxlan-gpe", "protocol"), ("geneve", "o bit"),
}
METADATA = {"meta", "tag", "mark"}  # in test_flow_metadata.py


@pytest.mark.guest(False)
def test_no_field_of_the_guide_is_left_out(build: Build) -> None:
    fields = matched_fields()
    elsewhere = {line.split()[0].rpartition("/")[2] for line in listing(build, "FlowFields") if "/" in line}
    assert {name for name in elsewhere if not name.startswith("in_")} == {
        f"{item} {name}".replace("-", "_").replace(" ", "_") for item, name in NOT_IN_TESTPMD}
    assert NOT_IN_TESTPMD <= fields.by_both | fields.by_mlx5
    patterns = [*(field.pattern for field in FIELDS.values()), *LAYERS]
    asked = {(item.split()[0], word) for pattern in patterns for item in pattern.split(" / ")
             for word in item.split()[1:]}
    untested = {(item, name) for item, name in (fields.by_both | fields.by_mlx5) - NOT_IN_TESTPMD
                if item not in METADATA
                and (item, IN_TESTPMD.get((item, name), name.replace(" ", "_"))) not in asked}
    assert not untested


@pytest.mark.guest(False)
def test_each_item_is_in_the_guest_for_both_engines() -> None:
    patterns = [*(FIELDS[name].pattern for name in FIELDS_IN_GUEST), *LAYERS_OF_BOTH_ENGINES]
    asked = {item.split()[0].replace("-", "_") for pattern in patterns for item in pattern.split(" / ")}
    assert set(features("rte_flow items")) - asked == METADATA | {"igmp"}  # igmp is in ethdev-test
