# SPDX-License-Identifier: BSD-3-Clause
"""Random frames for random rules: from few values, so that they often match. The same seed produces the
same frames."""

import ipaddress
import random
from dataclasses import dataclass, field
from typing import Sequence

from .flow_model import FRAGMENT, HEADERS, TUNNELS, dissect
from .packets import PEER_MAC
from .ports import port_mac

MORE = 1 << 13  # the bit for more fragments, of IPv4


def _mac(text: str) -> int:
    return int(text.replace(":", ""), 16)


def _ip(text: str) -> int:
    return int(ipaddress.ip_address(text))


# Few values, so that rules and packets often match.
MACS = [_mac(port_mac(0)), _mac(PEER_MAC), _mac("02:00:00:00:00:77"), _mac("02:aa:00:00:01:01")]
IPV4 = [_ip(text) for text in ("10.0.0.1", "10.0.0.2", "10.0.1.2", "192.168.7.9")]
IPV6 = [_ip(text) for text in ("fd00::1", "fd00::2", "fd00:0:0:1::2", "2001:db8::7:9")]
PORTS = [53, 80, 1000, 2000, 2001, 0x1234]
NUMBERS: dict[str, list[int]] = {
    "eth.dst": MACS, "eth.src": MACS, "ipv4.src": IPV4, "ipv4.dst": IPV4, "ipv6.src": IPV6,
    "ipv6.dst": IPV6, "tcp.src": PORTS, "tcp.dst": PORTS, "udp.src": PORTS, "udp.dst": PORTS,
    "vlan.vid": [5, 7, 0x123], "vlan.pcp": [0, 5], "vlan.dei": [0, 1],
    "ipv4.tos": [0, 0xB8, 0x02], "ipv6.tc": [0, 0xB8, 0x02], "ipv4.ttl": [64, 7], "ipv6.hop": [64, 7],
    "ipv6.flow": [0, 0x12345], "tcp.flags": [0x02, 0x10, 0x18], "icmp.type": [8, 3], "icmp.code": [0, 1],
    "icmp.ident": [1, 0x1234], "icmp.seq": [1, 2], "icmp6.type": [128, 129], "icmp6.code": [0, 1],
    "esp.spi": [1, 0x12345678], "gre_key.value": [7, 0x12345678], "vxlan.vni": [5, 0x123456],
    "vxlan-gpe.vni": [5, 0x123456], "geneve.vni": [5, 0x123456], "nvgre.tni": [5, 0x123456],
    "gtp.teid": [5, 0x12345678], "gtp.msg_type": [255, 255, 255, 1], "mpls.label": [16, 0x12345], "mpls.tc": [0, 5],
}

PLAIN: list[tuple[str, ...]] = [
    ("ipv4", "udp"), ("ipv4", "tcp"), ("ipv6", "udp"), ("ipv6", "tcp"), ("ipv4", "icmp"),
    ("ipv6", "icmp6"), ("ipv4", "esp"), ("ipv6", "esp"), ("ipv4",), ("ipv6",), ("arp_eth_ipv4",), ()]
OF_TUNNELS: list[tuple[str, ...]] = [
    ("udp", "vxlan", "eth"), ("udp", "vxlan-gpe", "eth"), ("udp", "vxlan-gpe"),
    ("udp", "geneve", "eth"), ("udp", "geneve"), ("udp", "gtp"), ("gre",), ("gre", "gre_key"),
    ("gre", "eth"), ("nvgre", "eth"), ("udp", "mpls"), ("gre", "mpls")]
UNCOMMON = {"vxlan-gpe", "mpls"}
CARRIED = [kinds for kinds in PLAIN if kinds and kinds[0].startswith("ip")]
PROTOCOL = {"icmp": 1, "tcp": 6, "udp": 17, "gre": 47, "nvgre": 47, "esp": 50, "icmp6": 58}
NO_PROTOCOL = 253  # for experiments
TYPE = {"ipv4": 0x0800, "ipv6": 0x86DD, "arp_eth_ipv4": 0x0806, "mpls": 0x8847, "eth": 0x6558}
NO_TYPE = 0x88B5  # for experiments
GPE_PROTOCOL = {"ipv4": 1, "ipv6": 2, "eth": 3}
TUNNEL_PORT = {"vxlan": 4789, "vxlan-gpe": 4790, "geneve": 6081, "gtp": 2152, "mpls": 6635}
EXTENSIONS = (0, 43, 51, 60)  # of IPv6


Words = frozenset[tuple[str, str]]  # (item, field) that an engine can match


class Dice(random.Random):
    """Prefers fields that can be matched."""

    def __init__(self, seed: str, words: Words, plain: bool) -> None:
        """`plain`: what drivers interpret alike. Only these words, no ranges, no partly masked protocols, at most one
        tag, of 802.1Q, and common tunnels."""
        super().__init__(seed)
        self._words = words
        self.plain = plain

    def asks(self, kind: str, name: str, chance: float) -> bool:
        seldom = 0 if self.plain else 0.02
        return self.random() < (chance if (kind, name) in self._words else seldom)


@dataclass
class Layer:
    """A header to be built. Fields that describe the following headers are set when a frame is made."""

    kind: str
    fields: dict[str, int] = field(default_factory=dict)
    tag_type: int = 0x8100  # of a tag: the EtherType that announces it
    options: bool = False  # IPv4
    fragment: int | None = None  # offset and MORE; adds an extension to IPv6


def _random_layer(kind: str, dice: Dice) -> Layer:
    layer = Layer(kind)
    for name in HEADERS[kind][1]:
        if numbers := NUMBERS.get(f"{kind}.{name}"):
            layer.fields[name] = dice.choice(numbers)
    if kind == "vlan":
        layer.tag_type = dice.choice([0x8100, 0x8100, 0x8100 if dice.plain else 0x88A8])
    layer.options = kind == "ipv4" and dice.random() < 0.1
    return layer


