# SPDX-License-Identifier: BSD-3-Clause
"""Rules and their items in testpmd's syntax."""

import ipaddress
import sys
from typing import Callable

from .flow_model import HEADERS, Item, Rule

_TEXT: dict[int, Callable[[int], str]] = {
    1: str,  # testpmd's booleans are no hexadecimal numbers
    48: lambda number: ":".join(f"{byte:02x}" for byte in number.to_bytes(6, "big")),
    128: lambda number: str(ipaddress.IPv6Address(number)),
}


def _text(kind: str, name: str, number: int) -> str:
    if (kind, name) in (("ipv4", "src"), ("ipv4", "dst")):
        return str(ipaddress.IPv4Address(number))
    bits = HEADERS[kind][1].get(name, (0, 1))[1]
    return _TEXT.get(bits, hex)(number)


def width(kind: str, name: str) -> int:
    return HEADERS[kind][1].get(name, (0, 1))[1]


def item_text(item: Item) -> str:
    words = [item.kind]
    for one in item.conditions:
        full = (1 << width(item.kind, one.name)) - 1
        shown = [_text(item.kind, one.name, number) for number in (one.spec, one.mask, one.last or 0)]
        if item.bare_spec:
            words.append(f"{one.name} spec {shown[0]}")
        elif one.last is None and one.mask == full:
            words.append(f"{one.name} is {shown[0]}")
        else:
            last = "" if one.last is None else f" {one.name} last {shown[2]}"
            words.append(f"{one.name} spec {shown[0]}{last} {one.name} mask {shown[1]}")
    return " ".join(words)


def modify_text(field: str, number: int, bits: int, level: int = 0) -> str:
    """For metadata, whose value testpmd takes as bytes in the CPU's order; `level`: a tag's index."""
    to = f"{field} dst_level {level}" if level else field
    value = number.to_bytes(bits // 8, sys.byteorder).hex()
    return f"modify_field op set dst_type {to} src_type value src_value {value} width {bits}"


def rule_text(rule: Rule) -> str:
    actions = [rule.copies.text()] if rule.copies else []
    if rule.metering:
        actions.append(rule.metering.text())
    if rule.count:
        actions.append("count")
    if rule.flag:
        actions.append("flag")
    if rule.mark is not None:
        actions.append(modify_text("mark", rule.mark, 24) if rule.modifies_mark else f"mark id {rule.mark}")
    if len(rule.queues) > 1:
        queues = " ".join(map(str, rule.queues))
        actions.append(f"rss types {rule.rss_types} end queues {queues} end")
    else:
        actions.append(f"queue index {rule.queues[0]}" if rule.queues else "drop")
    priority = f"priority {rule.priority} " if rule.priority else ""
    return (f"{priority}ingress pattern {' / '.join(map(item_text, rule.items))} / end"
            f" actions {' / '.join(actions)} / end")
