# SPDX-License-Identifier: BSD-3-Clause
"""The benchmarks. Each gives rows."""

from __future__ import annotations

import re
import shutil
import statistics
from dataclasses import replace
from typing import Callable, Iterable, Sequence

from . import bars
from .effort import Effort
from .ratios import Figure, growth
from .results import Results
from .rivals import rates
from .runner import BenchError, Runner, softhca_port
from .subjects import (CYCLIC_VARIANTS, DRIVER, FLOOR, MLX5, MLX5_VARIANTS, MPRQ_VARIANTS, RAWQP,
                      VERBS, VERBS_LOOP, Bench, mlx5_name)

SIZES = ("64", "imix", "1500")
MEASURES = ("rx", "tx", "forward")

Case = Callable[[Runner, Effort, Results], None]
# The same at one distance, which follows, and then the name that its rows begin with.
DistanceCase = Callable[[Runner, Effort, Results, str, str], None]


def at_each_distance(name: str, case: DistanceCase) -> Case:
    """A benchmark of drained rounds. `cycles` has its rows at far, `cycles@near` those at near."""
    def all_of_them(runner: Runner, effort: Effort, results: Results) -> None:
        for distance in effort.distances:
            full = name if distance == "far" else f"{name}@{distance}"
            if results.may_want(f"{full}."):
                case(runner, effort, results, distance, full)

    all_of_them.__doc__ = case.__doc__
    return all_of_them


def pick(figures: Sequence[Figure], subject: str, **wanted: object) -> list[Figure]:
    return [
        figure
        for figure in figures
        if figure.subject == subject
        and all(getattr(figure, key) == value for key, value in wanted.items())
    ]


def best_mlx5(figures: Sequence[Figure], variants: Iterable[str], **wanted: object) -> str:
    """The variant of net_mlx5 that is cheapest at this."""
    def cost(name: str) -> float:
        values = [figure.value for figure in pick(figures, mlx5_name(name), **wanted)]
        return statistics.median(values) if values else float("inf")

    return min(variants, key=cost)


def against_mlx5(results: Results, name: str, figures: Sequence[Figure], wanted: dict[str, object],
                 bar: str | None = None, *, ours: str = RAWQP,
                 variants: Iterable[str] = MLX5_VARIANTS) -> None:
    """A row that divides our subject by the best variant of net_mlx5."""
    best = best_mlx5(figures, variants, **wanted)
    results.add(name, pick(figures, ours, **wanted), pick(figures, mlx5_name(best), **wanted),
                (ours, f"{MLX5}, best: {best}"), bar)


# What is sent is timed from a round's first burst on: there drivers free what the round before has
# sent, some of them all of it at once.
WITH_FREEING = ("--warm-up", "0")


def in_rounds(runner: Runner, effort: Effort, results: Results, distance: str, what: str,
              bench: Bench, options: Sequence[str], memory_mb: int = 1024) -> list[Figure]:
    """Drained rounds in several processes."""
    arguments = [*bench.subjects, *effort.options(), *options]
    return results.collect(f"{what}, {distance}", effort.processes, lambda: runner.on_softhca(
        bench.wires, bench.eal, arguments, distance=distance, memory_mb=memory_mb))


def contenders() -> Bench:
    bench = Bench()
    bench.add(RAWQP, RAWQP)
    bench.add_mlx5(MLX5_VARIANTS)
    bench.add(VERBS, RAWQP, "datapath=verbs")
    bench.add(FLOOR, FLOOR)
    bench.add(VERBS_LOOP, VERBS_LOOP)
    return bench.finish()


