# SPDX-License-Identifier: BSD-3-Clause
"""Random rte_flow rules, and packets that match them or nearly match them. The same seed produces the
same rules."""

from dataclasses import dataclass, replace
from typing import Sequence

from .flow_frames import TYPE, Dice, Layer, Words, change, flipped, frame_of, ordinary, random_layers
from .flow_model import (DEFAULT_MASKS, FLAGS, HEADERS, TUNNELS, Condition, Copies, Header, Item, Metering, Rule,
                         best, dissect)
from .flow_text import rule_text, width
from .packets import marker

QUEUES = 4
LONGEST_LINE = 480  # testpmd reads 512 characters
# What other drivers do not match.
UNLIKE = {("mpls", "tc"), ("mpls", "s"), ("ipv4", "version_ihl"), ("gre", "c_bit"), ("gre", "k_bit"), ("gre", "s_bit"),
          ("geneve", "optlen"), ("gtp", "v_pt_rsv_flags")}
COPY_MARK = 1000  # marks of copies, from here on


def _condition(kind: str, name: str, number: int, dice: Dice) -> Condition:
    """A condition that holds for `number`."""
    bits = width(kind, name)
    full = (1 << bits) - 1
    way = dice.random()
    is_type = (kind, name) in (("eth", "type"), ("vlan", "inner_type"))
    if way < 0.55 or is_type or (dice.plain and name in ("proto", "protocol")):
        return Condition(name, number, full)
    of_one_field = name in ("pcp", "dei", "vid") or kind == "mpls"  # of rte_flow
    if way < 0.9 or bits > 16 or dice.plain or of_one_field:
        mask = full << dice.randrange(bits) & full if dice.random() < 0.4 else 0
        while not mask:
            mask = dice.getrandbits(bits)
        # Bits outside the mask are ignored.
        return Condition(name, number & mask | dice.getrandbits(bits) & ~mask & full, mask)
    first = max(0, number - dice.randrange(4))
    return Condition(name, first, full, min(full, number + dice.randrange(4)))


def _names(kind: str, dice: Dice) -> list[str]:
    names = [name for name in HEADERS[kind][1]
             if name != "fragment_offset" and not (dice.plain and (kind, name) in UNLIKE)
             and dice.asks(kind, name, 0.35)]
    if "tci" in names:  # the whole tag, or parts of it
        return [name for name in names if name in ("tci", "inner_type")]
    return names


def _fragment_condition(header: Header, dice: Dice) -> list[Condition]:
    """Matches fragments, or unfragmented packets, in the forms given by the driver's guide."""
    if not dice.asks(header.kind, "has_frag_ext" if header.kind == "ipv6" else "fragment_offset", 0.15):
        return []
    if header.kind == "ipv6":
        return [Condition("has_frag_ext", int(header.fragment), 1)]
    if header.get(50, 14):
        return [Condition("fragment_offset", 1, 0x3FFF, 0x3FFF)]
    return [Condition("fragment_offset", 0, 0x3FFF)]


@dataclass
class Asked:
    """An item and the header of the packet that it was made from."""

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
                                (1 << width(header.kind, name)) - 1) for name in sorted(names)]
    return Asked(Item(header.kind, tuple(conditions), bare), header)


def _without(asked: Asked, *names: str) -> Asked:
    conditions = tuple(one for one in asked.item.conditions if one.name not in names)
    return replace(asked, item=replace(asked.item, conditions=conditions))


def _with(asked: Asked, condition: Condition) -> Asked:
    asked = _without(asked, condition.name)
    conditions = (*asked.item.conditions, condition)
    return replace(asked, item=replace(asked.item, conditions=conditions, bare_spec=False))


