# SPDX-License-Identifier: BSD-3-Clause
"""How long a benchmark may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    processes: int  # independent starts: memory lies elsewhere each time
    passes: int  # turns of each
    rounds: int

    @staticmethod
    def of(quick: bool) -> "Effort":
        return Effort(1, 3, 24) if quick else Effort(3, 4, 48)

    @property
    def turns(self) -> int:
        return self.processes * self.passes

    def options(self) -> list[str]:
        return ["--passes", str(self.passes), "--rounds", str(self.rounds)]