def cycles(runner: Runner, effort: Effort, results: Results, distance: str, case: str) -> None:
    """Cycles per packet in drained rounds by frame size: our rings, net_mlx5, and the floor."""
    measures = [each for each in MEASURES if results.may_want(f"{case}.{each}.")]
    bench = contenders()

    def of(what: str, measured: Sequence[str], *options: str) -> list[Figure]:
        chosen = [each for each in measured if each in measures]
        return in_rounds(runner, effort, results, distance, what, bench,
                         ["--measure", ",".join(chosen), "--size", ",".join(SIZES), *options]
                         ) if chosen else []

    figures = of("cycles of Rx", ["rx"])
    figures += of("cycles", ["tx", "forward"], *WITH_FREEING)
    figures += of("cycles without fast free", ["tx"], *WITH_FREEING, "--fast-free", "off")
    for measure in measures:
        for fast_free in (True, False) if measure == "tx" else (True,):
            for size in SIZES:
                cycles_rows(results, figures, distance, case, measure, size, fast_free)


def cycles_rows(results: Results, figures: list[Figure], distance: str, case: str, measure: str,
                size: str, fast_free: bool) -> None:
    wanted: dict[str, object] = {"measure": measure, "size": size, "fast_free": fast_free}
    name = f"{case}.{measure}.{size}" + ("" if fast_free else ".no_fast_free")
    small = size == "64" and fast_free
    ours = pick(figures, RAWQP, **wanted)
    against_mlx5(results, f"{name}.vs_mlx5", figures, wanted, bars.cycles(distance, measure, size))
    results.add(f"{name}.vs_mlx5_default", ours, pick(figures, mlx5_name("default"), **wanted),
                (RAWQP, f"{MLX5}, default"))
    verbs = pick(figures, VERBS, **wanted)
    results.add(f"{name}.verbs", verbs, ours, (VERBS, RAWQP))
    if fast_free:
        results.add(f"{name}.verbs.vs_loop", verbs, pick(figures, VERBS_LOOP, **wanted),
                    (VERBS, VERBS_LOOP), bars.verbs(distance) if small else None)
        results.add(f"{name}.vs_floor", ours, pick(figures, FLOOR, **wanted), (RAWQP, FLOOR),
                    bars.floor(distance, measure) if small else None)


BURSTS = (4, 8, 16, 64)  # and 32, which `cycles` has


def bursts(runner: Runner, effort: Effort, results: Results, distance: str, case: str) -> None:
    """Cycles per packet of 64 bytes by burst, as cycles."""
    sizes = ["--burst", ",".join(map(str, BURSTS))]
    figures = in_rounds(runner, effort, results, distance, "bursts of Rx", contenders(),
                        ["--measure", "rx", *sizes])
    figures += in_rounds(runner, effort, results, distance, "bursts", contenders(),
                         ["--measure", "tx,forward", *sizes, *WITH_FREEING])
    for measure in MEASURES:
        for burst in BURSTS:
            wanted: dict[str, object] = {"measure": measure, "burst": burst}
            name = f"{case}.{measure}.{burst}"
            ours = pick(figures, RAWQP, **wanted)
            against_mlx5(results, f"{name}.vs_mlx5", figures, wanted,
                         bars.bursts(distance, burst))
            results.add(f"{name}.vs_floor", ours, pick(figures, FLOOR, **wanted), (RAWQP, FLOOR))
            results.add(f"{name}.verbs", pick(figures, VERBS, **wanted), ours, (VERBS, RAWQP))


def mprq(runner: Runner, effort: Effort, results: Results, distance: str, case: str) -> None:
    """Cycles per packet with striding receive queues at both drivers."""
    bench = Bench()
    bench.add(RAWQP, RAWQP, "mprq_en=1")
    bench.add_mlx5(MPRQ_VARIANTS)
    bench.finish()
    sizes = ["--size", ",".join(SIZES)]
    figures = in_rounds(runner, effort, results, distance, "mprq, Rx", bench,
                        ["--measure", "rx", *sizes])
    figures += in_rounds(runner, effort, results, distance, "mprq", bench,
                         ["--measure", "forward", *sizes, *WITH_FREEING])
    for measure in ("rx", "forward"):
        for size in SIZES:
            against_mlx5(results, f"{case}.{measure}.{size}.vs_mlx5", figures,
                         {"measure": measure, "size": size}, bars.mprq(distance, size),
                         variants=MPRQ_VARIANTS)


QUEUE_COUNTS = (4, 16, 64)
QUEUE_DESCRIPTORS = 8192  # of all queues together, so that all touch the same amount of memory


