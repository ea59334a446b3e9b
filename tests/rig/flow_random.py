# SPDX-License-Identifier: BSD-3-Clause
"""Random rte_flow rules, and packets that meet them or miss them by little. The same seed gives the
same."""

import ipaddress
import random
from dataclasses import dataclass, field, replace
from typing import Callable, Sequence

from .flow_model import (DEFAULT_MASKS, FLAGS, FRAGMENT, HEADERS, TUNNELS, Condition, Copies, Header,
                         Item, Metering, Rule, best, dissect)
from .packets import PEER_MAC, marker
from .ports import port_mac

QUEUES = 4
LONGEST_LINE = 480  # testpmd reads 512 characters
COPY_MARK = 1000  # and more: of copies
MORE = 1 << 13  # the bit for more fragments, of IPv4


def _mac(text: str) -> int:
    return int(text.replace(":", ""), 16)


def _ip(text: str) -> int:
    return int(ipaddress.ip_address(text))


# Few values, so that rules and packets meet often.
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
    "gtp.teid": [5, 0x12345678], "gtp.msg_type": [255, 255, 255, 1], "mpls.label": [16, 0x12345],
}

PLAIN: list[tuple[str, ...]] = [
    ("ipv4", "udp"), ("ipv4", "tcp"), ("ipv6", "udp"), ("ipv6", "tcp"), ("ipv4", "icmp"),
    ("ipv6", "icmp6"), ("ipv4", "esp"), ("ipv6", "esp"), ("ipv4",), ("ipv6",), ("arp_eth_ipv4",), ()]
OF_TUNNELS: list[tuple[str, ...]] = [
    ("udp", "vxlan", "eth"), ("udp", "vxlan-gpe", "eth"), ("udp", "vxlan-gpe"),
    ("udp", "geneve", "eth"), ("udp", "geneve"), ("udp", "gtp"), ("gre",), ("gre", "gre_key"),
    ("gre", "eth"), ("nvgre", "eth"), ("udp", "mpls"), ("gre", "mpls")]
UNCOMMON = {"vxlan-gpe", "geneve", "gtp", "mpls"}
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
    """Prefers what can be matched."""

    def __init__(self, seed: str, words: Words, plain: bool) -> None:
        """`plain`: what drivers understand alike. These words only, no ranges, no half protocols, no tags but one of
        802.1Q, common tunnels."""
        super().__init__(seed)
        self._words = words
        self.plain = plain

    def asks(self, kind: str, name: str, chance: float) -> bool:
        seldom = 0 if self.plain else 0.02
        return self.random() < (chance if (kind, name) in self._words else seldom)


# -- frames ------------------------------------------------------------------------------------------


@dataclass
class Layer:
    """A header to be. What it says about those behind it comes when a frame is made."""

    kind: str
    fields: dict[str, int] = field(default_factory=dict)
    tag_type: int = 0x8100  # of a tag: what announces it
    options: bool = False  # IPv4
    fragment: int | None = None  # offset and MORE; gives IPv6 an extension


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
    """Not of tunnels, for which devices do not look in fragments."""
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
    """In front of `rest`, with what it says about that."""
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
            put(20, 12, 0x140)  # bottom of the stack, TTL 64
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


