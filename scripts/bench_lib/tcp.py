# SPDX-License-Identifier: BSD-3-Clause
"""TCP between two kernels connected by stock dpdk-testpmd: through softhca's TAPs, and through the kernel's other
interfaces to user programs.

    python3 -m bench_lib.tcp BUILD WAY SECONDS      measures one, in namespaces of its own; prints Gbit/s
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

from demo_lib import namespaces, traffic
from demo_lib.forwarder import start_testpmd
from rig.program import die_with_parent
from rig.testpmd import Testpmd

from .effort import Effort
from .ratios import Figure
from .results import Results
from .runner import RAWQP, BenchError, Machine, Runner, completed, plugin_file

SECONDS = 3
TIMEOUT_S = 60
SIDES = ("left", "right")
# A veth has no device behind it that could do offloads.
WITHOUT_OFFLOADS = ("ethtool", "-K", "{}", "tx", "off", "tso", "off", "gso", "off")


@dataclass(frozen=True)
class Way:
    """From each kernel's interface to a port of testpmd: through a softhca wire, a DPDK driver on the other end of a
    veth, or one that creates the interface itself."""

    name: str
    wire: str = ""
    vdev: str = ""
    on_veth: bool = False
    bar: str | None = None  # softhca's TAP ÷ this one

    @property
    def row(self) -> str:
        return f"tcp.vs_{self.name.partition(':')[2] or self.name}"


TAP = Way("tap", wire="tap:{}")
RIVALS = (
    Way("tap:plain", wire="tap:{}:plain", bar=">= 3"),
    Way("net_af_xdp", vdev="net_af_xdp{},iface=x{}", on_veth=True),
    Way("net_af_packet", vdev="net_af_packet{},iface=x{},blocksz=65536,framesz=2048,framecnt=4096", on_veth=True),
    Way("net_tap", vdev="net_tap{},iface={}"),
)
WAYS = {way.name: way for way in (TAP, *RIVALS)}


def start_way(machine: Machine, way: Way, logs: Path) -> Testpmd:
    launcher, ports = [], []
    if way.wire:
        launcher = [str(machine.build / "app/softhca/softhca")]
        ports = ["-d", plugin_file(RAWQP)]
    for index, side in enumerate(SIDES):
        if way.wire:
            launcher += ["--port", f"wire={way.wire.format(side)}"]
            ports += ["--vdev", f"{RAWQP}{index},device=mlx5_{index}"]
        else:
            ports += ["--vdev", way.vdev.format(index, index if way.on_veth else side)]
    return start_testpmd(machine.build, launcher, ports, 2048, logs / "testpmd.log")


def measure(machine: Machine, way: Way, seconds: int, logs: Path) -> float:
    """Gbit/s, measured in namespaces that the kernel removes when this process ends."""
    os.environ["XDG_RUNTIME_DIR"] = str(logs)
    namespaces.run(*traffic.WITHOUT_IPV6)
    for index, side in enumerate(SIDES if way.on_veth else ()):
        namespaces.run("ip", "link", "add", side, "type", "veth", "peer", "name", f"x{index}")
        namespaces.run("ip", "link", "set", f"x{index}", "up")
    testpmd = start_way(machine, way, logs)
    left, right = (namespaces.NetworkNamespace(side) for side in SIDES)
    for space, side, address in zip((left, right), SIDES, (traffic.LEFT_IP, traffic.RIGHT_IP)):
        if way.on_veth:
            namespaces.run(*(word.format(side) for word in WITHOUT_OFFLOADS))
        traffic.plug_in(space, side, address)
    testpmd.start("io")
    traffic.ping(left, 1)  # resolves the addresses
    result = traffic.Iperf(left, right, logs, lambda: None).tcp(seconds)
    if status := testpmd.quit():
        raise RuntimeError(f"testpmd ended with status {status}")
    testpmd.program.close()
    return result.gbps


def main(arguments: Sequence[str]) -> int:
    build, way, seconds = arguments

    def inside() -> int:
        logs = Path(tempfile.mkdtemp(dir=namespaces.PRIVATE_DIR, prefix="tcp-"))
        try:
            print(measure(Machine(Path(build)), WAYS[way], int(seconds), logs))
        except (RuntimeError, AssertionError, OSError) as error:
            print(error)
            return 1
        return 0

    return namespaces.run_inside(inside)


def figure(machine: Machine, way: Way, turn: int) -> Figure:
    command = [sys.executable, "-P", "-m", __name__, str(machine.build), way.name, str(SECONDS)]
    done = completed(command, TIMEOUT_S, stderr=subprocess.PIPE, preexec_fn=die_with_parent(signal.SIGKILL))
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return Figure(way.name, "tcp", float(done.stdout), turn, "Gbit/s")


def tcp(runner: Runner, effort: Effort, results: Results) -> None:
    """TCP between two kernels through testpmd: softhca's TAPs ÷ packet by packet, and ÷ the kernel's interfaces."""
    rivals = [rival for rival in RIVALS if results.may_want(rival.row)]
    figures: dict[str, list[Figure]] = {}
    for turn in range(effort.turns):
        for way in (TAP, *rivals):
            try:
                figures.setdefault(way.name, []).append(figure(runner.machine, way, turn))
            except BenchError as error:
                if turn == 0 and not way.wire:  # the kernel may not support it
                    print(f"{way.row}: not measured here: {error}", flush=True)
                    rivals.remove(way)
                else:
                    results.fail(f"tcp, {way.name}: {error}")
    for rival in rivals:
        results.add(rival.row, figures.get(TAP.name, []), figures.get(rival.name, []),
                    (f"{RAWQP} on softhca, wire={TAP.name}", rival.name), rival.bar)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