def random_layers(dice: Dice) -> list[Layer]:
    kinds: list[str] = ["eth", *["vlan"] * dice.choice([0, 0, 0, 1, 1, 1 if dice.plain else 2])]
    shape = dice.random()
    if shape < 0.05 and not dice.plain:
        kinds += ["mpls", *dice.choice(CARRIED)]
    elif shape < 0.4:
        tunnels = [tunnel for tunnel in OF_TUNNELS if not dice.plain or not UNCOMMON & {*tunnel}]
        kinds += [dice.choice(["ipv4", "ipv6"]), *dice.choice(tunnels)]
        kinds += dice.choice(CARRIED)
    else:
        kinds += dice.choice(PLAIN)
    layers = [_random_layer(kind, dice) for kind in kinds]
    _set_fragment(layers, dice, 0.12)
    return layers


def _set_fragment(layers: Sequence[Layer], dice: Dice, chance: float) -> None:
    """Not for tunnels, which devices do not parse in fragments."""
    if any(layer.kind in TUNNELS for layer in layers):
        return
    for lower, upper in zip(layers, layers[1:]):
        if upper.kind in ("udp", "tcp") and dice.random() < chance:
            lower.fragment = None if lower.fragment else dice.choice([MORE, MORE | 3, 3])


def frame_of(layers: Sequence[Layer], bytes_: int = 0) -> bytes:
    """The headers, and zeros up to `bytes_`."""
    payload = bytes(max(0, bytes_ - len(frame_of(layers)))) if bytes_ else b""
    for at in range(len(layers) - 1, -1, -1):
        payload = _header(layers[at], layers[at + 1 :], payload)
    return payload


def _header(layer: Layer, above: Sequence[Layer], rest: bytes) -> bytes:
    """The header before `rest`, with the fields that describe it."""
    size, places = HEADERS[layer.kind]
    number = 0

    def put(bit: int, bits: int, value: int) -> None:
        nonlocal number
        shift = 8 * size - bit - bits
        number = number & ~(((1 << bits) - 1) << shift) | value << shift

    for name, value in layer.fields.items():
        put(*places[name], value)
    kinds = [one.kind for one in above if one.kind != "gre_key"] or [""]
    ether_type = above[0].tag_type if kinds[0] == "vlan" else TYPE.get(kinds[0], NO_TYPE)
    protocol = PROTOCOL.get(kinds[0], NO_PROTOCOL)
    extra = b""
    match layer.kind:
        case "eth":
            put(96, 16, ether_type)
        case "vlan":
            put(16, 16, ether_type)
        case "arp_eth_ipv4":
            put(0, 64, 0x0001080006040001)
        case "mpls":
            put(23, 9, 0x140)  # bottom of the stack, TTL 64
        case "ipv4":
            extra = b"\x01" * 4 if layer.options else b""
            put(0, 8, 0x45 + layer.options)
            put(16, 16, size + len(extra) + len(rest))
            put(48, 16, layer.fragment or 0)
            put(72, 8, protocol)
        case "ipv6":
            if layer.fragment is not None:
                word = (layer.fragment & MORE - 1) << 3 | layer.fragment // MORE
                extra = bytes([protocol, 0]) + word.to_bytes(2, "big") + bytes(4)
                protocol = FRAGMENT
            put(0, 4, 6)
            put(32, 16, len(extra) + len(rest))
            put(48, 8, protocol)
        case "tcp":
            put(96, 4, 5)
        case "udp":
            put(32, 16, size + len(rest))
            if port := TUNNEL_PORT.get(kinds[0]):
                put(16, 16, port)
        case "gre":
            put(2, 1, int(above[0].kind == "gre_key"))
            put(16, 16, ether_type)
        case "nvgre":
            put(0, 32, 0x20006558)
        case "vxlan":
            put(0, 8, 0x08)
        case "vxlan-gpe":
            put(0, 32, 0x0C000000 | GPE_PROTOCOL[kinds[0]])
        case "geneve":
            put(16, 16, ether_type)
        case "gtp":
            put(0, 8, 0x30)
            put(16, 16, len(rest))
    return number.to_bytes(size, "big") + extra + rest


def flipped(frame: bytes, bit: int) -> bytes:
    changed = bytearray(frame)
    changed[bit // 8] ^= 0x80 >> bit % 8
    return bytes(changed)


def ordinary(frame: bytes) -> bool:
    """False if a flipped bit makes the frame look as if it had other extensions."""
    return all(header.kind != "ipv6" or header.get(48, 8) not in EXTENSIONS
               for header in dissect(frame))


def change(layers: list[Layer], dice: Dice) -> None:
    """Changes layers into similar ones: another value, two values swapped, a tag more or less, another protocol, a
    fragment or none."""
    way = dice.randrange(5)
    layer = dice.choice(layers)
    if way == 0 and layer.fields:
        name = dice.choice(list(layer.fields))
        layer.fields[name] = dice.choice(NUMBERS[f"{layer.kind}.{name}"])
    elif way == 1:
        for one in layers:
            if "src" in one.fields:
                one.fields["src"], one.fields["dst"] = one.fields["dst"], one.fields["src"]
    elif way == 2:
        if layers[1:] and layers[1].kind == "vlan":
            del layers[1]
        else:
            layers.insert(1, _random_layer("vlan", dice))
    elif way == 3:
        other = {"tcp": "udp", "udp": "tcp", "icmp": "tcp"}.get(layers[-1].kind)
        if other:
            layers[-1] = _random_layer(other, dice)
    else:
        _set_fragment(layers, dice, 1)
