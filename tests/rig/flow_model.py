# SPDX-License-Identifier: BSD-3-Clause
"""The meaning of rte_flow rules, by DPDK's rte_flow guide: which packets a rule takes, and what happens to
a packet that matches several. Written from that guide, the RFCs and the limits stated in the driver's
guide, independently of the driver's code. Frames are well formed except for bits flipped by the tests.
"""

from dataclasses import dataclass, field
from typing import Iterator, Protocol, Sequence

VLAN_TYPES = (0x8100, 0x88A8)
IPV4, IPV6, ARP, MPLS, BRIDGED = 0x0800, 0x86DD, 0x0806, 0x8847, 0x6558
NEXT_OF_TYPE = {IPV4: "ipv4", IPV6: "ipv6", ARP: "arp_eth_ipv4", MPLS: "mpls", BRIDGED: "eth"}
NEXT_OF_IPV4 = {1: "icmp", 6: "tcp", 17: "udp", 47: "gre", 50: "esp"}
NEXT_OF_IPV6 = {6: "tcp", 17: "udp", 47: "gre", 50: "esp", 58: "icmp6"}
NEXT_OF_GPE = {1: "ipv4", 2: "ipv6", 3: "eth"}
TUNNEL_OF_PORT = {4789: "vxlan", 4790: "vxlan-gpe", 6081: "geneve", 2152: "gtp", 6635: "mpls"}
FRAGMENT = 44

# Bytes of each header, and its fields as testpmd names them: first bit, bits.
HEADERS: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {
    "eth": (14, {"dst": (0, 48), "src": (48, 48), "type": (96, 16)}),
    "vlan": (4, {"pcp": (0, 3), "dei": (3, 1), "vid": (4, 12), "tci": (0, 16), "inner_type": (16, 16)}),
    "arp_eth_ipv4": (28, {}),
    "mpls": (4, {"label": (0, 20), "tc": (20, 3), "s": (23, 1)}),
    "ipv4": (20, {"version_ihl": (0, 8), "tos": (8, 8), "packet_id": (32, 16), "fragment_offset": (48, 16),
                  "ttl": (64, 8), "proto": (72, 8), "src": (96, 32), "dst": (128, 32)}),
    "ipv6": (40, {"tc": (4, 8), "flow": (12, 20), "proto": (48, 8), "hop": (56, 8), "src": (64, 128),
                  "dst": (192, 128)}),
    "tcp": (20, {"src": (0, 16), "dst": (16, 16), "flags": (104, 8)}),
    "udp": (8, {"src": (0, 16), "dst": (16, 16)}),
    "icmp": (8, {"type": (0, 8), "code": (8, 8), "ident": (32, 16), "seq": (48, 16)}),
    "icmp6": (8, {"type": (0, 8), "code": (8, 8)}),
    "esp": (8, {"spi": (0, 32)}),
    "gre": (4, {"c_bit": (0, 1), "k_bit": (2, 1), "s_bit": (3, 1), "protocol": (16, 16)}),
    "gre_key": (4, {"value": (0, 32)}),
    "nvgre": (8, {"tni": (32, 24)}),
    "vxlan": (8, {"vni": (32, 24)}),
    "vxlan-gpe": (8, {"vni": (32, 24)}),
    "geneve": (8, {"optlen": (2, 6), "vni": (32, 24), "protocol": (16, 16)}),
    "gtp": (8, {"v_pt_rsv_flags": (0, 8), "msg_type": (8, 8), "teid": (32, 32)}),
    "meta": (4, {"data": (0, 32)}),  # metadata of a packet
}
# What an item without a mask matches ("Default mask matches …" of the rte_flow guide).
DEFAULT_MASKS: dict[str, tuple[str, ...]] = {
    "eth": ("dst", "src"), "vlan": ("vid",), "mpls": ("label",), "ipv4": ("src", "dst"),
    "ipv6": ("src", "dst"), "tcp": ("src", "dst"), "udp": ("src", "dst"), "icmp": ("type", "code"),
    "icmp6": ("type", "code"), "esp": ("spi",), "gre": ("protocol",), "gre_key": ("value",),
    "nvgre": ("tni",), "vxlan": ("vni",), "vxlan-gpe": ("vni",), "geneve": ("vni",), "gtp": ("teid",),
}
TUNNELS = ("mpls", "gre", "gre_key", "nvgre", "vxlan", "vxlan-gpe", "geneve", "gtp")
# Bits of some items that are not in the header: whether another header of the kind follows.
FLAGS = {"eth": "has_vlan", "vlan": "has_more_vlan", "ipv6": "has_frag_ext"}


