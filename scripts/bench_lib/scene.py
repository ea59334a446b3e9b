# SPDX-License-Identifier: BSD-3-Clause
"""Drained rounds in one setting: which subjects are measured, and the rows that compare them."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import Callable, Iterable, Sequence

from . import bars
from .effort import Effort, Setting
from .ratios import Figure
from .results import Results
from .runner import OTHER, RAWQP, Runner
from .subjects import MLX5, MLX5_VARIANTS, Bench, mlx5_name, of_other_build

Case = Callable[[Runner, Effort, Results], None]


def pick(figures: Sequence[Figure], subject: str, **wanted: object) -> list[Figure]:
    return [
        figure
        for figure in figures
        if figure.subject == subject
        and all(getattr(figure, key) == value for key, value in wanted.items())
    ]


def best_mlx5(figures: Sequence[Figure], variants: Iterable[str], **wanted: object) -> str:
    """The cheapest variant of net_mlx5 for this measurement."""
    def cost(name: str) -> float:
        values = [figure.value for figure in pick(figures, mlx5_name(name), **wanted)]
        return statistics.median(values) if values else float("inf")

    return min(variants, key=cost)


def against_mlx5(results: Results, name: str, figures: Sequence[Figure], wanted: dict[str, object],
                 bar: str | None = None, *, variants: Iterable[str] = MLX5_VARIANTS) -> None:
    """Adds a row that divides our subject by the best variant of net_mlx5."""
    best = best_mlx5(figures, variants, **wanted)
    results.add(f"{name}.vs_mlx5", pick(figures, RAWQP, **wanted),
                pick(figures, mlx5_name(best), **wanted), (RAWQP, f"{MLX5}, best: {best}"), bar)


# Tx is timed from a round's first burst on: that is where drivers free what the previous round has sent,
# some of them all at once.
WITH_FREEING = ("--warm-up", "0")


@dataclass(frozen=True)
class Point:
    """What is measured of each subject."""

    measure: str  # "rx", "tx", "forward"
    size: str = "64"
    burst: int = 32
    fast_free: bool = True


@dataclass
class Scene:
    """A benchmark in one setting. If another build's driver is given, ours is compared with that one only."""

    runner: Runner
    effort: Effort
    results: Results
    setting: Setting
    name: str  # prefix of its rows
    figures: list[Figure] = field(default_factory=list)

    @property
    def with_other_build(self) -> bool:
        return self.runner.machine.other_build is not None

    def contest(self, devargs: str = "", variants: dict[str, str] = MLX5_VARIANTS, *,
                more: dict[str, str] | None = None, loops: Sequence[str] = (),
                extra: str = "") -> Bench:
        """Our driver, also as `more` (devargs by name), against net_mlx5 and hand-written loops, or
        against another build of it."""
        bench = Bench()
        for name, each in {RAWQP: devargs, **(more or {})}.items():
            bench.add(name, RAWQP, each, extra)
            if self.with_other_build:
                bench.add(of_other_build(name), OTHER, each, extra)
        if not self.with_other_build:
            bench.add_mlx5(variants, extra)
            for loop in loops:
                bench.add(loop, loop, extra=extra)
        return bench

    def measure(self, bench: Bench, points: Sequence[Point], options: Sequence[str] = (), *,
                first_of_rx: Sequence[str] = (), memory_mb: int = 1024) -> None:
        """`first_of_rx`: option for how many packets of a round are received untimed, otherwise two bursts. Of
        the other measures each burst is timed."""
        groups: dict[tuple[bool, Sequence[str]], list[Point]] = {}
        for point in points:
            first = first_of_rx if point.measure == "rx" else WITH_FREEING
            groups.setdefault((point.fast_free, first), []).append(point)
        for (_, first), some in groups.items():
            self._run(bench, some, [*options, *first], memory_mb)

    def _run(self, bench: Bench, points: Sequence[Point], options: Sequence[str],
             memory_mb: int) -> None:
        """In several processes. The first subject in one is the last in the next."""
        def values(of: Callable[[Point], str]) -> str:
            return ",".join(dict.fromkeys(map(of, points)))

        asked = ["--measure", values(lambda each: each.measure),
                 "--size", values(lambda each: each.size),
                 "--burst", values(lambda each: str(each.burst)),
                 "--fast-free", "on" if points[0].fast_free else "off"]

        def run(process: int) -> list[Figure]:
            layout = bench.layout(process % 2 == 1)
            return self.runner.on_softhca(
                layout.wires, layout.eal,
                [*layout.subjects, *self.effort.options(), *asked, *options],
                setting=self.setting, memory_mb=memory_mb)

        what = f"{self.name}: {values(lambda each: each.measure)}"
        self.figures += self.results.collect(what, self.effort.processes, run)

    def wants(self, name: str) -> bool:
        """Whether a row whose name begins with `name` may have been requested."""
        return self.results.may_want(f"{self.name}.{name}.")

    def of(self, subject: str, point: Point) -> list[Figure]:
        return pick(self.figures, subject, **asdict(point))

    def row(self, name: str, subject: str, by: str, point: Point,
            bar: str | None = None) -> None:
        """`subject` ÷ `by`."""
        if not self.with_other_build:
            self.results.add(f"{self.name}.{name}", self.of(subject, point), self.of(by, point),
                             (subject, by), bar)

    def main_row(self, name: str, point: Point, bar: str | None = None, *,
                 variants: Iterable[str] = MLX5_VARIANTS) -> None:
        """Our driver ÷ the best of net_mlx5, or ÷ another build of it."""
        if self.with_other_build:
            self.against_other_build(name, RAWQP, point)
        else:
            against_mlx5(self.results, f"{self.name}.{name}", self.figures, asdict(point), bar,
                         variants=variants)

    def against_other_build(self, name: str, subject: str, point: Point) -> None:
        if self.with_other_build:
            other = of_other_build(subject)
            self.results.add(f"{self.name}.{name}.vs_other", self.of(subject, point),
                             self.of(other, point), (subject, other),
                             bars.other_build(str(self.setting)))


def in_each_setting(name: str, case: Callable[[Scene], None], *, once: bool = False) -> Case:
    """A benchmark of drained rounds. `cycles` has its rows at far, `cycles@near` those at near."""
    def all_of_them(runner: Runner, effort: Effort, results: Results) -> None:
        for setting in (*effort.settings, *(effort.once if once else ())):
            full = setting.of(name)
            if results.may_want(f"{full}."):
                case(Scene(runner, effort, results, setting, full))

    all_of_them.__doc__ = case.__doc__
    return all_of_them
