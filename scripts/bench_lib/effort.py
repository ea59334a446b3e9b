# SPDX-License-Identifier: BSD-3-Clause
"""How long a benchmark may take."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Effort:
    processes: int  # independent starts: memory lies elsewhere each time
    passes: int  # turns of each
    rounds: int
    distances: tuple[str, ...]  # at which drained rounds are measured; the first is the headline

    @staticmethod
    def of(quick: bool, distances: tuple[str, ...]) -> "Effort":
        return Effort(1, 3, 24, distances) if quick else Effort(3, 4, 48, distances)

    def for_two_builds(self) -> "Effort":
        """They may differ by little, and a process has fewer subjects: more, and an even number of
        them, so that each build comes first in half of them."""
        return replace(self, processes=2 * self.processes)

    @property
    def turns(self) -> int:
        return self.processes * self.passes

    def options(self) -> list[str]:
        return ["--passes", str(self.passes), "--rounds", str(self.rounds)]