def _flipped(frame: bytes, bit: int) -> bytes:
    changed = bytearray(frame)
    changed[bit // 8] ^= 0x80 >> bit % 8
    return bytes(changed)


def _ordinary(frame: bytes) -> bool:
    """Not one that a flipped bit has made look as if it had other extensions."""
    return all(header.kind != "ipv6" or header.get(48, 8) not in EXTENSIONS
               for header in dissect(frame))


# -- rules -------------------------------------------------------------------------------------------

_TEXT: dict[int, Callable[[int], str]] = {
    48: lambda number: ":".join(f"{byte:02x}" for byte in number.to_bytes(6, "big")),
    128: lambda number: str(ipaddress.IPv6Address(number)),
}


def _text(kind: str, name: str, number: int) -> str:
    if (kind, name) in (("ipv4", "src"), ("ipv4", "dst")):
        return str(ipaddress.IPv4Address(number))
    bits = HEADERS[kind][1].get(name, (0, 1))[1]
    return _TEXT.get(bits, hex)(number)


def _width(kind: str, name: str) -> int:
    return HEADERS[kind][1].get(name, (0, 1))[1]


def item_text(item: Item) -> str:
    words = [item.kind]
    for one in item.conditions:
        full = (1 << _width(item.kind, one.name)) - 1
        shown = [_text(item.kind, one.name, number) for number in (one.spec, one.mask, one.last or 0)]
        if item.bare_spec:
            words.append(f"{one.name} spec {shown[0]}")
        elif one.last is None and one.mask == full:
            words.append(f"{one.name} is {shown[0]}")
        else:
            last = "" if one.last is None else f" {one.name} last {shown[2]}"
            words.append(f"{one.name} spec {shown[0]}{last} {one.name} mask {shown[1]}")
    return " ".join(words)


def rule_text(rule: Rule) -> str:
    actions = [rule.copies.text()] if rule.copies else []
    if rule.metering:
        actions.append(rule.metering.text())
    if rule.count:
        actions.append("count")
    if rule.flag:
        actions.append("flag")
    if rule.mark is not None:
        actions.append(f"mark id {rule.mark}")
    if len(rule.queues) > 1:
        queues = " ".join(map(str, rule.queues))
        actions.append(f"rss types {rule.rss_types} end queues {queues} end")
    else:
        actions.append(f"queue index {rule.queues[0]}" if rule.queues else "drop")
    priority = f"priority {rule.priority} " if rule.priority else ""
    return (f"{priority}ingress pattern {' / '.join(map(item_text, rule.items))} / end"
            f" actions {' / '.join(actions)} / end")


def _condition(kind: str, name: str, number: int, dice: Dice) -> Condition:
    """One that holds for `number`."""
    bits = _width(kind, name)
    full = (1 << bits) - 1
    way = dice.random()
    is_type = (kind, name) in (("eth", "type"), ("vlan", "inner_type"))
    if way < 0.55 or is_type or (dice.plain and name in ("proto", "protocol")):
        return Condition(name, number, full)
    if way < 0.9 or bits > 16 or dice.plain or name in ("pcp", "dei", "vid"):  # which are one field of rte_flow
        mask = full << dice.randrange(bits) & full if dice.random() < 0.4 else 0
        while not mask:
            mask = dice.getrandbits(bits)
        # What the mask leaves out does not count.
        return Condition(name, number & mask | dice.getrandbits(bits) & ~mask & full, mask)
    first = max(0, number - dice.randrange(4))
    return Condition(name, first, full, min(full, number + dice.randrange(4)))


def _names(kind: str, dice: Dice) -> list[str]:
    names = [name for name in HEADERS[kind][1]
             if name != "fragment_offset" and dice.asks(kind, name, 0.35)]
    if "tci" in names:  # all of the tag, or parts of it
        return [name for name in names if name in ("tci", "inner_type")]
    return names


def _fragment_condition(header: Header, dice: Dice) -> list[Condition]:
    """That it is one, or is none: the forms that the driver's guide names."""
    if not dice.asks(header.kind, "has_frag_ext" if header.kind == "ipv6" else "fragment_offset", 0.15):
        return []
    if header.kind == "ipv6":
        return [Condition("has_frag_ext", int(header.fragment), 1)]
    if header.get(50, 14):
        return [Condition("fragment_offset", 1, 0x3FFF, 0x3FFF)]
    return [Condition("fragment_offset", 0, 0x3FFF)]


@dataclass
class Asked:
    """An item and the header of the first packet that it was made from."""

    item: Item
    header: Header


def _ask(header: Header, dice: Dice) -> Asked:
    conditions = [_condition(header.kind, name, header.number(name), dice)
                  for name in _names(header.kind, dice)]
    bare = False
    if header.kind in ("ipv4", "ipv6"):
        conditions += _fragment_condition(header, dice)
    elif conditions and dice.random() < 0.1:
        bare = True
        names = {*DEFAULT_MASKS[header.kind], *(one.name for one in conditions)} - {"tci"}
        conditions = [Condition(name, header.number(name),
                                (1 << _width(header.kind, name)) - 1) for name in sorted(names)]
    return Asked(Item(header.kind, tuple(conditions), bare), header)


def _without(asked: Asked, *names: str) -> Asked:
    conditions = tuple(one for one in asked.item.conditions if one.name not in names)
    return replace(asked, item=replace(asked.item, conditions=conditions))


def _with(asked: Asked, condition: Condition) -> Asked:
    asked = _without(asked, condition.name)
    conditions = (*asked.item.conditions, condition)
    return replace(asked, item=replace(asked.item, conditions=conditions, bare_spec=False))


def _ask_tags(all_asked: list[Asked], headers: Sequence[Header], dice: Dice) -> list[Asked]:
    """Which of the outermost tags the items ask for, and how they say it."""
    tags = sum(header.kind == "vlan" for header in headers)
    there = min(tags, len(all_asked) - 1)
    named = dice.randrange(there + 1)
    kept = all_asked[: 1 + named] + all_asked[1 + there :]
    for at in range(1 + named):
        before = kept[at]
        name = "type" if at == 0 else "inner_type"
        of_tags = before.header.get(96 if at == 0 else 16, 16)
        if at < named:
            # A tag of 802.1ad has to be asked for, but as the outer one of two.
            service = of_tags == 0x88A8 and at + 1 == named
            kept[at] = (_with(before, Condition(name, of_tags, 0xFFFF)) if service
                        else _without(before, name))
        elif tags > named:  # what stands behind all tags is meant
            behind = headers[tags].get(16, 16)
            if before.item.on(name) and not before.item.bare_spec:
                kept[at] = _with(before, Condition(name, behind, 0xFFFF))
            elif before.item.bare_spec:
                kept[at] = _without(before, name)
        kind = before.item.kind
        if at == named and dice.asks(kind, FLAGS[kind], 0.3):
            kept[at] = _with(kept[at], Condition(FLAGS[kind], int(tags > named), 1))
    return kept


def _random_items(frame: bytes, dice: Dice) -> list[Asked]:
    headers = [header for header in dissect(frame) if header.data]
    all_asked = [_ask(header, dice) for header in headers]
    keyed = next((at for at, header in enumerate(headers) if header.kind == "gre_key"), None)
    if keyed is not None:
        gre = headers[keyed - 1]
        way = dice.random()
        if gre.get(16, 16) == TYPE["eth"] and way < 0.7:
            whole = Header("nvgre", gre.data + headers[keyed].data, gre.at)
            all_asked[keyed - 1 : keyed + 1] = [_ask(whole, dice)]
        elif way < 0.3:
            del all_asked[keyed]
    if dice.random() < 0.6:
        all_asked = all_asked[: dice.randrange(1, len(all_asked) + 1)]
    all_asked = _ask_tags(all_asked, headers, dice)
    # Ethernet headers may go without saying: the outermost, and where nothing else can stand.
    for at in range(len(all_asked) - 2, -1, -1):
        item = all_asked[at].item
        clear = at == 0 or all_asked[at - 1].item.kind in ("vxlan", "nvgre")
        if item == Item("eth") and clear and dice.random() < 0.3:
            del all_asked[at]
    return all_asked


def random_rule(dice: Dice, frame: bytes) -> tuple[Rule, list[Asked]]:
    """One that takes the frame, to which it adds no actions."""
    while True:
        all_asked = _random_items(frame, dice)
        items = [asked.item for asked in all_asked]
        if dice.random() < 0.05:
            items.insert(dice.randrange(len(items) + 1), Item("void"))
        if dice.random() < 0.05 and not dice.plain:
            items.append(Item("any"))
        rule = Rule(items)
        if not any(item.conditions for item in items) and dice.random() < 0.8:
            continue  # it would take almost everything
        if len(rule_text(Rule(items, priority=9999, queues=(0, 1), mark=0xFFFFFF,
                              rss_types="ipv4-udp ipv4-tcp"))) <= LONGEST_LINE:
            return rule, all_asked


def _set_actions(rule: Rule, dice: Dice, mark: int, counting: bool) -> None:
    rule.count = counting and dice.random() < 0.4
    way = dice.random()
    if way < 0.2 and not rule.takes(dissect(marker())):
        return  # drop
    kinds = {item.kind for item in rule.items}
    rule.queues = (dice.randrange(QUEUES),)
    if way > 0.9 and not kinds & set(TUNNELS):
        rule.queues = tuple(dice.sample(range(QUEUES), 2))
        rule.rss_types = "ip tcp udp" if dice.random() < 0.5 else "ip"
    if dice.random() < 0.1:
        rule.flag = True
    elif dice.random() < 0.85:
        rule.mark = mark


def _has_room(rule: Rule) -> bool:
    """For one more action. Whoever waits for a marker waits for one."""
    return len(rule_text(rule)) < LONGEST_LINE - 30 and not rule.takes(dissect(marker()))


def _set_copies(rule: Rule, dice: Dice, number: int) -> None:
    if dice.random() > 0.3 or not _has_room(rule):
        return
    counts = dice.random() < 0.5 and not rule.count  # which would have the counter
    mark = COPY_MARK + number if dice.random() < 0.8 else None
    rule.copies = Copies(number % 10, dice.choice([1, 1, 2, 3]), dice.randrange(QUEUES), mark, counts)


# -- rounds ------------------------------------------------------------------------------------------


@dataclass
class Round:
    """Rules that stand together, and frames, which differ in length."""

    seed: str
    rules: list[Rule]
    frames: list[bytes]


FIRST_LENGTH = 260  # longer than all headers together


def random_round(seed: str, rules: int, words: Words, counting: bool, plain: bool = False,
                 sampling: bool = False, meters: Sequence[Metering] = ()) -> Round:
    """`meters`: that rules may run."""
    dice = Dice(seed, words, plain)
    priorities = dice.choice([[0], [0, 1], [0, 1, 2], [0, 1, 2] if plain else [0, 5, 1000]])
    round_ = Round(seed, [], [])

    def add(frame: bytes) -> None:
        # Of a length of its own, by which it is known again.
        frame += bytes(FIRST_LENGTH + len(round_.frames) - len(frame))
        if _ordinary(frame):
            round_.frames.append(frame)

    for number in range(rules):
        layers = random_layers(dice)
        first = frame_of(layers, FIRST_LENGTH - 8)
        rule, all_asked = random_rule(dice, first)
        rule.priority = dice.choice(priorities)
        _set_actions(rule, dice, number + 1, counting)
        if sampling:
            _set_copies(rule, dice, number)
        if meters and not rule.copies and dice.random() < 0.3 and _has_room(rule):
            rule.metering = dice.choice(meters)
        rule.text = rule_text(rule)
        round_.rules.append(rule)
        add(first)
        asked = [(one.header, condition) for one in all_asked for condition in one.item.conditions
                 if condition.name in HEADERS[one.header.kind][1]]
        for header, condition in dice.sample(asked, min(2, len(asked))):
            bit, bits = HEADERS[header.kind][1][condition.name]
            add(_flipped(first, 8 * header.at + bit + dice.randrange(bits)))
        _change(layers, dice)
        add(frame_of(layers, FIRST_LENGTH - 8))
    return round_


def _change(layers: list[Layer], dice: Dice) -> None:
    """Into others that are near: another value, two values that swap their places, a tag more or less,
    another protocol, a fragment or none."""
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


def expected(rules: Sequence[Rule], frame: bytes) -> list[Rule]:
    """Those of which one decides what becomes of the frame; none: the port's own filters do."""
    return best(rules, dissect(frame))
