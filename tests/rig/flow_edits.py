# SPDX-License-Identifier: BSD-3-Clause
"""What rules do to headers, in testpmd's syntax and as resulting frames, by the rte_flow guide and the RFCs.
Checksums are updated incrementally (RFC 1624), so a wrong one stays wrong."""

import ipaddress
import random
import struct
from dataclasses import dataclass

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN

from .flow_model import HEADERS, TUNNELS, Edit, Header, Rule, dissect

_MAC_BYTES = 12
_NO_VLAN = 0xFFF  # the reserved VID


# -- checksums -----------------------------------------------------------------------------------------


def _sum(data: bytes) -> int:
    """One's complement sum of the words."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def _outermost(headers: list[Header], *kinds: str) -> Header | None:
    """The outermost header of these kinds, before any tunnel; UDP may belong to the tunnel."""
    for header in headers:
        if header.kind in kinds and header.data:
            return header
        if header.kind in TUNNELS:
            break
    return None


@dataclass(frozen=True)
class _Checksum:
    at: int  # offset in the frame
    covered: bytes  # within the headers
    optional: bool = False  # zero means none


def checksums(frame: bytes) -> list[_Checksum]:
    """The checksums of the outermost IPv4, TCP and UDP headers."""
    headers = dissect(frame)
    ip, l4 = _outermost(headers, "ipv4", "ipv6"), _outermost(headers, "tcp", "udp")
    found: list[_Checksum] = []
    if ip is None:
        return found
    if ip.kind == "ipv4":
        header = frame[ip.at : ip.at + 4 * ip.get(4, 4)]
        found.append(_Checksum(ip.at + 10, header[:10] + header[12:]))
    if l4 is not None:
        addresses = ip.data[12:20] if ip.kind == "ipv4" else ip.data[8:40]
        at = 16 if l4.kind == "tcp" else 6
        found.append(_Checksum(l4.at + at, addresses + l4.data[:at] + l4.data[at + 2 :], l4.kind == "udp"))
    return found


def _with_word(frame: bytes, at: int, word: int) -> bytes:
    return frame[:at] + word.to_bytes(2, "big") + frame[at + 2 :]


def with_any_checksums(frame: bytes, dice: random.Random) -> bytes:
    """Checksums right or wrong: they do not affect matching, and must be updated."""
    for one in checksums(frame):
        frame = _with_word(frame, one.at, dice.randrange(0x10000))
    return frame


def _followed(before: bytes, after: bytes) -> bytes:
    """The frame with checksums updated after its headers have changed."""
    for old, new in zip(checksums(before), checksums(after)):
        word = int.from_bytes(before[old.at : old.at + 2], "big")
        if old.covered == new.covered or (word == 0 and old.optional):
            continue
        word = ~_sum(struct.pack("!3H", ~word & 0xFFFF, ~_sum(old.covered) & 0xFFFF, _sum(new.covered)))
        after = _with_word(after, new.at, word & 0xFFFF or (0xFFFF if new.optional else 0))
    return after


# -- fields --------------------------------------------------------------------------------------------

# In addition to those of rte_flow items.
_PLACES = {("ipv4", "dscp"): (8, 6), ("ipv6", "dscp"): (4, 6), ("tcp", "seq"): (32, 32), ("tcp", "ack"): (64, 32)}


def _place(kind: str, name: str) -> tuple[int, int]:
    return _PLACES.get((kind, name)) or HEADERS[kind][1][name]


@dataclass(frozen=True)
class ChangeField:
    """Changes a field of the outermost header of the kind, which a later fragment only announces."""

    kind: str
    name: str
    words: str
    number: int = 0
    adds: bool = False

    def text(self) -> str:
        return self.words

    def _becomes(self, frame: bytes, old: int) -> int:
        """The field's new value."""
        return self.number + (old if self.adds else 0)

    def of(self, frame: bytes) -> bytes:
        header = _outermost(dissect(frame), self.kind)
        if header is None:
            return frame
        bit, bits = _place(self.kind, self.name)
        full, shift = (1 << bits) - 1, 8 * len(header.data) - bit - bits
        number = self._becomes(frame, header.get(bit, bits)) & full
        data = int.from_bytes(header.data, "big") & ~(full << shift) | number << shift
        end = header.at + len(header.data)
        return _followed(frame, frame[: header.at] + data.to_bytes(len(header.data), "big") + frame[end:])


