# SPDX-License-Identifier: BSD-3-Clause
"""Plays rounds of random rules and packets on a port, and compares the results with the model."""

import re
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Callable, Sequence

from scapy.layers.l2 import Ether

from .flow_model import HEADERS, Copies, Header, Metering, Rule, dissect
from .flow_random import LONGEST_LINE, Round, expected
from .flow_meters import COLORS, Meters
from .flow_reasons import Applies
from .flow_rules import arrived, engines_of, markers_for, turn_marks_on
from .flow_templates import TemplateRules, configure, fits
from .flow_text import modify_text
from .stack_base import StackBase
from .testpmd import ReceivedPacket

# Texts of refusals, and the rules for which they are legitimate.
Refusals = dict[str, Applies]

# Excuses for packets that a driver may treat differently, by the rules that take them.
Excuse = Callable[[Sequence[Rule], bytes], bool]


@dataclass
class FlowRun:
    """One port, its rules and the results observed."""

    stack: StackBase
    refusals: Refusals
    excuse: Excuse = lambda rules, frame: False
    validates: bool = True  # never refuses a rule that validation has accepted
    counts_lag: float = 0  # seconds by which its counters may lag
    counted: Callable[[Rule, bytes], int] = lambda rule, frame: len(frame)  # bytes of a packet
    detours: bool = False  # some rules only label packets, and others in group 1 act on them
    templates: bool = False  # some rules are created from templates
    taken: int = 0  # packets handled by a rule
    passed: int = 0  # packets that matched no rule
    open_: int = 0  # packets that several rules might handle
    rules: int = 0
    excused: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    counters: dict[int, int] = field(default_factory=dict)  # for each rule with a detour: the rule that counts
    from_templates: int = 0
    # By ratio: the number of packets that rules with copies took, and the number of copies.
    copied: dict[int, tuple[int, int]] = field(default_factory=dict)
    metered: Counter[tuple[str, bool]] = field(default_factory=Counter)  # packets, by color and whether dropped
    copies_seen: dict[int, list[int]] = field(default_factory=dict)  # by id of the rule: their lengths

    def __post_init__(self) -> None:
        self.tables = TemplateRules(self.stack)
        self.meters = Meters(self.stack)
        if self.templates:
            configure(self.stack)
        self.stack.testpmd.silent("set verbose 1")
        turn_marks_on(self.stack)
        self.stack.testpmd.start("rxonly")

    def play(self, round_: Round) -> list[Rule]:
        """Returns the rules that were accepted."""
        numbers = self._create(round_)
        rules = list(numbers.values())
        self._clear_colors(rules)
        sent = self._compare(round_, rules)
        self._compare_counts(round_, numbers, sent)
        self._compare_colors(round_, rules)
        if len(rules) % 3 == 0:  # with fewer rules: the remaining ones must still behave the same
            gone = list(numbers)[::2]
            for number in gone:
                self.stack.testpmd.destroy_flow(0, number)
            self._compare(round_, [rule for number, rule in numbers.items() if number not in gone])
        self.stack.testpmd.flush_flows(0)
        self.tables.clear()
        return rules

    def _fail(self, round_: Round, what: str) -> None:
        rules = "\n".join(f"  flow create 0 {rule.text}" for rule in round_.rules)
        raise AssertionError(f"seed {round_.seed}: {what}\nall rules of the round:\n{rules}")

    # -- rules ----------------------------------------------------------------------------------------

    def _create(self, round_: Round) -> dict[int, Rule]:
        """The created rules by number; requires a legitimate reason for each refused one."""
        by_template = [rule for rule in round_.rules[1::2] if self.templates and fits(rule)]
        rules = [rule for rule in round_.rules if not any(rule is other for other in by_template)]
        self.stack.testpmd.silent(*(rule.copies.command() for rule in rules if rule.copies))
        ways = [self._detour(rule, number) for number, rule in enumerate(rules)]
        texts = [text for text, _ in ways]
        validated, *answers = self.stack.testpmd.answers(
            [f"flow validate 0 {texts[0]}", *(f"flow create 0 {text}" for text in texts)])
        if self.validates and validated.strip() != answers[0].strip() and not (
                "validated" in validated and "created" in answers[0]):
            self._fail(round_, f"validate says {validated!r}, create {answers[0]!r}:\n  {texts[0]}")
        created: dict[int, Rule] = {}
        for rule in by_template:
            rules.append(rule)
            ways.append((rule.text, None))
            answers.append(self.tables.create(rule))
        for rule, (_, counter), answer in zip(rules, ways, answers):
            if found := re.search(r"Flow rule #(\d+) creat(ed|ion enqueued)", answer):
                self.from_templates += found[2] != "ed"
                created[int(found[1])] = rule
                self.counters[int(found[1])] = int(found[1]) if counter is None else counter
                continue
            reason = next((reason for reason, applies in self.refusals.items()
                           if re.search(reason, answer) and applies(rule, list(created.values()))), None)
            if reason is None:
                self._fail(round_, f"refused without need: {answer.strip()}\n  {rule.text}")
            else:
                self.refused[reason] = self.refused.get(reason, 0) + 1
        self.rules += len(created)
        return created

    def _detour(self, rule: Rule, number: int) -> tuple[str, int | None]:
        """The rule split in two, linked by a tag, metadata or a mark, and the number of the one that counts."""
        matches, actions = rule.text.split(" actions ")
        data, index = number + 1, number % 7
        # Otherwise it, or its copy, would arrive with the other mark.
        marks = (rule.mark is not None or rule.flag or not rule.queues) and (
            rule.copies is None or rule.copies.mark is not None)
        if not self.detours or len(rule.queues) > 1 or index == 6 or (index == 5 and not marks):
            return rule.text, None
        said, asked = f"set_meta data {data} mask 0xffffffff", f"meta data is {data}"
        if index < 4:
            said, asked = (f"set_tag data {data} mask 0xffffffff index {index}",
                           f"tag data is {data} index is {index}")
        elif index == 5:
            said, asked = f"mark id {data}", f"mark id is {data}"
        if len(rule.text) % 2 and len(matches) < LONGEST_LINE - 150:
            said = modify_text("mark", data, 24) if index == 5 else modify_text(
                "tag" if index < 4 else "meta", data, 32, index % 4)
        counter = self.stack.testpmd.create_flow(
            0, f"group 1 ingress pattern {asked} / end actions {actions}")
        return f"{matches} actions {said} / jump group 1 / end", counter

    # -- packets --------------------------------------------------------------------------------------

    def _outcomes(self, round_: Round, rules: Sequence[Rule]) -> list[tuple[bytes, list[Rule]]]:
        """The frames to be sent, each with the rules that may apply to it."""
        return [(frame, expected(rules, frame)) for frame in round_.frames]

    def _exchange(self, frames: Sequence[bytes], markers: Sequence[bytes]) -> list[ReceivedPacket]:
        return arrived(self.stack, frames, markers)

    def _compare(self, round_: Round, rules: Sequence[Rule]) -> list[bytes]:
        """Returns the frames sent."""
        outcomes = self._outcomes(round_, rules)
        frames = [frame for frame, _ in outcomes]
        markers = markers_for(2 * len(frames))  # each packet may have a copy
        by_length: dict[int, list[ReceivedPacket]] = {}
        for packet in self._exchange(frames, markers):
            by_length.setdefault(packet.length, []).append(packet)
        self.copies_seen = {}
        for frame, may in outcomes:
            got = by_length.pop(len(frame), [])
            self.open_ += len(may) > 1
            self.taken += bool(may)
            self.passed += not may
            if any(_agrees(rule, got) for rule in may) if may else _untouched(got):
                if len(may) == 1:
                    self._note_copies(may[0], frame, got)
                continue
            if self.excuse(rules, frame):
                self.excused += 1
                continue
            wanted = "\n".join(f"  {rule.text}" for rule in may) or "  none of the rules"
            self._fail(round_, f"this packet, {_seen(got)}:\n  {Ether(frame).summary()}\n  {frame.hex()}\n"
                               f"  {' / '.join(header.kind for header in dissect(frame))}\n"
                               f"should have been taken by\n{wanted}")
        if by_length:
            self._fail(round_, f"packets of unknown lengths came: {by_length}")
        return [*frames, *markers]

    def _note_copies(self, rule: Rule, frame: bytes, got: Sequence[ReceivedPacket]) -> None:
        if rule.copies:
            copies = len(got) - bool(rule.queues)
            packets, copied = self.copied.get(rule.copies.ratio, (0, 0))
            self.copied[rule.copies.ratio] = packets + 1, copied + copies
            self.copies_seen.setdefault(id(rule), []).extend([len(frame)] * copies)

    def _compare_counts(self, round_: Round, numbers: dict[int, Rule], sent: Sequence[bytes]) -> None:
        rules = list(numbers.values())
        decided = [(frame, expected(rules, frame)) for frame in sent]
        counting = {number: rule for number, rule in numbers.items()
                    if rule.count or (rule.copies and rule.copies.count)}
        self._expect(round_, lambda: self._wrong_count(rules, counting, decided))

    def _expect(self, round_: Round, wrong: Callable[[], str | None]) -> None:
        """Requires the driver's counters to be right within `counts_lag`."""
        deadline = time.monotonic() + self.counts_lag
        while (what := wrong()) and time.monotonic() < deadline:
            time.sleep(0.1)
        if what:
            self._fail(round_, what)

    def _reaches_counter(self, rule: Rule, frame: bytes) -> bool:
        """Whether the rule counts this frame, which it takes: actions are performed in the order of the list."""
        return not (rule.metering and rule.metering.drops and counts_behind(rule.text))

    def _wrong_count(self, rules: Sequence[Rule], counting: dict[int, Rule],
                     decided: Sequence[tuple[bytes, Sequence[Rule]]]) -> str | None:
        answers = self.stack.testpmd.answers(
            [f"flow query 0 {self.counters[number]} count" for number in counting])
        for rule, answer in zip(counting.values(), answers):
            found = re.search(r"hits: (\d+)\n *bytes: (\d+)", answer)
            sure = [self.counted(rule, frame) for frame, may in decided
                    if may == [rule] and not self.excuse(rules, frame) and self._reaches_counter(rule, frame)]
            most = [self.counted(rule, frame) for frame, may in decided
                    if (rule in may or self.excuse(rules, frame)) and self._reaches_counter(rule, frame)]
            if not rule.count:  # its copies are counted
                seen = self.copies_seen.get(id(rule), [])
                sure, most = seen, seen + [length for length in most if length not in sure]
            if not found or not len(sure) <= int(found[1]) <= len(most) or (
                    not sum(sure) <= int(found[2]) <= sum(most)):
                return (f"counted {answer.strip()!r}, instead of {len(sure)} … {len(most)} packets and "
                        f"{sum(sure)} … {sum(most)} bytes:\n  {rule.text}")
        return None

    def _clear_colors(self, rules: Sequence[Rule]) -> None:
        for each in _meters_of(rules):
            self.meters.packets(each.meter, clear="yes")

    def _compare_colors(self, round_: Round, rules: Sequence[Rule]) -> None:
        """Requires everything that a meter's rules took to have the meter's single color."""
        decided = [{rule.metering for rule in expected(rules, frame)} for frame in round_.frames]
        for each in _meters_of(rules):
            sure, most = decided.count({each}), sum(each in may for may in decided)
            counts = dict(zip(COLORS, self.meters.packets(each.meter)))
            told = "DROPPED" if each.drops else each.color
            number = counts[told]
            if not sure <= number <= most or sum(counts.values()) != number:
                self._fail(round_, f"{each} says {counts}, instead of {sure} … {most} packets of its color")
            self.metered[each.color, each.drops] += sure


