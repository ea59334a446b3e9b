# SPDX-License-Identifier: BSD-3-Clause
"""How long a benchmark may take, and in which settings drained rounds are measured."""

from __future__ import annotations

from dataclasses import dataclass, replace

HUGE, SMALL = "huge", "4k"


@dataclass(frozen=True)
class Setting:
    """Where the cache lines touched by the device are, and on which pages."""

    distance: str
    pages: str = HUGE

    def __str__(self) -> str:
        return self.distance + ("" if self.pages == HUGE else f"-{self.pages}")

    def of(self, case: str) -> str:
        """The prefix of a benchmark's rows in this setting; far on huge pages is the headline."""
        return case if str(self) == "far" else f"{case}@{self}"


@dataclass(frozen=True)
class Effort:
    processes: int  # independent starts: memory is laid out differently each time
    passes: int  # turns of each
    rounds: int
    settings: tuple[Setting, ...]
    once: tuple[Setting, ...] = ()  # settings of one benchmark only, `cycles`

    @staticmethod
    def of(quick: bool, distances: tuple[str, ...], pages: tuple[str, ...] = ()) -> "Effort":
        """`pages`: if empty, huge pages, and 4 KiB pages for the first distance of `cycles`."""
        settings = tuple(Setting(distance, each) for each in pages or (HUGE,)
                         for distance in distances)
        once = () if pages else (Setting(distances[0], SMALL),)
        return Effort(*((1, 3, 24) if quick else (3, 4, 48)), settings, once)

    def for_two_builds(self) -> "Effort":
        """More processes, because two builds may differ by little and there are fewer subjects per process. Their
        number is even, so that each build comes first in half of them."""
        return replace(self, processes=2 * self.processes)

    @property
    def turns(self) -> int:
        return self.processes * self.passes

    def options(self) -> list[str]:
        return ["--passes", str(self.passes), "--rounds", str(self.rounds)]
