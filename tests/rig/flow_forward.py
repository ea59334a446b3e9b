# SPDX-License-Identifier: BSD-3-Clause
"""Random rules of either direction on a port that sends what it receives: they drop, count and age, and
change headers, tags and tunnels, some of them in a group. The output is compared byte by byte with the
model."""

import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Sequence

from .flow_edits import TUNNEL_COMMANDS, Decap, changed_headers, random_edits, with_any_checksums
from .flow_meters import Meters
from .flow_model import Condition, Item, Rule, dissect
from .flow_random import LONGEST_LINE, Round, expected
from .flow_runs import REST, FlowRun
from .flow_templates import TemplateRules
from .flow_text import item_text, modify_text
from .packets import marker
from .wire import padded

# Keeps testpmd from reporting aged rules in the middle of other answers.
ARGUMENTS = ["--mask-event", "flow_aged"]
_PATIENCE = 20
_LAST = bytes(marker())
_SOON, _LATE = 1, 1000  # timeouts of ages, in seconds: those that the test waits for, and others
_MOST_PRIORITY = 15  # of an egress rule
_FULL = (1 << 32) - 1


def _ask_metadata(rule: Rule, dice: random.Random) -> None:
    """Matches the metadata sent with a packet, or a value that differs in one bit."""
    mask = dice.choice([_FULL, dice.randrange(1, _FULL)])
    wrong = 1 << dice.randrange(32) if dice.random() < 0.3 else 0
    asked = Item("meta", (Condition("data", rule.metadata ^ wrong, mask),))
    rule.text = rule.text.replace("pattern ", f"pattern {item_text(asked)} / ", 1)
    rule.items = [asked, *rule.items]


def forwarded(round_: Round, common: bool = False) -> Round:
    """The round, with rules for forwarded packets, of one group and direction. `common`: only changes that both
    drivers support, and no metadata."""
    dice = random.Random(round_.seed)
    egress, group, metadata = dice.random() < 0.5, dice.randrange(2), dice.randrange(1, _FULL)
    for rule in round_.rules:
        rule.egress, rule.group, rule.mark, rule.flag, rule.rss_types = egress, group, None, False, ""
        rule.age = dice.choice([None, None, _SOON, _LATE])
        if egress and not common:
            rule.metadata = metadata
            if dice.random() < 0.3 and len(rule.text) < LONGEST_LINE - 60:
                _ask_metadata(rule, dice)
        takes_last = rule.takes(dissect(_LAST))
        if takes_last or rule.queues:
            rule.queues = (0,)
        if rule.queues and not takes_last:
            rule.edits = random_edits(rule, dice, common)
        if egress:
            rule.priority = min(rule.priority, _MOST_PRIORITY)
        rule.count = rule.count or (egress and rule.age is None)  # it needs some action
        if len(_text(rule)) > LONGEST_LINE:
            rule.edits = ()
    frames = [with_any_checksums(frame, dice) if dice.random() < 0.8 else frame for frame in round_.frames]
    return Round(round_.seed, round_.rules, frames)


def _fate(rule: Rule) -> list[str]:
    if not rule.queues:
        return ["drop"]
    return [] if rule.egress else ["queue index 0"]


def _direction(egress: bool) -> str:
    return "egress" if egress else "ingress"


def _text(rule: Rule, instead: Sequence[str] = ()) -> str:
    """The rule's text; `instead` replaces its own edits and fate."""
    matches = "pattern " + rule.text.split(" actions ")[0].split("pattern ")[1]
    does = [rule.metering.text()] if rule.metering else []
    does += ["count"] if rule.count else []
    does += [f"age timeout {rule.age}"] if rule.age is not None else []
    does += instead or [*(edit.text() for edit in rule.edits), *_fate(rule)]
    return (f"group {rule.group} priority {rule.priority} {_direction(rule.egress)} {matches}"
            f" actions {' / '.join(does)} / end")


