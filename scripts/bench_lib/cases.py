# SPDX-License-Identifier: BSD-3-Clause
"""The benchmarks. Each yields rows."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field, replace
from typing import Any, Sequence

from rig.hugepages import NoHugepages

from . import bars
from . import rounds
from .effort import HUGE, Effort
from .ratios import Figure
from .results import Results
from .rivals import rates
from .runner import RAWQP, BenchError, Runner, plugin_file, softhca_port
from .scale import scale
from .scene import WITH_FREEING, Case, against_mlx5, in_each_setting, pick
from .subjects import FLOOR, MLX5, MLX5_VARIANTS, Bench
from .tcp import tcp

SIZES = rounds.SIZES
LATENCY_BURSTS = (1, 32)
PERCENTILES = {"median": "latency", "p99": "latency_p99", "p999": "latency_p999"}


def latency(runner: Runner, effort: Effort, results: Results) -> None:
    """Latency of a packet from port to port, percentiles by frame size and burst."""
    bench = Bench()
    bench.add(RAWQP, RAWQP)
    bench.add_mlx5(MLX5_VARIANTS)
    layout = bench.layout()
    options = [*layout.subjects, "--measure", "latency", "--packets", "2000", "--size",
               ",".join(SIZES), "--burst", ",".join(map(str, LATENCY_BURSTS)),
               "--passes", str(effort.passes)]
    figures = results.collect("latency", effort.processes, lambda _: runner.on_softhca(
        layout.wires, layout.eal, options, apart=True))
    for size in SIZES:
        for burst in LATENCY_BURSTS:
            for percentile, measure in PERCENTILES.items():
                against_mlx5(results, f"latency.{size}.{burst}.{percentile}", figures,
                             {"measure": measure, "size": size, "burst": burst},
                             bars.latency(size, burst, percentile))
    latency_beside_floor(runner, effort, results)


def latency_beside_floor(runner: Runner, effort: Effort, results: Results) -> None:
    """How much of a single packet's latency is due to the device, and how much to the driver: ours and net_mlx5
    against minimal loops. Each has one port whose wire loops back, as a floor has no peer of its kind."""
    bench = Bench()
    for name in (RAWQP, MLX5, FLOOR):
        bench.add(name, name, MLX5_VARIANTS["no CQE compression"] if name == MLX5 else "")
    layout = bench.layout(looped=True)
    options = [*layout.subjects, "--measure", "latency", "--packets", "2000", "--size", "64",
               "--burst", "1", "--passes", str(effort.passes)]
    figures = results.collect("latency, loops", effort.processes, lambda _: runner.on_softhca(
        layout.wires, layout.eal, options, apart=True))
    for name, row in ((RAWQP, "latency.64.1.median.vs_floor"), (MLX5, "latency.64.1.median.mlx5_vs_floor")):
        results.add(row, pick(figures, name, measure="latency"), pick(figures, FLOOR, measure="latency"),
                    (name, FLOOR))


# net_mlx5 can create rules in two ways, but only one of them in a process; ours can do both. Rows of its
# second way end in _verbs.
FLOW_ENGINES = {"": "its default", "dv_flow_en=0": "verbs flows"}
FLOW_MEASURES = {"insertion": "flows", "deletion": "flows_deletions", "memory": "flows_bytes"}
ASYNC_MEASURES = {"insertion": "flows_async", "deletion": "flows_async_deletions"}
OUR_ENGINES = ("verbs", "mlx5")
# Rules of a group above 0, one by one and from a template table, which is then served by software steering, in
# each format of its entries.
GROUP_MEASURES = {"insertion": "flows_group_async", "deletion": "flows_group_async_deletions"}
STEERING_FORMATS = ("0", "1")
LEAST_RULES, FEW_RULES, MANY_RULES = 10, 1000, 100_000


def flows(runner: Runner, effort: Effort, results: Results) -> None:
    """Flow rules per second, inserted and deleted, and their memory, against both flow engines of
    net_mlx5; from template tables against one by one; 100,000 rules against few."""
    for devargs, engine in FLOW_ENGINES.items():
        bench = Bench()
        bench.add(RAWQP, RAWQP)
        bench.add(MLX5, MLX5, devargs)
        figures = flow_figures(runner, results, bench, f"flows, {engine}", effort,
                               processes=effort.turns)
        for row, measure in FLOW_MEASURES.items():
            results.add(f"flows.{row}.vs_mlx5" + ("_verbs" if devargs else ""),
                        pick(figures, RAWQP, measure=measure), pick(figures, MLX5, measure=measure),
                        (RAWQP, f"{MLX5}, {engine}"),
                        None if row == "memory" else bars.flows())
    bench = Bench()
    for name in OUR_ENGINES:
        bench.add(name, RAWQP, f"flow_engine={name}")
    group_flows(runner, effort, results)
    few = flow_figures(runner, results, bench, "flows, few", effort, "flows,flows_async")
    many = flow_figures(runner, results, bench, "flows, many", effort, rules=MANY_RULES)
    for name in OUR_ENGINES:
        for row, measure in ASYNC_MEASURES.items():
            results.add(f"flows.async_{row}.{name}", pick(few, name, measure=measure),
                        pick(few, name, measure=FLOW_MEASURES[row]),
                        (f"asynchronous rules by {name}", f"synchronous ones by {name}"),
                        bars.async_flows(row))
        for row, measure in FLOW_MEASURES.items():
            results.add(f"flows.{row}.{name}.{MANY_RULES}", pick(many, name, measure=measure),
                        pick(few, name, measure=measure),
                        (f"{MANY_RULES} rules by {name}", f"{FEW_RULES} rules by {name}"))


@dataclass
class Lookups:
    """Lookups per received packet, from two reports of the device: no packets arrive before the rules exist."""

    rules: int
    seen: list[tuple[int, int]] = field(default_factory=list)

    def watch(self, answer: dict[str, Any]) -> None:
        for device in (device for each in answer["instances"] for device in each["devices"]):
            counters = device["counters"]
            if device["device"] == softhca_port(0)[0] and counters["wire_rx_packets"]:
                self.seen.append((device["steering"]["lookups"], counters["wire_rx_packets"]))

    def per_packet(self) -> float:
        if len(set(self.seen)) < 2:
            raise BenchError(f"the device was not seen twice while packets came to its {self.rules} rules")
        (lookups, packets), (more_lookups, more_packets) = self.seen[0], self.seen[-1]
        return (more_lookups - lookups) / (more_packets - packets)


def lookups(runner: Runner, effort: Effort, results: Results) -> None:
    """Cost of a packet to the device with 10 and with 100,000 rules of the same masks, which are hit in rotation:
    number of lookups, and time."""
    bench = Bench()
    bench.add(RAWQP, RAWQP)
    layout = bench.layout()

    def measure(rules: int) -> list[Figure]:
        options = [*layout.subjects, "--measure", "rate_by_rules", "--rules", str(rules), "--passes", "1",
                   "--seconds", "6"]  # a busy device answers about once a second
        seen = Lookups(rules)
        rate, = runner.on_softhca(layout.wires, layout.eal, options, apart=True, watch=seen.watch)
        name = f"{rules} rules"
        return [Figure(name, "time", 1e9 / rate.value, turn, "ns"),
                Figure(name, "per_packet", round(seen.per_packet(), 2), turn, "look-ups")]

    figures: list[Figure] = []
    for turn in range(effort.turns):
        for rules in (LEAST_RULES, MANY_RULES):
            figures += results.collect(f"lookups, {rules} rules", 1, lambda _: measure(rules))
    many, few = f"{MANY_RULES} rules", f"{LEAST_RULES} rules"
    for row, bar in (("per_packet", bars.lookups()), ("time", None)):
        results.add(f"lookups.{row}", pick(figures, many, measure=row), pick(figures, few, measure=row),
                    (many, few), bar)


def group_flows(runner: Runner, effort: Effort, results: Results) -> None:
    """Against rules of rte_flow_create in the same group, and in group 0, where they take less time. These have
    processes of their own, as they may take longer next to such a table."""
    bench = Bench()
    bench.add(RAWQP, RAWQP)
    for format_ in STEERING_FORMATS:
        by_table, in_group, in_group_0 = (
            flow_figures(runner, results, bench, f"{measure}, format {format_}", effort, measure,
                         port_options=f"steering_format={format_}")
            for measure in ("flows_group_async", "flows_group", "flows"))
        for row, measure in GROUP_MEASURES.items():
            fast = pick(by_table, RAWQP, measure=measure)
            results.add(f"flows.async_{row}.group_format{format_}", fast,
                        pick(in_group, RAWQP, measure=measure.replace("_async", "")),
                        ("asynchronous rules of a group", "synchronous ones of it"), bars.async_flows(row))
            results.add(f"flows.group_async_{row}.format{format_}", fast,
                        pick(in_group_0, RAWQP, measure=FLOW_MEASURES[row]),
                        ("asynchronous rules of a group", "synchronous ones of group 0"),
                        bars.async_flows(row))


def flow_figures(runner: Runner, results: Results, bench: Bench, what: str, effort: Effort,
                 measures: str = "flows", rules: int = FEW_RULES,
                 processes: int = 0, port_options: str = "") -> list[Figure]:
    """Turns are numbered from 0, so that runs can be compared. In several processes (0: as many as other
    benchmarks): in about one of ten, a driver's commands straddle two pages of its stack, and take 0.5 to
    1 µs longer."""
    layout = bench.layout()
    options = [*layout.subjects, "--measure", measures, "--passes", str(effort.passes), "--rules",
               str(rules)]
    figures = results.collect(what, processes or effort.processes, lambda _: runner.on_softhca(
        layout.wires, layout.eal, options, apart=True, port_options=port_options))
    first = min((figure.turn for figure in figures), default=0)
    return [replace(figure, turn=figure.turn - first) for figure in figures]


SECONDARY = f"{RAWQP} secondary"


def secondary(runner: Runner, effort: Effort, results: Results) -> None:
    """Cycles per packet in a secondary process ÷ the same in its primary, on the same queues."""
    setting = replace(effort.settings[0], pages=HUGE)
    bench = Bench()
    bench.add(RAWQP, RAWQP)
    layout = bench.layout()
    eal = [text for text in layout.eal if text.startswith("net_rawqp")]
    _, subject = layout.subjects
    others = ["--subject", subject.replace(RAWQP, SECONDARY, 1)]
    for measures, first in (("rx", ()), ("tx,forward", WITH_FREEING)):
        options = [*effort.options(), "--measure", measures, *first]
        try:
            figures = results.collect(f"secondary: {measures}", effort.processes, lambda _: (
                runner.in_two_processes(layout.wires, ["--vdev", eal[0], "--vdev", eal[1]],
                                        layout.subjects, others, options, setting)))
        except NoHugepages as lack:
            print(f"note: no secondary processes here: {lack}")
            return
        for measure in measures.split(","):
            results.add(f"secondary.{measure}", pick(figures, SECONDARY, measure=measure),
                        pick(figures, RAWQP, measure=measure), (SECONDARY, RAWQP), bars.secondary())


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
        figures += results.collect("flow_perf", 1, lambda _: flow_perf_turn(runner, turn))
    for measure in FLOW_PERF_RATES:
        results.add(f"flow_perf.{measure}", pick(figures, RAWQP, measure=measure),
                    pick(figures, MLX5, measure=measure), (RAWQP, MLX5), bars.flows())


def flow_perf_turn(runner: Runner, turn: int) -> list[Figure]:
    device, pci = softhca_port(0)
    eal = {RAWQP: ["-d", plugin_file(RAWQP), "--no-pci", "--vdev", f"net_rawqp0,device={device}"],
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
        # net_mlx5 needs the PCI bus, which must not find anything at the start.
        eal = ["-d", plugin_file(RAWQP), "-a", "0000:ff:1f.7"]
        options = [text for name in names for text in ("--first-packet", f"{name}={PROBES[name]}")]
        return results.collect("first_packet", 1, lambda _: runner.on_softhca(
            ["loop", "loop"], eal, [*options, "--passes", str(passes)], apart=True))

    # The first subject in a process has to load the libraries, so that pass is not comparable.
    figures = probe([RAWQP, MLX5], effort.turns + 1)
    first = min((figure.turn for figure in figures), default=0)
    figures = [figure for figure in figures if figure.turn != first]
    results.add("first_packet", pick(figures, RAWQP), pick(figures, MLX5), (RAWQP, MLX5), "<= 0.5")
    cold = [replace(figure, turn=turn) for turn in range(effort.turns) for name in PROBES
            for figure in probe([name], 1)]
    results.add("first_packet.cold", pick(cold, RAWQP), pick(cold, MLX5),
                (f"{RAWQP}, first in its process", f"{MLX5}, first in its process"))


ROUNDS: dict[str, Case] = {
    each.__name__: in_each_setting(each.__name__, each, once=each is rounds.cycles)
    for each in rounds.ALL}
CASES: dict[str, Case] = {
    **ROUNDS,
    "latency": latency,
    "flows": flows,
    "lookups": lookups,
    "flow_perf": flow_perf,
    "first_packet": first_packet,
    "secondary": secondary,
    "rates": rates,
    "tcp": tcp,
    "scale": scale,
}
