# SPDX-License-Identifier: BSD-3-Clause
"""Random rules that run meters, with random profiles and policies, against a model of the RFCs' buckets: each
packet of a burst gets the color that the packets before it have left. Rates are the lowest possible, so that no
relevant number of tokens arrives during a burst."""

import random
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Sequence

from .flow_meters import COLORS
from .flow_model import Metering, Rule, dissect
from .flow_random import LONGEST_LINE, QUEUES, Round, expected
from .flow_runs import GroupRun, counts_behind
from .flow_text import rule_text
from .packets import marker
from .testpmd import ReceivedPacket

METERS = 3  # per round
_DROPS_RED = METERS + 1  # the policy; net_mlx5 has only this one
_PASSES = 4  # copies of each frame, in any order
SRTCM, TRTCM, TRTCM_4115 = ALGORITHMS = ("srtcm_rfc2697", "trtcm_rfc2698", "trtcm_rfc4115")
# Seconds of a burst, in which a bucket gains neither a byte nor a packet. Of the device's possible rates, net_rawqp
# uses 0.93 for one byte per second, and 0.997 for one packet; net_mlx5 1.86, which it rounds down to 1, and 1.004.
_LONGEST = 0.5
_TRIES = 20


@dataclass(frozen=True)
class Profile:
    algorithm: str
    packets: bool  # counts packets rather than bytes
    committed: int
    excess: int  # the peak burst's, for RFC 2698

    @property
    def words(self) -> str:
        rates = "1" if self.algorithm == SRTCM else "1 1"
        return f"{self.algorithm} {rates} {self.committed} {self.excess} {int(self.packets)}"


def _random_profile(dice: random.Random) -> Profile:
    """With sizes that both drivers can express exactly: 8 bits, the first of which must be set for net_mlx5."""
    algorithm, packets = dice.choice(ALGORITHMS), dice.random() < 0.5
    sizes = [dice.randrange(1, 6) if packets else dice.randrange(128, 256) << dice.randrange(3) for _ in range(2)]
    if algorithm == TRTCM:  # the peak bucket holds more
        sizes.sort()
    elif dice.random() < 0.3:
        sizes[1] = 0
    return Profile(algorithm, packets, *sizes)