def queues(runner: Runner, effort: Effort, results: Results, distance: str, case: str) -> None:
    """Cycles per packet by number of queues; the descriptors of all queues together stay as many."""
    for count in QUEUE_COUNTS:
        if any(results.may_want(f"{case}.{measure}.{count}") for measure in MEASURES):
            many_queues(runner, effort, results, distance, case, count)


def many_queues(runner: Runner, effort: Effort, results: Results, distance: str, case: str,
                count: int) -> None:
    bench = Bench()

    def extra(queues: int) -> str:
        return f",queues={queues},descriptors={QUEUE_DESCRIPTORS // queues}"

    for driver in (RAWQP, MLX5, FLOOR):
        bench.add(f"{driver} 1", driver, extra=extra(1))
    for driver in (RAWQP, FLOOR):
        bench.add(driver, driver, extra=extra(count))
    bench.add_mlx5(CYCLIC_VARIANTS, extra(count))
    figures = in_rounds(runner, effort, results, distance, f"{count} queues", bench.finish(),
                        ["--round", "2048", "--warm-up", "2048"], 2048)
    for measure in MEASURES:
        def grown(many: str, driver: str) -> list[Figure]:
            return growth(pick(figures, many, measure=measure),
                          pick(figures, f"{driver} 1", measure=measure))

        name = f"{case}.{measure}.{count}"
        labels = (f"{RAWQP}, {count} ÷ 1 queue", f"{FLOOR}, {count} ÷ 1 queue")
        results.add(f"{name}.growth_vs_floor", grown(RAWQP, RAWQP), grown(FLOOR, FLOOR), labels,
                    bars.growth(distance, count))
        results.add(f"{name}.growth_vs_mlx5", grown(RAWQP, RAWQP), grown(mlx5_name("default"), MLX5),
                    (labels[0], f"{MLX5}, default, {count} ÷ 1 queue"))
        against_mlx5(results, f"{name}.vs_mlx5", figures, {"measure": measure},
                     bars.queues(distance, count), variants=CYCLIC_VARIANTS)


LATENCY_BURSTS = (1, 32)
PERCENTILES = {"median": "latency", "p99": "latency_p99", "p999": "latency_p999"}


def latency(runner: Runner, effort: Effort, results: Results) -> None:
    """Time of a packet from port to port, percentiles by frame size and burst."""
    bench = Bench()
    bench.add(RAWQP, RAWQP)
    bench.add_mlx5(MLX5_VARIANTS)
    bench.finish()
    options = [*bench.subjects, "--measure", "latency", "--packets", "2000", "--size",
               ",".join(SIZES), "--burst", ",".join(map(str, LATENCY_BURSTS)),
               "--passes", str(effort.passes)]
    figures = results.collect("latency", effort.processes, lambda: runner.on_softhca(
        bench.wires, bench.eal, options, apart=True))
    for size in SIZES:
        for burst in LATENCY_BURSTS:
            for percentile, measure in PERCENTILES.items():
                against_mlx5(results, f"latency.{size}.{burst}.{percentile}", figures,
                             {"measure": measure, "size": size, "burst": burst},
                             bars.latency(size, burst, percentile))


# net_mlx5 can make its rules in two ways, but not both in one process.
FLOW_ENGINES = {"": "its default", "dv_flow_en=0": "verbs flows"}


def flows(runner: Runner, effort: Effort, results: Results) -> None:
    """Flow rules per second, inserted and deleted, beside both flow engines of net_mlx5."""
    for devargs, engine in FLOW_ENGINES.items():
        bench = Bench()
        bench.add(RAWQP, RAWQP)
        bench.add(MLX5, MLX5, devargs)
        bench.finish()
        options = [*bench.subjects, "--measure", "flows", "--passes", str(effort.turns)]
        figures = results.collect(f"flows, {engine}", 1, lambda: runner.on_softhca(
            bench.wires, bench.eal, options, apart=True))
        for row, measure in (("insertion", "flows"), ("deletion", "flow_deletions")):
            results.add(f"flows.{row}.vs_mlx5" + ("_verbs" if devargs else ""),
                        pick(figures, RAWQP, measure=measure), pick(figures, MLX5, measure=measure),
                        (RAWQP, f"{MLX5}, {engine}"))