def _ask_tags(all_asked: list[Asked], headers: Sequence[Header], dice: Dice) -> list[Asked]:
    """Chooses which of the outermost tags the items match, and how."""
    tags = sum(header.kind == "vlan" for header in headers)
    there = min(tags, len(all_asked) - 1)
    named = dice.randrange(there + 1)
    kept = all_asked[: 1 + named] + all_asked[1 + there :]
    for at in range(1 + named):
        before = kept[at]
        name = "type" if at == 0 else "inner_type"
        of_tags = before.header.get(96 if at == 0 else 16, 16)
        if at < named:
            # An 802.1ad tag must be matched explicitly, except as the outer one of two.
            service = of_tags == 0x88A8 and at + 1 == named
            kept[at] = (_with(before, Condition(name, of_tags, 0xFFFF)) if service
                        else _without(before, name))
        elif tags > named:  # means the type after all tags
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
    # Ethernet items may be omitted: the outermost, and where nothing else is possible.
    for at in range(len(all_asked) - 2, -1, -1):
        item = all_asked[at].item
        clear = at == 0 or all_asked[at - 1].item.kind in ("vxlan", "nvgre")
        if item == Item("eth") and clear and dice.random() < 0.3:
            del all_asked[at]
    return all_asked


def random_rule(dice: Dice, frame: bytes) -> tuple[Rule, list[Asked]]:
    """A rule without actions that matches the frame."""
    while True:
        all_asked = _random_items(frame, dice)
        items = [asked.item for asked in all_asked]
        if dice.random() < 0.05:
            items.insert(dice.randrange(len(items) + 1), Item("void"))
        if dice.random() < 0.05 and not dice.plain:
            items.append(Item("any"))
        rule = Rule(items)
        if not any(item.conditions for item in items) and dice.random() < 0.8:
            continue  # it would match almost everything
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
        rule.modifies_mark = dice.random() < 0.3 and not dice.plain and len(rule_text(rule)) < LONGEST_LINE - 100


def _has_room(rule: Rule) -> bool:
    """Whether one more action fits on the line, and the rule does not take the markers that tests wait for."""
    return len(rule_text(rule)) < LONGEST_LINE - 30 and not rule.takes(dissect(marker()))


def _set_copies(rule: Rule, dice: Dice, number: int) -> None:
    if dice.random() > 0.3 or not _has_room(rule):
        return
    counts = dice.random() < 0.5 and not rule.count  # the rule's own count would take the counter
    mark = COPY_MARK + number if dice.random() < 0.8 else None
    rule.copies = Copies(number % 10, dice.choice([1, 1, 2, 3]), dice.randrange(QUEUES), mark, counts)


@dataclass
class Round:
    """Rules that are installed together, and frames, which differ in length."""

    seed: str
    rules: list[Rule]
    frames: list[bytes]


FIRST_LENGTH = 260  # longer than all headers together


def _layers_often_with(kind: str, dice: Dice) -> list[Layer]:
    """With such a header in at least three of ten cases; purely random if none is named."""
    layers = random_layers(dice)
    if kind and dice.random() < 0.3:
        while not any(layer.kind == kind for layer in layers):
            layers = random_layers(dice)
    return layers


def random_round(seed: str, rules: int, words: Words, counting: bool, plain: bool = False,
                 sampling: bool = False, meters: Sequence[Metering] = (), often: str = "") -> Round:
    """`meters`: that rules may use. `often`: a header that packets contain more often than others."""
    dice = Dice(seed, words, plain)
    priorities = dice.choice([[0], [0, 1], [0, 1, 2], [0, 1, 2] if plain else [0, 5, 1000]])
    round_ = Round(seed, [], [])

    def add(frame: bytes) -> None:
        # Has a unique length, by which it is recognized.
        frame += bytes(FIRST_LENGTH + len(round_.frames) - len(frame))
        if ordinary(frame):
            round_.frames.append(frame)

    for number in range(rules):
        layers = _layers_often_with(often, dice)
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
            add(flipped(first, 8 * header.at + bit + dice.randrange(bits)))
        change(layers, dice)
        add(frame_of(layers, FIRST_LENGTH - 8))
    return round_


def expected(rules: Sequence[Rule], frame: bytes) -> list[Rule]:
    """The rules, one of which applies to the frame; if there are none, the port's own filters do."""
    return best(rules, dissect(frame))