# -- packets -----------------------------------------------------------------------------------------


@dataclass
class Header:
    """A header of a frame. `data` is empty if the frame only announces it, as later fragments do."""

    kind: str
    data: bytes
    at: int = 0  # offset in the frame
    fragment: bool = False  # IPv6: with a fragment extension
    protocol: int | None = None  # IPv6: after that extension

    def get(self, bit: int, bits: int) -> int:
        total = 8 * len(self.data)
        return int.from_bytes(self.data, "big") >> (total - bit - bits) & ((1 << bits) - 1)

    def number(self, name: str) -> int:
        """A field's value; the protocol of IPv6 is the one after the extensions, as devices see it."""
        if self.protocol is not None and name == "proto":
            return self.protocol
        return self.get(*HEADERS[self.kind][1][name])


def dissect(frame: bytes) -> list[Header]:
    """The headers of a frame, outermost first, as far as they are known."""
    return list(_headers(frame, 0, "eth"))


def _headers(frame: bytes, at: int, kind: str | None) -> Iterator[Header]:
    while kind is not None:
        header = Header(kind, frame[at : at + HEADERS[kind][0]], at)
        if kind == "ipv4" and (header.get(0, 4) != 4 or header.get(4, 4) < 5):
            return
        yield header
        at += len(header.data)
        if kind == "eth" or kind == "vlan":
            ether_type = _type_on_wire(header)
            kind = "vlan" if ether_type in VLAN_TYPES else NEXT_OF_TYPE.get(ether_type)
        elif kind == "ipv4":
            at = header.at + 4 * header.get(4, 4)
            kind = NEXT_OF_IPV4.get(header.get(72, 8))
            if kind and header.get(51, 13):  # a later fragment
                yield Header(kind, b"")
                return
        elif kind == "ipv6":
            protocol = header.get(48, 8)
            if protocol == FRAGMENT:
                header.fragment = True
                header.protocol = protocol = frame[at]
                later = int.from_bytes(frame[at + 2 : at + 4], "big") >> 3
                at += 8
                if later:
                    if known := NEXT_OF_IPV6.get(protocol):
                        yield Header(known, b"")
                    return
            kind = NEXT_OF_IPV6.get(protocol)
        elif kind == "udp":
            kind = TUNNEL_OF_PORT.get(header.get(16, 16))
        elif kind == "gre":
            protocol = header.get(16, 16)
            if header.data[0] & 0x80:  # checksum
                at += 4
            if header.data[0] & 0x20:
                yield Header("gre_key", frame[at : at + 4], at)
                at += 4
            if header.data[0] & 0x10:  # sequence number
                at += 4
            kind = NEXT_OF_TYPE.get(protocol) if protocol != ARP else None
        elif kind == "vxlan":
            kind = "eth"
        elif kind == "vxlan-gpe":
            kind = NEXT_OF_GPE.get(header.data[3])
        elif kind == "geneve":
            at += 4 * (header.data[0] & 0x3F)
            kind = NEXT_OF_TYPE.get(header.get(16, 16))
        elif kind == "mpls":
            at = _bottom(frame, header.at)
            kind = {4: "ipv4", 6: "ipv6"}.get(frame[at] >> 4, "eth") if at else None
        elif kind == "gtp":
            at = _behind_gtp_options(frame, header)
            kind = {4: "ipv4", 6: "ipv6"}.get(frame[at] >> 4) if header.data[1] == 255 else None
        else:
            return


