# SPDX-License-Identifier: BSD-3-Clause
"""Meters of a port, in testpmd's syntax."""

import re
from itertools import product
from typing import Sequence

from .flow_model import Metering
from .stack_base import StackBase

COLORS = ("G", "Y", "R", "DROPPED")
DROP_RED = "g_actions end y_actions end r_actions drop / end"


class Meters:
    """The meters of port 0, deleted at the end, with their profiles and policies."""

    def __init__(self, stack: StackBase) -> None:
        self.testpmd = stack.testpmd
        self._undo: list[str] = []

    def do(self, command: str, undo: str = "") -> None:
        answer = self.testpmd.command(command)
        assert not re.search(r"(?i)error|fail|bad arg", answer), f"{command}: {answer}"
        if undo:
            self._undo.append(undo)

    def profile(self, number: int, words: str) -> None:
        """`words`: the algorithm and its arguments, with port and profile number inserted between them."""
        algorithm, _, rest = words.partition(" ")
        self.do(f"add port meter profile {algorithm} 0 {number} {rest}", f"del port meter profile 0 {number}")

    def policy(self, number: int, actions: str = DROP_RED) -> None:
        self.do(f"add port meter policy 0 {number} {actions}", f"del port meter policy 0 {number}")

    def create(self, number: int, profile: int = 1, policy: int = 1, enabled: str = "yes") -> None:
        self.do(f"create port meter 0 {number} {profile} {policy} {enabled} 0xff 1 g 0",
                f"del port meter 0 {number}")

    def make(self, number: int, words: str, policy: str = DROP_RED) -> None:
        """Makes a meter with a profile and a policy of the same number."""
        self.profile(number, words)
        self.policy(number, policy)
        self.create(number, number, number)

    def refusal(self, command: str) -> str:
        answer = self.testpmd.command(command)
        assert re.search(r"(?i)error|fail", answer), f"{command} was done: {answer}"
        return " ".join(answer.split())

    def packets(self, number: int, clear: str = "no") -> tuple[int, ...]:
        """Numbers of green, yellow, red and dropped packets."""
        answer = self.testpmd.command(f"show port meter stats 0 {number} {clear}")
        counts = []
        for color in COLORS:
            found = re.search(rf"Pkts {color}: (\d+)", answer)
            assert found, answer
            counts.append(int(found[1]))
        return tuple(counts)

    def shown(self, number: int) -> dict[str, tuple[int, int]]:
        """Packets and bytes of each statistic of the driver: colors and drops."""
        answer = self.testpmd.command(f"show port meter stats 0 {number} no")
        packets, bytes_ = (dict(re.findall(rf"{unit} (\w+): (\d+)", answer)) for unit in ("Pkts", "Bytes"))
        assert packets and packets.keys() == bytes_.keys(), answer
        return {color: (int(packets[color]), int(bytes_[color])) for color in packets}

    def clear(self) -> None:
        self.testpmd.flush_flows(0)
        while self._undo:
            self.do(self._undo.pop())


# Each yields a single color at any rate: they count bytes, and their buckets hold no packet, or all packets.
_ALL, _NONE = 2_000_000_000, 1
_PROFILES = [
    ("G", f"srtcm_rfc2697 {_ALL} {_ALL} 0 0"),
    ("G", f"trtcm_rfc2698 {_ALL} {_ALL} {_ALL} {_ALL} 0"),
    ("G", f"trtcm_rfc4115 {_ALL} {_ALL} {_ALL} {_ALL} 0"),
    ("Y", f"srtcm_rfc2697 {_ALL} {_NONE} {_ALL} 0"),
    ("Y", f"trtcm_rfc2698 {_NONE} {_ALL} {_NONE} {_ALL} 0"),
    ("Y", f"trtcm_rfc4115 {_NONE} {_ALL} {_NONE} {_ALL} 0"),
    ("R", f"srtcm_rfc2697 {_NONE} {_NONE} {_NONE} 0"),
    ("R", f"trtcm_rfc2698 {_NONE} {_NONE} {_NONE} {_NONE} 0"),
    ("R", f"trtcm_rfc4115 {_NONE} {_NONE} {_NONE} {_NONE} 0"),
]
_POLICIES = ["", "G", "Y", "R", "GY", "YR"]  # the colors that each drops


def meters_of_one_color(stack: StackBase) -> Sequence[Metering]:
    """Makes one of each profile and policy."""
    meters = Meters(stack)
    for number, (_, words) in enumerate(_PROFILES):
        meters.profile(number, words)
    for number, dropped in enumerate(_POLICIES):
        meters.policy(number, " ".join(
            f"{color.lower()}_actions {'drop / ' if color in dropped else ''}end" for color in COLORS[:3]))
    made: list[Metering] = []
    for (profile, (color, _)), (policy, dropped) in product(enumerate(_PROFILES), enumerate(_POLICIES)):
        made.append(Metering(len(made), color, color in dropped))
        meters.create(made[-1].meter, profile, policy)
    return made
