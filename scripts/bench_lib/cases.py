# SPDX-License-Identifier: BSD-3-Clause
"""The benchmarks. Each gives rows; their bars are those that the project has set itself."""

from __future__ import annotations

import re
import shutil
import statistics
from dataclasses import dataclass
from typing import Callable, Sequence

from ratios import Figure, Ratio, ratio
from runner import BenchError, Runner, softhca_port
from subjects import DRIVER, FLOOR, MLX5, MLX5_VARIANTS, RAWQP, VERBS, Bench, mlx5_name

SIZES = ("64", "imix", "1500")


@dataclass(frozen=True)
class Effort:
    processes: int  # independent starts: memory lies elsewhere each time
    passes: int  # turns of each
    rounds: int

    @staticmethod
    def of(quick: bool) -> "Effort":
        return Effort(1, 3, 24) if quick else Effort(3, 4, 48)

    def options(self) -> list[str]:
        return ["--passes", str(self.passes), "--rounds", str(self.rounds)]


Case = Callable[[Runner, Effort], list[Ratio]]


def pick(figures: Sequence[Figure], subject: str, **wanted: object) -> list[Figure]:
    return [
        figure
        for figure in figures
        if figure.subject == subject
        and all(getattr(figure, key) == value for key, value in wanted.items())
    ]


def median(figures: Sequence[Figure]) -> float:
    return statistics.median(figure.value for figure in figures)


def best_mlx5(figures: Sequence[Figure], **wanted: object) -> str:
    """The variant of net_mlx5 that is cheapest at this."""
    return min(MLX5_VARIANTS, key=lambda name: median(pick(figures, mlx5_name(name), **wanted)))


def cycles_bar(measure: str, size: str) -> str | None:
    if size == "64":
        return "<= 0.80"
    return "<= 0.90" if measure != "forward" else None


def cycles(runner: Runner, effort: Effort) -> list[Ratio]:
    """Cycles per packet in drained rounds: our rings, net_mlx5, and the floor."""
    bench = Bench()
    bench.add(RAWQP, RAWQP)
    for name, devargs in MLX5_VARIANTS.items():
        bench.add(mlx5_name(name), MLX5, devargs)
    bench.add(VERBS, RAWQP, "datapath=verbs")
    bench.add(FLOOR, FLOOR)
    bench.finish()
    figures: list[Figure] = []
    for _ in range(effort.processes):
        options = [*bench.subjects, *effort.options(), "--size", ",".join(SIZES),
                   "--fast-free", "on,off"]
        figures += runner.on_softhca(bench.wires, bench.eal, options, memory_mb=1024)
    rows: list[Ratio] = []
    for measure in ("rx", "tx", "forward"):
        for fast_free in (True, False) if measure == "tx" else (True,):
            for size in SIZES:
                rows += cycles_rows(figures, measure, size, fast_free)
    return rows


def cycles_rows(figures: list[Figure], measure: str, size: str, fast_free: bool) -> list[Ratio]:
    wanted = {"measure": measure, "size": size, "fast_free": fast_free}
    name = f"cycles.{measure}.{size}" + ("" if fast_free else ".no_fast_free")
    ours = pick(figures, RAWQP, **wanted)
    best = best_mlx5(figures, **wanted)
    default = pick(figures, mlx5_name("default"), **wanted)
    rows = [
        ratio(f"{name}.vs_mlx5", ours, pick(figures, mlx5_name(best), **wanted),
              (RAWQP, f"{MLX5}, best: {best}"), cycles_bar(measure, size)),
        ratio(f"{name}.vs_mlx5_default", ours, default, (RAWQP, f"{MLX5}, default"), None),
        ratio(f"{name}.verbs", pick(figures, VERBS, **wanted), ours, (VERBS, RAWQP), "<= 4" if size == "64" and fast_free else None),
    ]
    if fast_free:
        bar = "<= 1.3" if measure != "forward" and size == "64" else None
        rows.append(ratio(f"{name}.vs_floor", ours, pick(figures, FLOOR, **wanted),
                          (RAWQP, FLOOR), bar))
    return rows