def _bottom(frame: bytes, at: int) -> int:
    """The end of a stack of labels (RFC 3032); 0: longer than the eight labels that devices look at."""
    for end in range(at + 4, at + 36, 4):
        if frame[end - 2] & 1:
            return end
    return 0


def _behind_gtp_options(frame: bytes, header: Header) -> int:
    """The end of the optional word and of the extension headers (3GPP TS 29.281, 5.1 and 5.2)."""
    at = header.at + len(header.data)
    if header.data[0] & 7:
        at += 4
        while header.data[0] & 4 and frame[at - 1] and frame[at]:
            at += 4 * frame[at]
    return at


# -- rules -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Condition:
    """A condition on a field: spec and mask, or a range from spec to last."""

    name: str
    spec: int
    mask: int
    last: int | None = None

    def holds(self, number: int) -> bool:
        if self.last is None:
            return (number ^ self.spec) & self.mask == 0
        return self.spec & self.mask <= number & self.mask <= self.last & self.mask


@dataclass(frozen=True)
class Item:
    kind: str
    conditions: tuple[Condition, ...] = ()
    bare_spec: bool = False  # without a mask: the default one applies

    @property
    def asked(self) -> tuple[Condition, ...]:
        """The effective conditions: without a mask, all fields of the default one, whether given or zero."""
        if not self.bare_spec:
            return self.conditions
        given = {one.name: one for one in self.conditions}
        return tuple(given.get(name) or Condition(name, 0, -1) for name in DEFAULT_MASKS[self.kind])

    def on(self, name: str) -> Condition | None:
        return next((one for one in self.asked if one.name == name), None)


class Edit(Protocol):
    """What a rule does to the headers of the packets that it takes."""

    def text(self) -> str:
        """In testpmd's syntax."""
        ...

    def of(self, frame: bytes) -> bytes:
        """The resulting frame."""
        ...


@dataclass(frozen=True)
class Copies:
    """Copies of one in `ratio` of the packets that a rule takes, as received."""

    index: int  # number of testpmd's list of actions
    ratio: int
    queue: int
    mark: int | None
    count: bool

    def command(self) -> str:
        actions = [f"mark id {self.mark}"] if self.mark is not None else []
        actions += ["count"] if self.count else []
        return f"set sample_actions {self.index} {' / '.join([*actions, f'queue index {self.queue}'])} / end"

    def text(self) -> str:
        return f"sample ratio {self.ratio} index {self.index}"


@dataclass(frozen=True)
class Metering:
    """A meter, and what happens to packets if it gives all of them one color."""

    meter: int
    color: str = ""
    drops: bool = False  # drops packets of this color

    def text(self) -> str:
        return f"meter mtr_id {self.meter}"


@dataclass
class Rule:
    items: list[Item]
    priority: int = 0
    queues: tuple[int, ...] = ()  # none: drop
    mark: int | None = None
    modifies_mark: bool = False  # sets the mark by modify_field
    flag: bool = False
    count: bool = False
    rss_types: str = ""  # for a rule with several queues
    group: int = 0
    egress: bool = False  # for sent packets; then it only matters whether there is a queue
    metadata: int = 0  # sent with packets
    age: int | None = None  # seconds
    edits: tuple[Edit, ...] = ()
    copies: Copies | None = None
    metering: Metering | None = None
    text: str = field(default="", compare=False)  # in testpmd's syntax

    @property
    def passes(self) -> bool:
        """Whether packets that it takes continue."""
        return bool(self.queues) and not (self.metering and self.metering.drops)

    def takes(self, headers: Sequence[Header]) -> bool:
        metadata = Header("meta", self.metadata.to_bytes(4, "big"))
        return all(_holds(item, metadata, {}) for item in self.items if item.kind == "meta") and _takes(
            [item for item in self.items if item.kind not in ("void", "meta")], headers)


def _holds(item: Item, header: Header, beside: dict[str, int]) -> bool:
    """`beside` has the values of fields that are not in the header."""
    if not header.data:
        return not item.asked
    return all(one.holds(beside[one.name] if one.name in beside else header.number(one.name))
               for one in item.asked)


