# SPDX-License-Identifier: BSD-3-Clause
"""From alternated figures to ratios."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, replace
from typing import Any, Callable, Sequence

Key = Callable[["Figure"], bool]


@dataclass(frozen=True)
class Figure:
    """One value that rawqp-perf (or another program) measured in one pass."""

    subject: str
    measure: str
    value: float
    turn: int  # figures of one turn were measured right after each other
    unit: str = ""
    size: str = ""
    burst: int = 0
    queues: int = 1
    fast_free: bool = False


@dataclass
class Ratio:
    """One row of the result. `a` and `b` name dividend and divisor, `a_value` and `b_value` are medians."""

    name: str
    a: str
    b: str
    ratio_median: float
    ratio_min: float
    ratio_max: float
    pairs: int
    bar: str | None  # "<= 0.80", ">= 5"; None: only reported
    ok: bool | None  # None: there is no bar
    a_value: float
    b_value: float
    unit: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class TooFewFigures(Exception):
    """A benchmark yielded no pair to compare."""


def meets(value: float, bar: str | None) -> bool | None:
    if bar is None:
        return None
    relation, limit = bar.split()
    return value <= float(limit) if relation == "<=" else value >= float(limit)


def growth(of: Sequence[Figure], base: Sequence[Figure]) -> list[Figure]:
    """The figures `of` divided by those of `base`, turn by turn."""
    bases = {figure.turn: figure.value for figure in base}
    return [replace(figure, value=figure.value / bases[figure.turn], unit="times")
            for figure in of if bases.get(figure.turn)]


def ratio(
    name: str, a: Sequence[Figure], b: Sequence[Figure], labels: tuple[str, str], bar: str | None
) -> Ratio:
    """Divides the figures of `a` by those of `b`, turn by turn."""
    of_b = {figure.turn: figure.value for figure in b}
    pairs = [(figure.value, of_b[figure.turn]) for figure in a if of_b.get(figure.turn)]
    if not pairs:
        raise TooFewFigures(f"{name}: nothing to compare {labels[0]} with {labels[1]}")
    ratios = [one / other for one, other in pairs]
    middle = statistics.median(ratios)
    return Ratio(
        name,
        *labels,
        round(middle, 4),
        round(min(ratios), 4),
        round(max(ratios), 4),
        len(pairs),
        bar,
        meets(middle, bar),
        round(statistics.median(one for one, _ in pairs), 3),
        round(statistics.median(other for _, other in pairs), 3),
        a[0].unit,
    )