QUEUE_COUNTS = (1, 4, 16, 64)
QUEUE_DESCRIPTORS = 8192  # of all queues together, so that all touch the same amount of memory


def queues(runner: Runner, effort: Effort) -> list[Ratio]:
    """Cost per packet with many queues; the number of descriptors of all queues stays the same."""
    bench = Bench()
    for count in QUEUE_COUNTS:
        descriptors = QUEUE_DESCRIPTORS // count
        bench.add(f"q{count}", RAWQP, extra=f",queues={count},descriptors={descriptors}")
    bench.finish()
    figures: list[Figure] = []
    for _ in range(effort.processes):
        options = [*bench.subjects, *effort.options(), "--round", "2048", "--warm-up", "2048"]
        figures += runner.on_softhca(bench.wires, bench.eal, options, memory_mb=1024)
    return [
        ratio(f"queues.{measure}.{count}", pick(figures, f"q{count}", measure=measure),
              pick(figures, "q1", measure=measure), (f"{count} queues", "1 queue"),
              "<= 1.10" if count == 64 else None)
        for measure in ("rx", "tx", "forward")
        for count in QUEUE_COUNTS[1:]
    ]


# net_mlx5 can make its rules in two ways, but not both in one process.
FLOW_ENGINES = {"its default": "", "verbs flows": "dv_flow_en=0"}


def live(runner: Runner, effort: Effort) -> list[Ratio]:
    """Latency, and flow rules per second, beside net_mlx5."""
    rows: list[Ratio] = []
    for engine, devargs in FLOW_ENGINES.items():
        bench = Bench()
        bench.add(RAWQP, RAWQP)
        bench.add(MLX5, MLX5, devargs)
        bench.finish()
        options = [*bench.subjects, "--measure", "latency,flows", "--packets", "500",
                   "--passes", str(effort.processes * effort.passes)]
        figures = runner.on_softhca(bench.wires, bench.eal, options, apart=True)
        measures = ["flows", "flow_deletions"] if devargs else ["latency", "flows", "flow_deletions"]
        rows += [
            ratio(f"live.{measure}.vs_mlx5", pick(figures, RAWQP, measure=measure),
                  pick(figures, MLX5, measure=measure), (RAWQP, f"{MLX5}, {engine}"), None)
            for measure in measures
        ]
    return rows


FLOW_PERF = ["--ingress", "--ether", "--ipv4", "--queue", "--rules-count=2000",
             "--rules-batch=500", "--deletion-rate"]
FLOW_PERF_RATES = {"insertion": r"Total flows insertion rate -> ([\d.]+) K",
                   "deletion": r"Total deletion rate -> ([\d.]+) K"}


def flow_perf(runner: Runner, effort: Effort) -> list[Ratio]:
    """Flow rules per second as DPDK's own dpdk-test-flow-perf measures them."""
    if shutil.which("dpdk-test-flow-perf") is None:
        raise BenchError("dpdk-test-flow-perf is not installed (Debian: dpdk-dev)")
    device, pci = softhca_port(0)
    eal = {RAWQP: ["-d", DRIVER, "--no-pci", "--vdev", f"net_rawqp0,device={device}"],
           MLX5: ["-a", pci]}
    figures: list[Figure] = []
    for turn in range(effort.processes * effort.passes):
        for name, arguments in eal.items():
            cpus = f"{runner.machine.other},{runner.machine.measured}"
            program = ["dpdk-test-flow-perf", "-l", cpus, "--no-huge", "-m", "512", "--no-shconf",
                       "--no-telemetry", "--log-level=error", *arguments, "--", *FLOW_PERF]
            text = runner.text_on_softhca(["sink"], program)
            for measure, pattern in FLOW_PERF_RATES.items():
                found = re.search(pattern, text)
                if found is None:
                    raise BenchError(f"dpdk-test-flow-perf on {name}: no {measure} rate in:\n{text}")
                figures.append(Figure(name, measure, 1000 * float(found[1]), turn, "rules/s"))
    return [ratio(f"flow_perf.{measure}", pick(figures, RAWQP, measure=measure),
                  pick(figures, MLX5, measure=measure), (RAWQP, MLX5), None)
            for measure in FLOW_PERF_RATES]


