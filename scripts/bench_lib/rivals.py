# SPDX-License-Identifier: BSD-3-Clause
"""Other ways to get packets from port to port without hardware, beside softhca."""

from __future__ import annotations

from dataclasses import dataclass

from .effort import Effort
from .ratios import Figure
from .results import Results
from .runner import RAWQP, BenchError, Runner
from .subjects import Bench

SIZES = ("64", "1500")
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
    name: str
    set_up: str
    vdevs: tuple[str, str]
    bar: str | None = None  # at 64 bytes
    options: tuple[str, ...] = ()


RIVALS = (
    Rival("net_af_packet", VETH, ("net_af_packet0,iface=va", "net_af_packet1,iface=vb"), ">= 5"),
    Rival("net_af_xdp", VETH, ("net_af_xdp0,iface=va,force_copy=1",
                               "net_af_xdp1,iface=vb,force_copy=1")),
    Rival("net_memif", "true", ("net_memif0,role=server,socket=/bench,socket-abstract=yes",
                                "net_memif1,role=client,socket=/bench,socket-abstract=yes")),
    Rival("net_tap", TAP_CABLE, ("net_tap0,iface=ta", "net_tap1,iface=tb"), None, ("--to", NOBODY)),
)
OPTIONS = ("--measure", "rate", "--size", ",".join(SIZES), "--seconds", "0.3", "--passes", "1")
ONE_THREAD, TWO_THREADS = "one device thread", "two device threads"


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


class Turns:
    """Figures of several programs, a turn of all after the other."""

    def __init__(self) -> None:
        self.figures: dict[tuple[str, str], list[Figure]] = {}

    def add(self, name: str, turn: int, figures: list[Figure]) -> None:
        for one in figures:
            self.figures.setdefault((name, one.size), []).append(
                Figure(name, "rate", one.value, turn, "packets/s", one.size))

    def of(self, name: str, size: str) -> list[Figure]:
        return self.figures.get((name, size), [])


def rates(runner: Runner, effort: Effort, results: Results) -> None:
    """Packets per second from one port to another: softhca beside the kernel's ways."""
    turns = Turns()
    rivals = [rival for rival in RIVALS if results.may_want(f"rates.vs_{rival.name}")]
    many = len(runner.machine.cpus) > 2 and results.may_want("rates.threads")
    for turn in range(effort.turns):
        turns.add(ONE_THREAD, turn, results.collect("rates", 1, lambda _: on_softhca(runner, 1)))
        if many:
            turns.add(TWO_THREADS, turn,
                      results.collect("rates, 2 threads", 1, lambda _: on_softhca(runner, 2)))
        for rival in list(rivals):
            try:
                turns.add(rival.name, turn, on_rival(runner, rival))
            except BenchError as error:
                turns.add(rival.name, turn, list(error.figures))
                if turn == 0 and rival.bar is None and not error.figures:  # the kernel may lack it
                    print(f"rates.vs_{rival.name}: not measured here: {error}", flush=True)
                    rivals.remove(rival)
                else:
                    results.fail(f"rates.vs_{rival.name}: {error}")
    for rival in rivals:
        for size in SIZES:
            small = size == "64"
            results.add(f"rates.vs_{rival.name}" + ("" if small else f".{size}"),
                        turns.of(ONE_THREAD, size), turns.of(rival.name, size),
                        (f"{RAWQP} on softhca, {ONE_THREAD}", rival.name),
                        rival.bar if small else None)
    if not many:
        print("rates.threads: two device threads and an lcore need three CPUs", flush=True)
        return
    for size in SIZES:
        results.add(f"rates.threads.{size}", turns.of(TWO_THREADS, size),
                    turns.of(ONE_THREAD, size), (TWO_THREADS, ONE_THREAD))