FLOW_PERF = ["--ingress", "--ether", "--ipv4", "--queue", "--rules-count=2000",
             "--rules-batch=500", "--deletion-rate"]
FLOW_PERF_RATES = {"insertion": r"Total flows insertion rate -> ([\d.]+) K",
                   "deletion": r"Total deletion rate -> ([\d.]+) K"}


def flow_perf(runner: Runner, effort: Effort, results: Results) -> None:
    """Flow rules per second as DPDK's own dpdk-test-flow-perf measures them."""
    if shutil.which("dpdk-test-flow-perf") is None:
        raise BenchError("dpdk-test-flow-perf is not installed (Debian: dpdk-dev)")
    figures: list[Figure] = []
    for turn in range(effort.turns):
        figures += results.collect("flow_perf", 1, lambda: flow_perf_turn(runner, turn))
    for measure in FLOW_PERF_RATES:
        results.add(f"flow_perf.{measure}", pick(figures, RAWQP, measure=measure),
                    pick(figures, MLX5, measure=measure), (RAWQP, MLX5))


def flow_perf_turn(runner: Runner, turn: int) -> list[Figure]:
    device, pci = softhca_port(0)
    eal = {RAWQP: ["-d", DRIVER, "--no-pci", "--vdev", f"net_rawqp0,device={device}"],
           MLX5: ["-a", pci]}
    cpus = f"{runner.machine.other},{runner.machine.measured}"
    figures: list[Figure] = []
    for name, arguments in eal.items():
        program = ["dpdk-test-flow-perf", "-l", cpus, "--no-huge", "-m", "512", "--no-shconf",
                   "--no-telemetry", "--log-level=error", *arguments, "--", *FLOW_PERF]
        text = runner.text_on_softhca(["sink"], program)
        for measure, pattern in FLOW_PERF_RATES.items():
            found = re.search(pattern, text)
            if found is None:
                raise BenchError(f"dpdk-test-flow-perf on {name}: no {measure} rate in:\n{text}")
            figures.append(Figure(name, measure, 1000 * float(found[1]), turn, "rules/s"))
    return figures


PROBES = {RAWQP: "net_rawqp0,device=mlx5_0", MLX5: "0000:ca:00.1"}


def first_packet(runner: Runner, effort: Effort, results: Results) -> None:
    """Time from probing the device to its first packet."""
    def probe(names: Sequence[str], passes: int) -> list[Figure]:
        # The PCI bus must be there for net_mlx5, but may find nothing at the start.
        eal = ["-d", DRIVER, "-a", "0000:ff:1f.7"]
        options = [text for name in names for text in ("--first-packet", f"{name}={PROBES[name]}")]
        return results.collect("first_packet", 1, lambda: runner.on_softhca(
            ["loop", "loop"], eal, [*options, "--passes", str(passes)], apart=True))

    # Who comes first in a process has the libraries to load: that pass is no comparison.
    figures = probe([RAWQP, MLX5], effort.turns + 1)
    first = min((figure.turn for figure in figures), default=0)
    figures = [figure for figure in figures if figure.turn != first]
    results.add("first_packet", pick(figures, RAWQP), pick(figures, MLX5), (RAWQP, MLX5), "<= 0.5")
    cold = [replace(figure, turn=turn) for turn in range(effort.turns) for name in PROBES
            for figure in probe([name], 1)]
    results.add("first_packet.cold", pick(cold, RAWQP), pick(cold, MLX5),
                (f"{RAWQP}, first in its process", f"{MLX5}, first in its process"))


CASES: dict[str, Case] = {
    **{name: at_each_distance(name, case) for name, case in (
        ("cycles", cycles), ("bursts", bursts), ("mprq", mprq), ("queues", queues))},
    "latency": latency,
    "flows": flows,
    "flow_perf": flow_perf,
    "first_packet": first_packet,
    "rates": rates,
}