def first_packet(runner: Runner, effort: Effort) -> list[Ratio]:
    """Time from probing the device to its first packet."""
    # The PCI bus must be there for the second, but may find nothing at the start.
    eal = ["-d", "librte_net_rawqp.so", "-a", "0000:ff:1f.7"]
    options = ["--first-packet", "rawqp=net_rawqp0,device=mlx5_0",
               "--first-packet", "mlx5=0000:ca:00.1",
               "--passes", str(effort.processes * effort.passes)]
    figures = runner.on_softhca(["loop", "loop"], eal, options, apart=True)
    return [ratio("first_packet", pick(figures, "rawqp"), pick(figures, "mlx5"),
                  (RAWQP, MLX5), "<= 0.5")]


VETH = "ip link add va type veth peer name vb && ip link set va up && ip link set vb up"
# Two TAPs of net_tap, which come to be when the program starts, are cabled by a kernel bridge. It
# floods what goes to an address that it does not know, but keeps what goes to its ports' own.
TAP_CABLE = """{ (until ip link show ta && ip link show tb; do sleep 0.05; done
ip link add bench type bridge stp_state 0 forward_delay 0
ip link set ta master bench
ip link set tb master bench
ip link set bench up) >/dev/null 2>&1 & }"""
NOBODY = "02:00:00:00:00:99"


@dataclass(frozen=True)
class Rival:
    """Another way to get packets from port to port without hardware."""

    name: str
    set_up: str
    vdevs: tuple[str, str]
    bar: str | None = None
    options: tuple[str, ...] = ()


RIVALS = (
    Rival("net_af_packet", VETH, ("net_af_packet0,iface=va", "net_af_packet1,iface=vb"), ">= 5"),
    Rival("net_af_xdp", VETH, ("net_af_xdp0,iface=va,force_copy=1",
                               "net_af_xdp1,iface=vb,force_copy=1")),
    Rival("net_memif", "true", ("net_memif0,role=server,socket=/bench,socket-abstract=yes",
                                "net_memif1,role=client,socket=/bench,socket-abstract=yes")),
    Rival("net_tap", TAP_CABLE, ("net_tap0,iface=ta", "net_tap1,iface=tb"), None, ("--to", NOBODY)),
)


def rates(runner: Runner, effort: Effort) -> list[Ratio]:
    """Packets per second from one port to another: softhca beside the kernel's ways."""
    options = ["--measure", "rate", "--seconds", "0.3", "--passes", "1"]
    ours = Bench()
    ours.add(RAWQP, RAWQP)
    ours.finish()
    rows: list[Ratio] = []
    for rival in RIVALS:
        eal = ["--no-pci", "--vdev", rival.vdevs[0], "--vdev", rival.vdevs[1]]
        names = [text.split(",")[0] for text in rival.vdevs]
        subject = ["--subject", f"{rival.name}={names[0]},peer={names[1]}"]
        a: list[Figure] = []
        b: list[Figure] = []
        try:
            for turn in range(effort.processes * effort.passes):
                mine = runner.on_softhca(ours.wires, ours.eal, [*ours.subjects, *options],
                                         apart=True)
                theirs = runner.in_network(rival.set_up, eal,
                                            [*subject, *options, *rival.options])
                a.append(Figure(RAWQP, "rate", mine[0].value, turn, "packets/s"))
                b.append(Figure(rival.name, "rate", theirs[0].value, turn, "packets/s"))
        except BenchError as error:
            print(f"rates.{rival.name}: not measured here: {error}")
            continue
        rows.append(ratio(f"rates.vs_{rival.name}", a, b, (f"{RAWQP} on softhca", rival.name),
                          rival.bar))
    if not rows:
        raise BenchError("rates: none of the rivals runs here")
    return rows


CASES: dict[str, Case] = {
    "cycles": cycles,
    "queues": queues,
    "live": live,
    "flow_perf": flow_perf,
    "first_packet": first_packet,
    "rates": rates,
}