@dataclass(frozen=True)
class ChangePart(ChangeField):
    """Changes some bits of the field, from a value for the whole field."""

    offset: int = 0
    width: int = 0

    def _becomes(self, frame: bytes, old: int) -> int:
        return self._with_part(old, self.number >> self.offset)

    def _with_part(self, old: int, part: int) -> int:
        full = (1 << self.width) - 1
        return old & ~(full << self.offset) | (part & full) << self.offset


@dataclass(frozen=True)
class CopyField(ChangePart):
    """Copies bits from another field, which a later fragment does not have."""

    source: tuple[str, str] = ("", "")
    source_offset: int = 0

    def _becomes(self, frame: bytes, old: int) -> int:
        header = _outermost(dissect(frame), self.source[0])
        if header is None:
            return old
        return self._with_part(old, header.get(*_place(*self.source)) >> self.source_offset)


# -- tags and tunnels ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PopVlan:
    def text(self) -> str:
        return "of_pop_vlan"

    def of(self, frame: bytes) -> bytes:
        return frame[:_MAC_BYTES] + frame[_MAC_BYTES + 4 :]


@dataclass(frozen=True)
class PushVlan:
    ether_type: int
    priority: int
    vlan: int

    def text(self) -> str:
        return (f"of_push_vlan ethertype {self.ether_type:#x} / of_set_vlan_vid vlan_vid {self.vlan}"
                f" / of_set_vlan_pcp vlan_pcp {self.priority}")

    def of(self, frame: bytes) -> bytes:
        tag = struct.pack("!HH", self.ether_type, self.priority << 13 | self.vlan)
        return frame[:_MAC_BYTES] + tag + frame[_MAC_BYTES:]


# The tunnel to be pushed, as configured once in testpmd.
_OUTER = {"eth": ("02:0a:0a:0a:0a:0a", "02:0b:0b:0b:0b:0b"), "ip": ("198.51.100.1", "198.51.100.2")}
TUNNEL_COMMANDS = [
    "set vxlan ip-version ipv4 vni 7 udp-src 8 udp-dst 4789 ip-src {ip[0]} ip-dst {ip[1]}"
    " eth-src {eth[0]} eth-dst {eth[1]}".format(**_OUTER),
    "set raw_encap 0 eth src is {eth[0]} dst is {eth[1]} / ipv4 src is {ip[0]} dst is {ip[1]} ttl is 9"
    " / udp src is 8 dst is 4789 / vxlan vni is 7 / end_set".format(**_OUTER),
    "set raw_decap 0 eth / ipv4 / udp / vxlan / end_set",
]


@dataclass(frozen=True)
class Encap:
    """Encapsulations, each with its own TTL."""

    raw: bool

    def text(self) -> str:
        return "raw_encap index 0" if self.raw else "vxlan_encap"

    def of(self, frame: bytes) -> bytes:
        outer = Ether(src=_OUTER["eth"][0], dst=_OUTER["eth"][1])
        outer /= IP(src=_OUTER["ip"][0], dst=_OUTER["ip"][1], id=0, ttl=9 if self.raw else 64)
        return bytes(outer / UDP(sport=8, dport=4789, chksum=0) / VXLAN(vni=7, flags=8) / frame)


@dataclass(frozen=True)
class Decap:
    """Decapsulation of VXLAN."""

    raw: bool

    def text(self) -> str:
        return "raw_decap index 0" if self.raw else "vxlan_decap"

    def of(self, frame: bytes) -> bytes:
        headers = dissect(frame)
        return frame[next(header.at + 8 for header in headers if header.kind == "vxlan") :]


COMMON_KINDS = {ChangeField, CopyField, PopVlan, PushVlan, Encap, Decap}  # supported by both drivers
KINDS = COMMON_KINDS | {ChangePart}


# -- at random -----------------------------------------------------------------------------------------


def _mac(dice: random.Random) -> int:
    return 0x02 << 40 | dice.getrandbits(40)