def _between_groups(data: int, way: int, modifies: bool) -> tuple[str, str]:
    """How a rule labels its packets, and how another one matches that: by a tag, or by metadata."""
    if way % 3 == 0:
        said = modify_text("meta", data, 32) if modifies else f"set_meta data {data} mask {_FULL:#x}"
        return said, f"meta data is {data}"
    index = way % 4
    said = modify_text("tag", data, 32, index) if modifies else f"set_tag data {data} mask {_FULL:#x} index {index}"
    return said, f"tag data is {data} index is {index}"


def outcome(rule: Rule, frame: bytes) -> bytes | None:
    """The result for a frame that matches the rule; None: dropped."""
    if not rule.passes:
        return None
    for edit in rule.edits:
        frame = edit.of(frame)
    return frame


@dataclass
class ForwardRun(FlowRun):
    """A port with one queue: packets keep their order."""

    edited: Counter[type] = field(default_factory=Counter)  # packets changed by a rule, by kind of edit
    edited_inside: int = 0  # packets that were decapsulated and then had a field changed
    metadata: bool = False  # sent with packets
    aged: int = 0  # rules reported to the application

    def __post_init__(self) -> None:
        self.tables, self.meters = TemplateRules(self.stack), Meters(self.stack)
        self.stack.testpmd.silent(*TUNNEL_COMMANDS)
        if self.metadata:  # the port sends metadata from its next start on
            self.stack.testpmd.silent("port config 0 tx_metadata 1")
            self.stack.testpmd.stop_port(0)
            self.stack.testpmd.start_port(0)
        self.stack.testpmd.start("io", lossless=True)

    def play(self, round_: Round) -> list[Rule]:
        egress, group = round_.rules[0].egress, round_.rules[0].group
        if self.metadata and egress:
            self.stack.testpmd.silent(f"port config 0 tx_metadata {round_.rules[0].metadata}")
        if group:  # all packets go there, and those that match no rule continue
            self.stack.testpmd.create_flow(
                0, f"{_direction(egress)} pattern eth / end actions jump group {group} / end")
            if not egress:
                self.stack.testpmd.create_flow(
                    0, f"group {group} priority {REST} ingress pattern eth / end"
                       " actions queue index 0 / end")
        return super().play(round_)

    def _detour(self, rule: Rule, number: int) -> tuple[str, int | None]:
        instead: list[str] = []
        if rule.edits and self.detours and number % 2 == 0:
            modifies = len(rule.text) % 2 == 0 and len(_text(rule, [""])) < LONGEST_LINE - 120
            said, asked = _between_groups(number + 1, number // 2 + len(rule.text), modifies)
            does = [*(edit.text() for edit in rule.edits), *_fate(rule)]
            self.stack.testpmd.create_flow(
                0, f"group {rule.group + 1} {_direction(rule.egress)} pattern {asked}"
                   f" / {' / '.join(changed_headers(rule))} / end actions {' / '.join(does)} / end")
            instead = [said, f"jump group {rule.group + 1}"]
        rule.text = _text(rule, instead)
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
            ways = {outcome(rule, frame): rule for rule in may} or {frame: Rule([])}
            if came and came[0] in ways:
                kinds = [type(edit) for edit in ways[came.pop(0)].edits]
                self.edited.update(kinds)
                self.edited_inside += Decap in kinds and len(kinds) > 1
            elif None not in ways:
                wanted = "\n".join(f"  {rule.text}" for rule in may) or "  none of the rules"
                self._fail(round_, f"this packet:\n  {frame.hex()}\ntaken by\n{wanted}\nand then\n  "
                                   f"{came[0].hex() if came else 'nothing'}\ncame out")
        if came:
            self._fail(round_, f"this came out as well: {came[0].hex()}")
        return [*frames, _LAST]

    def _compare_counts(self, round_: Round, numbers: dict[int, Rule], sent: Sequence[bytes]) -> None:
        super()._compare_counts(round_, numbers, sent)
        if not self.aged:  # ageing takes a second
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
