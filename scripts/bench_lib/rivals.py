# SPDX-License-Identifier: BSD-3-Clause
"""Alternatives to softhca for getting packets from port to port without hardware."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Mapping, Sequence

from .effort import Effort
from .ratios import Figure
from .results import Results
from .runner import RAWQP, BenchError, Runner
from .subjects import Bench

SIZES = ("64", "1500")
VETH = "ip link add va type veth peer name vb && ip link set va up && ip link set vb up"
# Two TAPs of net_tap, created when the program starts, are connected by a kernel bridge. It floods frames
# for unknown addresses, but keeps those for its ports' own.
TAP_CABLE = """{ (until ip link show ta && ip link show tb; do sleep 0.05; done
ip link add bench type bridge stp_state 0 forward_delay 0
ip link set ta master bench
ip link set tb master bench
ip link set bench up) >/dev/null 2>&1 & }"""
NOBODY = "02:00:00:00:00:99"
FLOOR, MEMIF = "floor", "net_memif"


@dataclass(frozen=True)
class Rival:
    name: str
    set_up: str
    vdevs: tuple[str, str]
    bars: Mapping[str, str] = field(default_factory=dict)  # by frame size
    options: tuple[str, ...] = ()


RIVALS = (
    Rival("net_af_packet", VETH, ("net_af_packet0,iface=va", "net_af_packet1,iface=vb"), {"64": ">= 5"}),
    Rival("net_af_xdp", VETH, ("net_af_xdp0,iface=va,force_copy=1",
                               "net_af_xdp1,iface=vb,force_copy=1")),
    Rival(MEMIF, "true", ("net_memif0,role=server,socket=/bench,socket-abstract=yes",
                          "net_memif1,role=client,socket=/bench,socket-abstract=yes"),
          {size: ">= 0.8" for size in SIZES}),
    Rival("net_tap", TAP_CABLE, ("net_tap0,iface=ta", "net_tap1,iface=tb"), {}, ("--to", NOBODY)),
)
OPTIONS = ("--measure", "rate", "--size", ",".join(SIZES), "--seconds", "0.3", "--passes", "1")
ONE_THREAD, TWO_THREADS = "one device thread", "two device threads"
# The upper limit of any single-threaded device and any driver on the mlx5 formats; and the same with other
# prefetch distances of its thread, or with smaller rings.
FLOORS = {FLOOR: "", "floor.same": "", "floor.fetch_2": ",fetch=2,claim=2",
          "floor.fetch_8": ",fetch=8,claim=8",
          "floor.fetch_64": ",fetch=64,claim=64", "floor.fetch_none": ",fetch=0,claim=none",
          "floor.claim_none": ",claim=none", "floor.descriptors_256": ",descriptors=256"}


def on_softhca(runner: Runner, threads: int) -> list[Figure]:
    bench = Bench()
    bench.add(RAWQP, RAWQP)
    layout = bench.layout()
    return runner.on_softhca(layout.wires, layout.eal, [*layout.subjects, *OPTIONS], apart=True,
                             threads=threads)


def on_rival(runner: Runner, rival: Rival) -> list[Figure]:
    eal = ["--no-pci", "--vdev", rival.vdevs[0], "--vdev", rival.vdevs[1]]
    names = [text.split(",")[0] for text in rival.vdevs]
    subject = ["--subject", f"{rival.name}={names[0]},peer={names[1]}"]
    return runner.in_network(rival.set_up, eal, [*subject, *OPTIONS, *rival.options])


def on_rings(runner: Runner, floor: str, _: int) -> list[Figure]:
    """Needs no device, and runs in a program of its own: its thread polls as long as the program lives."""
    subject = f"{floor}=rings:{runner.machine.other}{FLOORS[floor]}"
    return runner.in_network("true", ["--no-pci"], ["--subject", subject, "--round", "128", *OPTIONS])


class Turns:
    """Figures of several programs, which are run one after the other in each turn."""

    def __init__(self) -> None:
        self.figures: dict[tuple[str, str], list[Figure]] = {}

    def add(self, name: str, turn: int, figures: list[Figure]) -> None:
        for one in figures:
            self.figures.setdefault((name, one.size), []).append(
                Figure(name, "rate", one.value, turn, "packets/s", one.size))

    def of(self, name: str, size: str) -> list[Figure]:
        return self.figures.get((name, size), [])


def floors_wanted(runner: Runner, results: Results) -> list[str]:
    """None on a single CPU: the lcore and the device's thread need one each."""
    if len(runner.machine.cpus) < 2:
        return []
    others = [name for name in FLOORS if results.may_want(f"rates.{name}")]
    return [FLOOR, *(name for name in others if name != FLOOR)] if (
        others or results.may_want("rates.vs_floor")) else []


def add_floors(turns: Turns, results: Results, floors: Sequence[str]) -> None:
    for size in SIZES:
        end = "" if size == "64" else f".{size}"
        floor = turns.of(FLOOR, size)
        results.add(f"rates.vs_floor{end}", turns.of(ONE_THREAD, size), floor,
                    (f"{RAWQP} on softhca, {ONE_THREAD}", FLOOR))
        if turns.of(MEMIF, size):
            results.add(f"rates.floor.vs_{MEMIF}{end}", floor, turns.of(MEMIF, size), (FLOOR, MEMIF))
        for name in floors:
            if name != FLOOR:
                results.add(f"rates.{name}{end}", turns.of(name, size), floor, (name, FLOOR))


def rates(runner: Runner, effort: Effort, results: Results) -> None:
    """Packets per second from one port to another: softhca against what the kernel offers."""
    turns = Turns()
    rivals = [rival for rival in RIVALS if results.may_want(f"rates.vs_{rival.name}")
              or (rival.name == MEMIF and results.may_want(f"rates.floor.vs_{MEMIF}"))]
    floors = floors_wanted(runner, results)
    many = len(runner.machine.cpus) > 2 and results.may_want("rates.threads")
    for turn in range(effort.turns):
        turns.add(ONE_THREAD, turn, results.collect("rates", 1, lambda _: on_softhca(runner, 1)))
        if many:
            turns.add(TWO_THREADS, turn,
                      results.collect("rates, 2 threads", 1, lambda _: on_softhca(runner, 2)))
        for floor in floors:
            turns.add(floor, turn,
                      results.collect(f"rates, {floor}", 1, partial(on_rings, runner, floor)))
        for rival in list(rivals):
            try:
                turns.add(rival.name, turn, on_rival(runner, rival))
            except BenchError as error:
                turns.add(rival.name, turn, list(error.figures))
                if turn == 0 and not rival.bars and not error.figures:  # the kernel may not support it
                    print(f"rates.vs_{rival.name}: not measured here: {error}", flush=True)
                    rivals.remove(rival)
                else:
                    results.fail(f"rates.vs_{rival.name}: {error}")
    for rival in rivals:
        for size in SIZES:
            results.add(f"rates.vs_{rival.name}" + ("" if size == "64" else f".{size}"),
                        turns.of(ONE_THREAD, size), turns.of(rival.name, size),
                        (f"{RAWQP} on softhca, {ONE_THREAD}", rival.name),
                        rival.bars.get(size))
    if floors:
        add_floors(turns, results, floors)
    if not many:
        print("rates.threads: two device threads and an lcore need three CPUs", flush=True)
        return
    for size in SIZES:
        results.add(f"rates.threads.{size}", turns.of(TWO_THREADS, size),
                    turns.of(ONE_THREAD, size), (TWO_THREADS, ONE_THREAD), ">= 1.7")