def _set(kind: str, name: str, words: str, number: int, modifies: str = "", bits: int = 0) -> ChangeField:
    """As an action of its own or, if a field is named, through modify_field."""
    if modifies:
        value = number.to_bytes(bits // 8, "big").hex()
        words = f"modify_field op set dst_type {modifies} src_type value src_value {value} width {bits}"
    return ChangeField(kind, name, words, number)


def _of_ethernet(dice: random.Random, modify: bool) -> ChangeField:
    way, number = dice.choice(["dst", "src"]), _mac(dice)
    mac = ":".join(f"{byte:02x}" for byte in number.to_bytes(6, "big"))
    return _set("eth", way, f"set_mac_{way} mac_addr {mac}", number, f"mac_{way}" if modify else "", 48)


def _of_ip(kind: str, dice: random.Random, modify: bool) -> ChangeField:
    ttl, bits = ("ttl", 32) if kind == "ipv4" else ("hop", 128)
    field = dice.choice(["src", "dst", ttl, "dec_ttl", "dscp"])
    if field == "dec_ttl":
        return ChangeField(kind, ttl, "dec_ttl", -1, adds=True)
    if field == "dscp":
        number = dice.randrange(64)
        return _set(kind, field, f"set_{kind}_dscp dscp_value {number}", number)
    if field == ttl:
        number = dice.randrange(1, 256)
        name = "ipv4_ttl" if kind == "ipv4" else "ipv6_hoplimit"
        return _set(kind, ttl, f"set_ttl ttl_value {number}", number, name if modify else "", 8)
    number = dice.getrandbits(bits)
    address = ipaddress.IPv4Address(number) if kind == "ipv4" else ipaddress.IPv6Address(number)
    return _set(kind, field, f"set_{kind}_{field} {kind}_addr {address}", number,
                f"{kind}_{field}" if modify else "", bits)


def _of_l4(kind: str, dice: random.Random, modify: bool) -> ChangeField:
    field = dice.choice(["src", "dst", *(["seq", "ack"] if kind == "tcp" else [])])
    if field in ("seq", "ack"):
        number, way = dice.getrandbits(32), dice.choice(["inc", "dec"])
        return ChangeField(kind, field, f"{way}_tcp_{field} value {number}",
                           number if way == "inc" else -number, adds=True)
    number = dice.getrandbits(16)
    return _set(kind, field, f"set_tp_{field} port {number}", number,
                f"{kind}_port_{field}" if modify else "", 16)


# As modify_field names them.
_MODIFIABLE = {
    ("eth", "dst"): "mac_dst", ("eth", "src"): "mac_src",
    ("ipv4", "src"): "ipv4_src", ("ipv4", "dst"): "ipv4_dst", ("ipv4", "ttl"): "ipv4_ttl",
    ("ipv4", "dscp"): "ipv4_dscp",
    ("ipv6", "src"): "ipv6_src", ("ipv6", "dst"): "ipv6_dst", ("ipv6", "hop"): "ipv6_hoplimit",
    ("ipv6", "dscp"): "ipv6_dscp",
    ("tcp", "src"): "tcp_port_src", ("tcp", "dst"): "tcp_port_dst", ("tcp", "seq"): "tcp_seq_num",
    ("tcp", "ack"): "tcp_ack_num", ("udp", "src"): "udp_port_src", ("udp", "dst"): "udp_port_dst",
}


def _bits(field: tuple[str, str]) -> int:
    return _place(*field)[1]


def _fields_of(kinds: list[str]) -> list[tuple[str, str]]:
    return [field for field in _MODIFIABLE if field[0] in kinds]


def _part(kinds: list[str], dice: random.Random) -> ChangePart:
    """A part set from a value that has the bytes of the whole field."""
    field = dice.choice(_fields_of(kinds))
    width = dice.randrange(1, _bits(field))
    offset, number = dice.randrange(_bits(field) - width + 1), dice.getrandbits(_bits(field))
    value = number.to_bytes((_bits(field) + 7) // 8, "big").hex()
    words = (f"modify_field op set dst_type {_MODIFIABLE[field]} dst_offset {offset} src_type value"
             f" src_value {value} width {width}")
    return ChangePart(*field, words, number, offset=offset, width=width)


def _copy(kinds: list[str], dice: random.Random, whole: bool) -> CopyField | None:
    """`whole`: from a field of the same length."""
    field = dice.choice(_fields_of(kinds))
    sources = [one for one in _fields_of(kinds) if not whole or (one != field and _bits(one) == _bits(field))]
    if not sources:
        return None
    source = dice.choice(sources)
    most = min(_bits(field), _bits(source))
    width = most if whole else dice.randrange(1, most + 1)
    to, of = (dice.randrange(_bits(one) - width + 1) for one in (field, source))
    if field == source and abs(to - of) < width:
        return None  # they overlap, and the bit order would matter
    words = (f"modify_field op set dst_type {_MODIFIABLE[field]} dst_offset {to} src_type {_MODIFIABLE[source]}"
             f" src_offset {of} width {width}")
    return CopyField(*field, words, offset=to, width=width, source=source, source_offset=of)


def _changes(kinds: list[str], dice: random.Random, common: bool) -> list[ChangeField]:
    """Changes of different fields."""
    chosen: dict[tuple[str, str], ChangeField] = {}
    changeable = _changeable(kinds)
    change: ChangeField | None
    for _ in range(dice.randrange(4) if changeable else 0):
        kind, modify, way = dice.choice(changeable), dice.random() < 0.4, dice.random()
        if way < 0.25:
            change = _copy(changeable, dice, whole=common)
        elif way < 0.4 and not common:
            change = _part(changeable, dice)
        elif kind == "eth":
            change = _of_ethernet(dice, modify)
        elif kind.startswith("ip"):
            change = _of_ip(kind, dice, modify)
        else:
            change = _of_l4(kind, dice, modify)
        if change is not None:
            chosen[change.kind, change.name] = change
    return list(chosen.values())


def _of_one_customer_tag(rule: Rule) -> bool:
    """Whether an item of the rule requires an outer 802.1Q tag in all its packets."""
    items = [item for item in rule.items if item.kind != "void"]
    kinds = [item.kind for item in items]
    if kinds.count("vlan") != 1 or kinds.index("vlan") > 1:
        return False
    return all(item.on("type") is None for item in items if item.kind == "eth")


def _kinds(rule: Rule) -> tuple[list[str], list[str]]:
    """The kinds of headers before a tunnel, and inside it."""
    kinds = [item.kind for item in rule.items if item.kind != "void"]
    tunnel = next((at for at, kind in enumerate(kinds) if kind in TUNNELS), len(kinds))
    return kinds[:tunnel], kinds[tunnel + 1 :]


def _changeable(kinds: list[str]) -> list[str]:
    return [kind for kind in kinds if kind in ("eth", "ipv4", "ipv6", "tcp", "udp")]


def changed_headers(rule: Rule) -> list[str]:
    """The items that the rule's edits need, without fields."""
    outer, inner = _kinds(rule)
    if any(isinstance(edit, Decap) for edit in rule.edits):
        return ["eth", *(kind for kind in outer if kind.startswith("ip")), "udp", "vxlan", *_changeable(inner)]
    of_tag = any(isinstance(edit, PopVlan) or isinstance(edit, ChangeField) and edit.kind == "vlan"
                 for edit in rule.edits)
    return ["eth", *(["vlan"] if of_tag else []),
            *(kind for kind in _changeable(outer) if kind != "eth")]


def random_edits(rule: Rule, dice: random.Random, common: bool) -> tuple[Edit, ...]:
    """With `common`, mostly what both drivers support: rules of groups pop tags from received packets and push
    them on sent ones."""
    tagged, way = _of_one_customer_tag(rule), dice.random()
    outer, inner = _kinds(rule)
    for_tags = not common or dice.random() < 0.02
    may_pop, may_push = (for_tags or (rule.group > 0 and rule.egress == egress) for egress in (False, True))
    if not rule.egress and way < 0.7 and any(item.kind == "vxlan" for item in rule.items):
        return (Decap(dice.random() < 0.5), *_changes(inner, dice, common))
    edits: list[Edit] = [*_changes(outer, dice, common)]
    if tagged and way < 0.5 and may_pop:
        edits.insert(0, PopVlan())
    elif tagged and dice.random() < 0.8:
        vlan = dice.randrange(_NO_VLAN)
        edits.append(ChangeField("vlan", "vid", f"of_set_vlan_vid vlan_vid {vlan}", vlan))
    elif dice.random() < 0.4 and may_push:
        edits.append(PushVlan(dice.choice([0x8100, 0x88A8]), dice.randrange(8), dice.randrange(_NO_VLAN)))
    if rule.egress and dice.random() < 0.2:
        edits.append(Encap(dice.random() < 0.5))
    return tuple(edits)
