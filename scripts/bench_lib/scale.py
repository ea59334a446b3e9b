# SPDX-License-Identifier: BSD-3-Clause
"""The cost of many objects and of start-up to a program under softhca."""

from __future__ import annotations

import subprocess
import time
from typing import Sequence

from . import bars
from .effort import Effort
from .ratios import Figure
from .results import Results
from .runner import BenchError, Runner, completed

# Objects of each kind, from few to many. A context has a QP and a CQ, and registers of its own.
CROWDS = {"qps": (1, 100, 1000, 4000), "cqs": (1, 100, 1000, 4000), "contexts": (1, 100, 1000),
          "mrs": (1, 1000, 4000)}
SAID = {"qps": "idle QPs", "cqs": "CQs with a channel, not armed", "contexts": "contexts with an idle QP",
        "mrs": "MRs, used in turn"}
TIMEOUT_S = 60  # of a start
STARTS = 10  # their median is one figure: a start takes milliseconds


def program(runner: Runner) -> list[str]:
    path = runner.machine.build / "tests/perf/verbs-scale"
    if not path.exists():
        raise BenchError(f"there is no {path}: build it (ninja -C {runner.machine.build})")
    return ["taskset", "-c", str(runner.machine.measured), str(path)]


def pings(runner: Runner, kind: str, counts: Sequence[int], turn: int) -> list[Figure]:
    text = runner.text_on_softhca(["loop"], [*program(runner), kind, *map(str, counts)])
    found = dict(line.split() for line in text.splitlines())
    if list(found) != [str(count) for count in counts]:
        raise BenchError(f"verbs-scale {kind}: no figures in:\n{text}")
    return [Figure(f"{count} {kind}", "ping", float(found[str(count)]), turn, "ns") for count in counts]


def milliseconds_of(command: Sequence[str]) -> float:
    begin = time.perf_counter()
    done = completed(command, TIMEOUT_S, stderr=subprocess.PIPE)
    took = time.perf_counter() - begin
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return 1000 * took


def starts(runner: Runner, turn: int) -> list[Figure]:
    """Start-up time of a program that opens a device, if there is one: without softhca it has less to do."""
    alone = [*program(runner), "start"]
    under = [str(runner.machine.build / "app/softhca/softhca"), "--port", "wire=loop", "--", *alone]
    more = sorted(milliseconds_of(under) - milliseconds_of(alone) for _ in range(STARTS))
    return [Figure("softhca", "start", more[STARTS // 2], turn, "ms"),
            Figure("allowed", "start", bars.START_MS, turn, "ms")]


def scale(runner: Runner, effort: Effort, results: Results) -> None:
    """A packet's round-trip time with many idle objects ÷ with one; start-up of a program under softhca."""
    figures: dict[str, list[Figure]] = {}

    def add(some: Sequence[Figure]) -> None:
        for figure in some:
            figures.setdefault(figure.subject, []).append(figure)

    kinds = [kind for kind in CROWDS if results.may_want(f"scale.{kind}")]
    wants_start = results.wants("scale.start")
    for turn in range(effort.turns):
        for kind in kinds:
            add(results.collect(f"scale, {kind}", 1, lambda _: pings(runner, kind, CROWDS[kind], turn)))
        if wants_start:
            add(results.collect("scale, start", 1, lambda _: starts(runner, turn)))
    for kind in kinds:
        few, *more = CROWDS[kind]
        for count in more:
            results.add(f"scale.{kind}.{count}", figures.get(f"{count} {kind}", []), figures.get(f"{few} {kind}", []),
                        (f"beside {count} {SAID[kind]}", f"beside {few}"), bars.scale())
    if wants_start:
        results.add("scale.start", figures.get("softhca", []), figures.get("allowed", []),
                    ("start-up under softhca, more than without", f"{bars.START_MS:.0f} ms"), bars.start())
