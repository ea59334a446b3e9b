# SPDX-License-Identifier: BSD-3-Clause
"""Random rules of either direction on a port that sends what it receives: they drop, count and age, give
VLAN tags another number, take them off and put others on. What comes out is compared byte by byte with the
model."""

import random
import re
import time
from dataclasses import dataclass
from typing import Sequence

from .flow_model import Rule, dissect
from .flow_random import Round, expected
from .flow_runs import FlowRun
from .flow_templates import TemplateRules
from .packets import marker
from .wire import padded

# testpmd tells nothing of aged rules in the midst of other answers.
ARGUMENTS = ["--mask-event", "flow_aged"]
_PATIENCE = 20
_LAST = bytes(marker())
_SOON, _LATE = 1, 1000  # timeouts of ages, in seconds: those that are waited for, and others
_MOST_PRIORITY = 15  # of an egress rule
_LONGEST_EDITED = 350  # in testpmd's words: it reads 512 characters, of which edits take 150


def _of_one_customer_tag(rule: Rule) -> bool:
    """Whether all that the rule takes has an outer tag of 802.1Q, by an item of its own."""
    items = [item for item in rule.items if item.kind != "void"]
    kinds = [item.kind for item in items]
    if kinds.count("vlan") != 1 or kinds.index("vlan") > 1:
        return False
    return all(item.on("type") is None for item in items if item.kind == "eth")


def forwarded(round_: Round, tags: bool = True) -> Round:
    """The round, with rules for what is forwarded. With `tags`, they come off and go on."""
    dice = random.Random(round_.seed)
    egress = dice.random() < 0.5
    for rule in round_.rules:
        rule.egress, rule.mark, rule.flag, rule.rss_types = egress, None, False, ""
        rule.age = dice.choice([None, None, _SOON, _LATE])
        tag = dice.choice([0x8100, 0x88A8]), dice.randrange(8), dice.randrange(1 << 12)
        pushes, pops, numbers = dice.random() < 0.4, dice.random() < 0.5, dice.random() < 0.8
        edits = tags and len(rule.text) <= _LONGEST_EDITED
        if rule.takes(dissect(_LAST)) or rule.queues:
            rule.queues = (0,)
        if rule.queues and not rule.takes(dissect(_LAST)):
            rule.push_vlan = tag if pushes and edits else None
            if _of_one_customer_tag(rule):
                rule.pop_vlan = pops and edits
                rule.vlan_id = tag[2] ^ 1 if numbers and not rule.pop_vlan else None
        rule.count = rule.count or (egress and rule.age is None)  # something it has to do
        if egress:
            rule.priority = min(rule.priority, _MOST_PRIORITY)
    return round_


def outcome(rule: Rule, frame: bytes) -> bytes | None:
    """What becomes of a frame that the rule takes."""
    if not rule.queues:
        return None
    rest = frame[16 if rule.pop_vlan else 12:]
    if rule.vlan_id is not None:
        rest = rest[:2] + (rest[2] >> 4 << 12 | rule.vlan_id).to_bytes(2, "big") + rest[4:]
    if rule.push_vlan is not None:
        kind, priority, number = rule.push_vlan
        rest = (kind << 16 | priority << 13 | number).to_bytes(4, "big") + rest
    return frame[:12] + rest


@dataclass
class ForwardRun(FlowRun):
    """A port with one queue: packets keep their order."""

    groups: bool = True  # some rules have others of group 1 change tags
    edited: int = 0  # packets whose tags a rule has changed
    aged: int = 0  # rules of which the application was told

    def __post_init__(self) -> None:
        self.tables = TemplateRules(self.stack)
        self.stack.testpmd.start("io", lossless=True)

    def _detour(self, rule: Rule, number: int) -> tuple[str, int | None]:
        direction = "egress" if rule.egress else "ingress"
        matches = "pattern " + rule.text.split(" actions ")[0].split(" pattern ")[1]
        does = ["count"] if rule.count else []
        does += [f"age timeout {rule.age}"] if rule.age is not None else []
        fate = [] if rule.egress else ["queue index 0"]
        fate = fate if rule.queues else ["drop"]
        edits = ["of_pop_vlan"] if rule.pop_vlan else []
        if rule.vlan_id is not None:
            edits.append(f"of_set_vlan_vid vlan_vid {rule.vlan_id}")
        if rule.push_vlan is not None:
            kind, priority, vid = rule.push_vlan
            edits += [f"of_push_vlan ethertype {kind:#x}", f"of_set_vlan_vid vlan_vid {vid}",
                      f"of_set_vlan_pcp vlan_pcp {priority}"]
        if edits and self.groups and number % 2 == 0:
            data, index = number + 1, number // 2 % 5
            vlan = "vlan / " if rule.pop_vlan or rule.vlan_id is not None else ""
            self.stack.testpmd.create_flow(
                0, f"group 1 {direction} pattern tag data is {data} index is {index} / eth / {vlan}end"
                   f" actions {' / '.join([*edits, *fate])} / end")
            edits, fate = [], [f"set_tag data {data} mask 0xffffffff index {index}", "jump group 1"]
        rule.text = (f"priority {rule.priority} {direction} {matches} actions"
                     f" {' / '.join([*does, *edits, *fate])} / end")
        return rule.text, None

    def _compare(self, round_: Round, rules: Sequence[Rule]) -> list[bytes]:
        wire = self.stack.wires[0]
        frames = [frame for frame in round_.frames if not self.excuse(rules, frame)]
        self.excused += len(round_.frames) - len(frames)
        wire.send_all([*frames, _LAST])
        came: list[bytes] = []
        while (frame := wire.receive()) != padded(_LAST):
            came.append(frame)
        for frame in frames:
            may = expected(rules, frame)
            self.open_ += len(may) > 1
            self.taken += bool(may)
            self.passed += not may
            ways = [outcome(rule, frame) for rule in may] or [frame]
            if came and came[0] in ways:
                self.edited += came.pop(0) != frame
            elif None not in ways:
                wanted = "\n".join(f"  {rule.text}" for rule in may) or "  none of the rules"
                self._fail(round_, f"this packet:\n  {frame.hex()}\ntaken by\n{wanted}\nand then\n  "
                                   f"{came[0].hex() if came else 'nothing'}\ncame out")
        if came:
            self._fail(round_, f"this came out as well: {came[0].hex()}")
        return [_LAST]

    def _compare_counts(self, round_: Round, numbers: dict[int, Rule], sent: Sequence[bytes]) -> None:
        super()._compare_counts(round_, numbers, sent)
        if not self.aged:  # it takes a second
            self._compare_ages(round_, {number for number, rule in numbers.items()
                                        if rule.age == _SOON})

    def _compare_ages(self, round_: Round, idle: set[int]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while (told := self._told()) != idle and time.monotonic() < deadline:
            time.sleep(0.1)
        if told != idle:
            self._fail(round_, f"rules {told} have aged, instead of {idle}")
        self.aged += len(idle)

    def _told(self) -> set[int]:
        answer = self.stack.testpmd.expect("flow aged 0", r"total aged flows: \d+").string
        return {int(number) for number in re.findall(r"Flow\s+(\d+)", answer)}