class Buckets:
    """A meter's buckets, which start full and are never refilled."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.committed, self.excess = profile.committed, profile.excess

    def color(self, frame: bytes) -> str:
        """The color of the packet, which takes tokens from the buckets."""
        takes = 1 if self.profile.packets else _ip_bytes(frame)
        both = self.profile.algorithm == TRTCM
        if both and takes > self.excess:
            return "R"
        if takes <= self.committed:
            self.committed -= takes
            self.excess -= takes if both else 0
            return "G"
        if takes > self.excess:
            return "R"
        self.excess -= takes
        return "Y"


def _ip_bytes(frame: bytes) -> int:
    """The length in the outer IP header; for other packets, the bytes after the L2 header."""
    headers = dissect(frame)
    l2 = [*takewhile(lambda header: header.kind in ("eth", "vlan"), headers)]
    if len(l2) < len(headers):
        match (header := headers[len(l2)]).kind:
            case "ipv4":
                return header.get(16, 16)
            case "ipv6":
                return 40 + header.get(32, 16)
    return len(frame) - l2[-1].at - len(l2[-1].data)


@dataclass(frozen=True)
class RandomMeter:
    number: int
    profile: Profile
    later: Profile  # replaces it while its rules are installed
    queue: int | None  # the same for all its rules: then yellow packets are dropped, too

    @property
    def drops(self) -> str:
        return "R" if self.queue is None else "YR"


@dataclass
class MeteredRound(Round):
    meters: list[RandomMeter] = field(default_factory=list)


def metered(round_: Round) -> MeteredRound:
    """The round, with meters, and with several copies of each frame, all of different lengths, in any order."""
    dice = random.Random(round_.seed)
    meters = [RandomMeter(number, _random_profile(dice), _random_profile(dice),
                          dice.choice([None, dice.randrange(QUEUES)])) for number in range(1, METERS + 1)]
    for rule in round_.rules:
        if dice.random() < 0.6 and len(rule.text) < LONGEST_LINE - 40 and not rule.takes(dissect(marker())):
            meter = dice.choice(meters)
            rule.metering = Metering(meter.number)
            if meter.queue is not None:
                rule.queues, rule.rss_types = (meter.queue,), ""
            rule.text = rule_text(rule)
            if dice.random() < 0.5:
                first = f"{rule.metering.text()} / count"
                rule.text = rule.text.replace(first, " / ".join(reversed(first.split(" / "))))
    frames = [frame + bytes(len(round_.frames) * again) for again in range(_PASSES) for frame in round_.frames]
    dice.shuffle(frames)
    return MeteredRound(round_.seed, round_.rules, frames, meters)


class _TooLong(Exception):
    """A burst took so long that its packets may have found additional tokens."""


@dataclass
class MeterRun(GroupRun):
    """Plays rounds with meters, which it creates. Packets whose fate is not determined are not sent, as they
    might take tokens from a meter."""

    statistics: Sequence[str] = COLORS  # that the driver keeps for a meter
    policies_send: bool = False  # to queues: the rules that use their meters have no such action
    colors: Counter[str] = field(default_factory=Counter)  # packets
    _now: dict[int, Profile] = field(default_factory=dict)  # for each meter
    _dropped: set[bytes] = field(default_factory=set)  # dropped by meters
    _queues: dict[int, int | None] = field(default_factory=dict)
    _told: dict[int, dict[str, list[int]]] = field(default_factory=dict)  # for each meter: bytes of packets

    def play(self, round_: Round) -> list[Rule]:
        assert isinstance(round_, MeteredRound)
        for _ in range(_TRIES):
            self._make(round_.meters)
            counted = self.taken, self.passed, self.open_, self.excused
            try:
                rules = super().play(round_)
            except _TooLong:
                self.taken, self.passed, self.open_, self.excused = counted
                self.meters.clear()
                continue
            self._compare_statistics(round_)
            self.meters.clear()
            return rules
        raise AssertionError(f"{_TRIES} bursts took more than {_LONGEST} s each")

    def _make(self, meters: Sequence[RandomMeter]) -> None:
        self.meters.policy(_DROPS_RED)
        for meter in meters:
            self.meters.profile(METERS + meter.number, meter.later.words)
            self.meters.profile(meter.number, meter.profile.words)
            policy = _DROPS_RED
            if meter.queue is not None:
                policy = meter.number
                green = f"queue index {meter.queue} / " if self.policies_send else ""
                self.meters.policy(policy, f"g_actions {green}end y_actions drop / end r_actions drop / end")
            self.meters.create(meter.number, meter.number, policy)
        self._now = {meter.number: meter.profile for meter in meters}
        self._queues = {meter.number: meter.queue for meter in meters}
        self._told = {meter.number: {color: [] for color in COLORS} for meter in meters}

    def _detour(self, rule: Rule, number: int) -> tuple[str, int | None]:
        if not (self.policies_send and rule.metering) or self._queues[rule.metering.meter] is None:
            return rule.text, None
        matches, actions = rule.text.split(" actions ")
        meter, fate = rule.metering.text(), f"queue index {rule.queues[0]}"
        others = [action for action in actions.split(" / ") if action not in (meter, fate, "end")]
        return f"{matches} actions {' / '.join([*others, meter])} / end", None

    def _exchange(self, frames: Sequence[bytes], markers: Sequence[bytes]) -> list[ReceivedPacket]:
        began = time.monotonic()
        packets = super()._exchange(frames, markers)
        if time.monotonic() - began > _LONGEST:
            raise _TooLong
        return packets

    def _outcomes(self, round_: Round, rules: Sequence[Rule]) -> list[tuple[bytes, list[Rule]]]:
        assert isinstance(round_, MeteredRound)
        buckets = {number: Buckets(profile) for number, profile in self._now.items()}
        drops = {meter.number: meter.drops for meter in round_.meters}
        outcomes: list[tuple[bytes, list[Rule]]] = []
        self._dropped = set()
        for frame in round_.frames:
            may = expected(rules, frame)
            if len(may) > 1:
                self.open_ += 1
                continue
            if self.excuse(rules, frame):
                self.excused += 1
                continue
            if may and may[0].metering:
                number = may[0].metering.meter
                color = buckets[number].color(frame)
                told = "DROPPED" if color in drops[number] else color
                self._told[number][told].append(len(frame))
                self.colors.update({color, told})
                if told == "DROPPED":
                    self._dropped.add(frame)
                    may = [replace(may[0], queues=())]
            outcomes.append((frame, may))
        return outcomes

    def _reaches_counter(self, rule: Rule, frame: bytes) -> bool:
        return not (frame in self._dropped and counts_behind(self._detour(rule, 0)[0]))

    def _clear_colors(self, rules: Sequence[Rule]) -> None:
        """Starts afresh: all of this round's meters are new."""

    def _compare_colors(self, round_: Round, rules: Sequence[Rule]) -> None:
        """Afterwards some rules are removed, and packets for the remaining ones meet another profile of each meter."""
        assert isinstance(round_, MeteredRound)
        for meter in round_.meters:
            self.meters.do(f"set port meter profile 0 {meter.number} {METERS + meter.number}")
        self._now = {meter.number: meter.later for meter in round_.meters}

    def _compare_statistics(self, round_: MeteredRound) -> None:
        """Compares the statistics of all packets that the meters saw, with either profile."""
        self._expect(round_, self._wrong_statistics)

    def _wrong_statistics(self) -> str | None:
        for number, told in self._told.items():
            wanted = {color: (len(told[color]), sum(told[color])) for color in self.statistics}
            if (shown := self.meters.shown(number)) != wanted:
                return f"meter {number} says {shown} packets and bytes, instead of {wanted}"
        return None

    def _fail(self, round_: Round, what: str) -> None:
        assert isinstance(round_, MeteredRound)
        meters = "".join(f"\nmeter {meter.number}: {meter.profile.words}, then {meter.later.words}; "
                         f"drops {meter.drops}" for meter in round_.meters)
        super()._fail(round_, what + meters)