def _tags(headers: Sequence[Header], at: int) -> int:
    count = 0
    while at + count < len(headers) and headers[at + count].kind == "vlan":
        count += 1
    return count


_TYPE = {"eth": "type", "vlan": "inner_type"}


def _type_on_wire(header: Header) -> int:
    return header.number(_TYPE[header.kind])


def _type_behind(headers: Sequence[Header], at: int) -> int:
    """The EtherType after all tags, of the header at `at`."""
    return _type_on_wire(headers[at + _tags(headers, at + 1)])


def _takes(items: Sequence[Item], headers: Sequence[Header]) -> bool:
    at = 0
    for number, item in enumerate(items):
        following = items[number + 1].kind if number + 1 < len(items) else ""
        if item.kind == "any":
            return True
        # An Ethernet item may be omitted where nothing else is possible.
        if item.kind != "eth" and (number == 0 or items[number - 1].kind in ("vxlan", "nvgre")):
            at += 1 if item.kind == "vlan" else 1 + _tags(headers, at + 1)
        if item.kind != "gre_key" and at < len(headers) and headers[at].kind == "gre_key":
            at += 1
        if at >= len(headers):
            return False
        header = headers[at]
        if item.kind == "eth" or item.kind == "vlan":
            before = items[number - 1] if number else None
            if header.kind != item.kind or not _takes_l2(item, before, following, headers, at):
                return False
            at += 1 if following == "vlan" else 1 + _tags(headers, at + 1)
        elif item.kind == "nvgre":
            if header.kind != "gre" or not _takes_nvgre(item, header, headers[at + 1 : at + 2]):
                return False
            at += 2
        elif item.kind == "gre" and following == "gre_key":
            if header.kind != "gre" or not _holds(item, header, {}):
                return False
            at += 1
            if at >= len(headers) or headers[at].kind != "gre_key":
                return False
        else:
            beside = {"has_frag_ext": int(header.fragment)}
            if header.kind != item.kind or not _holds(item, header, beside):
                return False
            at += 1
    return True


def _takes_l2(item: Item, before: Item | None, following: str, headers: Sequence[Header],
              at: int) -> bool:
    """Ethernet or a tag. `type` is that of the tag if a tag item follows, else the one after all tags. By the
    driver's guide, a vlan item is an 802.1Q tag unless stated otherwise; the outer one of two may be of
    either kind."""
    header = headers[at]
    if item.kind == "vlan" and following != "vlan":
        kind = _type_on_wire(headers[at - 1])
        said = before is not None and before.on(_TYPE.get(before.kind, "")) is not None
        if kind != VLAN_TYPES[0] and not said:
            return False
    name = _TYPE[item.kind]
    more = _tags(headers, at + 1)
    wire_type = _type_on_wire(header)
    if following == "vlan" and not more:
        return False
    beside = {FLAGS[item.kind]: int(more > 0)}
    asked = item.on(name)
    tag_asked = asked is not None and asked.last is None and asked.spec & asked.mask in VLAN_TYPES
    beside[name] = wire_type if following == "vlan" or tag_asked else _type_behind(headers, at)
    return _holds(item, header, beside)


def _takes_nvgre(item: Item, header: Header, key: Sequence[Header]) -> bool:
    """RFC 7637: no checksum, a key, no sequence number, and Ethernet as payload."""
    if not header.data:
        return not item.asked
    if header.data[0] & 0xB0 != 0x20 or header.get(16, 16) != BRIDGED or not key:
        return False
    return _holds(item, Header("nvgre", header.data + key[0].data), {})


# -- results ----------------------------------------------------------------------------------------


def best(rules: Sequence[Rule], headers: Sequence[Header]) -> list[Rule]:
    """The rules that may apply: those of the best priority among all that match the packet. If there are
    several, the guide leaves open which one applies."""
    taking = [rule for rule in rules if rule.takes(headers)]
    top = min((rule.priority for rule in taking), default=0)
    return [rule for rule in taking if rule.priority == top]