REST = 2000  # the priority of a group's catch-all rule


def grouped(round_: Round) -> Round:
    """The round, with its rules in group 1."""
    for rule in round_.rules:
        rule.group = 1
        rule.text = f"group 1 {rule.text}"
    return round_


def with_zeros(headers: Sequence[Header]) -> list[Header]:
    """The headers of a later fragment, with zeros for the one that it lacks."""
    return [header if header.data else replace(header, data=bytes(HEADERS[header.kind][0])) for header in headers]


def of_zero_ports(rules: Sequence[Rule], frame: bytes) -> bool:
    """An excuse: entries of software steering see the ports of a later fragment as zero, which a rule may match."""
    headers = dissect(frame)
    return any(rule.takes(with_zeros(headers)) and not rule.takes(headers) for rule in rules if rule.group > 0)


@dataclass
class GroupRun(FlowRun):
    """Runs of rules in group 1, to which all packets go."""

    divides: bool = False  # in every other round, by a rule that passes all packets on
    served: Counter[str] = field(default_factory=Counter)  # the device's rules in the group, by engine

    def _create(self, round_: Round) -> dict[int, Rule]:
        created = super()._create(round_)
        self.served += engines_of(self.stack, group=1)
        return created

    def play(self, round_: Round) -> list[Rule]:
        self.stack.testpmd.create_flow(0, "ingress pattern eth / end actions jump group 1 / end")
        number = int(round_.seed.rpartition("-")[2])
        if self.divides and number % 2 == 0:
            self._pass_on(round_, number // 2)
        self.stack.testpmd.create_flow(
            0, f"group 1 priority {REST} ingress pattern eth / end actions queue index 0 / end")
        return super().play(round_)

    def _pass_on(self, round_: Round, number: int) -> None:
        """Divides the rules: those of lower priority are in another table of the device."""
        used = {rule.priority for rule in round_.rules}
        free = [priority + 1 for priority in sorted(used) if priority + 1 not in used]
        self.stack.testpmd.create_flow(
            0, f"group 1 priority {free[number % len(free)]} ingress pattern eth / end"
               " actions count / passthru / end")


def counts_behind(text: str) -> bool:
    """Whether the rule counts what its meter lets pass."""
    return re.search(r" meter mtr_id \d+ / count ", text) is not None


def _meters_of(rules: Sequence[Rule]) -> set[Metering]:
    return {rule.metering for rule in rules if rule.metering}


def _untouched(packets: Sequence[ReceivedPacket]) -> bool:
    return [(packet.mark, _flagged(packet)) for packet in packets] == [(None, False)]


def _flagged(packet: ReceivedPacket) -> bool:
    return "RTE_MBUF_F_RX_FDIR" in packet.flags


def _agrees(rule: Rule, packets: Sequence[ReceivedPacket]) -> bool:
    """Whether these are the result of the rule for a packet, including the copy if every packet has one."""
    if not rule.copies:
        return _decided(rule, packets)
    without_copy = rule.copies.ratio > 1 and _decided(rule, packets)
    return without_copy or any(
        _is_copy(rule.copies, packet) and _decided(rule, [*packets[:at], *packets[at + 1 :]])
        for at, packet in enumerate(packets))


def _is_copy(copies: Copies, packet: ReceivedPacket) -> bool:
    return (packet.queue, packet.mark, _flagged(packet)) == (copies.queue, copies.mark, copies.mark is not None)


def _decided(rule: Rule, packets: Sequence[ReceivedPacket]) -> bool:
    """Whether these are the result of the rule for a packet, apart from its copy."""
    if not rule.passes:
        return not packets
    return len(packets) == 1 and packets[0].queue in rule.queues and packets[0].mark == rule.mark and (
        _flagged(packets[0]) == (rule.flag or rule.mark is not None))


def _seen(packets: Sequence[ReceivedPacket]) -> str:
    ways = [f"to queue {packet.queue} with mark {packet.mark}{' and the flag' if _flagged(packet) else ''}"
            for packet in packets]
    return f"which came {' and '.join(ways)}" if ways else "which did not arrive"
