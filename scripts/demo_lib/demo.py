# SPDX-License-Identifier: BSD-3-Clause
"""The main job: two kernels talk over two net_rawqp ports that stock testpmd forwards between.

        namespace "left"                                            namespace "right"
      kernel TCP/IP, interface                                    kernel TCP/IP, interface
                 | cable                                                    | cable
      softhca mlx5_0 = net_rawqp0 ---- dpdk-testpmd, io ---- net_rawqp1 = softhca mlx5_1

With --device the two RDMA devices are real, and the interfaces are those cabled to them.
Called by scripts/demo after scripts/setup.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rig.launched import DRIVER, devices_of, program_under
from rig.ports import port_mac
from rig.testpmd import Testpmd

from . import cables, namespaces, traffic
from .forwarder import start_testpmd
from .ledger import InterfaceStats, Ledger, Snapshot, balance, hops
from .screen import Screen

ROOT = Path(__file__).resolve().parents[2]
SIDES = ("left", "right")


@dataclass
class RealDevice:
    """--device DEV[,peer=INTERFACE]"""

    name: str
    peer: str  # the kernel interface at the other end of the device's cable; empty: find it

    @staticmethod
    def parse(text: str) -> "RealDevice":
        name, given, peer = text.partition(",peer=")
        if not name or "," in name + peer or bool(given) != bool(peer):
            raise argparse.ArgumentTypeError(
                f"{text!r}: write DEV or DEV,peer=INTERFACE, for example mlx5_0,peer=ens2f0, where"
                " INTERFACE is the interface that DEV's cable leads to"
            )
        return RealDevice(name, peer)


def why_not_writable(file: Path) -> str:
    """Empty: the file, which stays as it is, can be written."""
    existed = file.exists()
    try:
        file.open("ab").close()
        if not existed:
            file.unlink()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="Two network namespaces talk to each other (ping, iperf3) through stock"
        " dpdk-testpmd on two net_rawqp ports. Ends with a verdict: every packet is delivered, or"
        " counted by the cause of its loss. Needs no RDMA NIC, and no root where users may make"
        " namespaces.",
    )
    parser.add_argument(
        "--seconds", type=int, default=20, metavar="N", help="length of the iperf3 runs in all (20)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdict there, too")
    parser.add_argument(
        "--device",
        type=RealDevice.parse,
        action="append",
        default=[],
        metavar="DEV[,peer=INTERFACE]",
        help="use real devices instead of softhca (give it twice): the RDMA device, and the kernel"
        " interface of this machine that is cabled to it, which lives in a namespace meanwhile."
        " Without peer= the demo finds that interface: it must be up. Needs root",
    )
    parser.add_argument(
        "--datapath", choices=("auto", "mlx5", "verbs"), default="auto", help="the driver's rings"
    )
    parser.add_argument(
        "--udp-rate", type=int, default=200, metavar="MBIT", help="Mbit/s to send by UDP (200)"
    )
    parser.add_argument("--logs", type=Path, metavar="DIR", help="keep the programs' output there")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.seconds < 2:
        parser.error("--seconds: at least 2 (one for TCP, one for UDP)")
    if arguments.udp_rate < 1:  # which iperf3 would take as unlimited
        parser.error("--udp-rate: at least 1 Mbit/s")
    for option, path in ("--json", arguments.json), ("--logs", arguments.logs):
        if path and path.resolve().is_relative_to(namespaces.PRIVATE_DIR):
            parser.error(f"{option}: {namespaces.PRIVATE_DIR} is the demo's own while it runs,"
                         " and ends with it: name another folder")
    if arguments.json and (problem := why_not_writable(arguments.json)):
        parser.error(f"--json: cannot write {arguments.json}: {problem}")
    if len(arguments.device) not in (0, 2):
        parser.error("--device: give it twice, testpmd forwards between two ports")
    if len({bool(device.peer) for device in arguments.device}) > 1:
        parser.error("--device: give peer= to both or to none")
    return arguments


class Demo:
    """Everything that runs during the demo. It disappears with the namespaces at the end."""

    def __init__(self, arguments: argparse.Namespace, logs: Path) -> None:
        self.arguments = arguments
        self.logs = logs
        self.screen = Screen()
        self.devices: list[RealDevice] = arguments.device
        self.softhca = str(arguments.build / "app/softhca/softhca")
        if not self.devices:  # then the network namespace is ours
            namespaces.run(*traffic.WITHOUT_IPV6)
        self.namespaces = [namespaces.NetworkNamespace(side) for side in SIDES]
        self.testpmd = self._start_testpmd()
        if self.devices and not self.devices[0].peer:
            self._find_peers()
        self._plug_interfaces()
        self.testpmd.start("io")

    # -- set-up -----------------------------------------------------------------------------------

    def _start_testpmd(self) -> Testpmd:
        names = [device.name for device in self.devices] or ["mlx5_0", "mlx5_1"]
        ports, launcher = ["-d", DRIVER], []
        for index, name in enumerate(names):
            ports += ["--vdev", f"net_rawqp{index},device={name},datapath={self.arguments.datapath}"]
        if not self.devices:
            launcher = [self.softhca]
            for index, side in enumerate(SIDES):
                launcher += ["--port", f"mac={port_mac(index)},wire=tap:{side}"]
        return start_testpmd(self.arguments.build, launcher, ports, 4096, self.logs / "testpmd.log")

    def _find_peers(self) -> None:
        for device, peer in zip(self.devices, cables.find_peers(self.testpmd)):
            device.peer = peer
            self.screen.say(f"{device.name} is cabled to {peer}")

    def interface(self, side: int) -> str:
        return self.devices[side].peer if self.devices else SIDES[side]

    def _plug_interfaces(self) -> None:
        """Gives each kernel its end of the cable."""
        for side, address in enumerate((traffic.LEFT_IP, traffic.RIGHT_IP)):
            traffic.plug_in(self.namespaces[side], self.interface(side), address)

    # -- counters ---------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        return Snapshot(
            interfaces=[self._interface_stats(side) for side in range(2)],
            devices=[] if self.devices else self._device_counters(),
            ports=[self.testpmd.stats(port) for port in range(2)],
            forward=self.testpmd.forward_stats(),
        )

    def _interface_stats(self, side: int) -> InterfaceStats:
        text = self.namespaces[side].run("ip", "-j", "-s", "link", "show", self.interface(side))
        stats = json.loads(text)[0]["stats64"]
        return InterfaceStats(
            rx_packets=stats["rx"]["packets"],
            rx_bytes=stats["rx"]["bytes"],
            tx_packets=stats["tx"]["packets"],
            tx_bytes=stats["tx"]["bytes"],
            tx_dropped=stats["tx"]["dropped"],
        )

    def _device_counters(self) -> list[dict[str, int]]:
        pid = program_under(self.testpmd.program)
        stat = namespaces.run(self.softhca, "stat", "--json", f"--pid={pid}")
        devices = devices_of(json.loads(stat))
        return [devices[name]["counters"] for name in ("mlx5_0", "mlx5_1")]

    def quiet_snapshot(self) -> Snapshot:
        """A snapshot with no packets in flight: two in a row are equal."""
        before = self.snapshot()
        for _ in range(50):
            after = self.snapshot()
            if after == before:
                return after
            before = after
        return before

    # -- the run ----------------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        left, right = self.namespaces
        mode = self.testpmd.rx_burst_mode(0), self.testpmd.tx_burst_mode(0)
        self.screen.say(f"two ports are up; rx: {mode[0]}, tx: {mode[1]}")

        baseline = self.quiet_snapshot()
        ping = traffic.ping(left)
        self.screen.say(f"ping: {ping.received} of {ping.sent} answered, {ping.rtt_us:.0f} us")

        tcp_seconds = self.arguments.seconds // 2
        udp_seconds = self.arguments.seconds - tcp_seconds
        tcp = self._iperf("TCP").tcp(tcp_seconds)
        self._end_phase(f"TCP: {tcp.gbps:.2f} Gbit/s, {tcp.retransmits} retransmits")
        udp = self._iperf("UDP").udp(udp_seconds, self.arguments.udp_rate * 1_000_000, payload=512)
        self._end_phase(
            f"UDP: {udp.pps:,.0f} packets/s, {udp.gbps:.2f} Gbit/s, {udp.lost} of {udp.sent} lost,"
            f" {udp.socket_full} of them by iperf3's full socket"
        )
        final = self.quiet_snapshot()
        if self.devices:
            final = since(final, baseline)  # real counters did not start at zero
        ledger = balance(final)
        self._show(final, ledger)
        return {
            "tcp_gbps": round(tcp.gbps, 3),
            "tcp_retransmits": tcp.retransmits,
            "udp_pps": round(udp.pps),
            "udp_gbps": round(udp.gbps, 3),
            "udp_sent": udp.sent,
            "udp_lost": udp.lost,
            "udp_socket_full": udp.socket_full,
            "ping_sent": ping.sent,
            "ping_received": ping.received,
            "ping_rtt_us": round(ping.rtt_us),
            "rx_burst_mode": mode[0],
            "tx_burst_mode": mode[1],
            "offered": ledger.offered,
            "delivered": ledger.delivered,
            "dropped": ledger.dropped,
            "unaccounted": ledger.unaccounted,
        }

    def _iperf(self, phase: str) -> traffic.Iperf:
        self.screen.start_live(self.snapshot())
        left, right = self.namespaces
        show = lambda: self.screen.figures(phase, self.snapshot())  # noqa: E731
        return traffic.Iperf(left, right, self.logs, show)

    def _end_phase(self, text: str) -> None:
        self.screen.end_live()
        self.screen.say(text)

    def _show(self, final: Snapshot, ledger: Ledger) -> None:
        ways = [[name, *(f"{count:,}" for count in counts)] for name, counts in hops(final)]
        self.screen.table("packets at each hop", [["", "left to right", "right to left"], *ways])
        self.screen.table("verdict", [
            ["", "packets"],
            ["offered", f"{ledger.offered:,}"],
            ["delivered", f"{ledger.delivered:,}"],
            *([f"dropped: {name}", f"{count:,}"] for name, count in ledger.dropped.items()),
            ["unaccounted for", f"{ledger.unaccounted:,}"],
        ])

    def close(self) -> list[str]:
        """Returns what went wrong: a driver may crash when its ports are closed."""
        self.screen.end_live()
        status = self.testpmd.quit()
        self.testpmd.program.close()
        return [f"dpdk-testpmd ended with status {status}; its output: --logs DIR"] if status else []


def since(final: Snapshot, baseline: Snapshot) -> Snapshot:
    """The difference of the counters between the two."""

    def subtract(a: Any, b: Any) -> Any:
        return type(a)(**{key: value - getattr(b, key) for key, value in vars(a).items()})

    return Snapshot(
        interfaces=[subtract(a, b) for a, b in zip(final.interfaces, baseline.interfaces)],
        devices=[],
        ports=[subtract(a, b) for a, b in zip(final.ports, baseline.ports)],
        forward={port: subtract(a, baseline.forward[port]) for port, a in final.forward.items()},
    )


def problems(result: dict[str, Any]) -> list[str]:
    """Why the demo failed; empty if it did not."""
    found = []
    if result["unaccounted"]:
        found.append(f"{result['unaccounted']} packets are unaccounted for")
    if result["ping_received"] == 0:
        found.append("no ping was answered")
    if result["tcp_gbps"] == 0:
        found.append("TCP moved nothing")
    if result["udp_pps"] == 0:
        found.append("UDP moved nothing")
    if result["udp_lost"] > result["udp_socket_full"] + sum(result["dropped"].values()):
        found.append("more datagrams were lost than any counter explains")
    return found


def inside(arguments: argparse.Namespace) -> int:
    """Runs as process 1 of the demo's namespaces."""
    private = Path(tempfile.mkdtemp(dir=namespaces.PRIVATE_DIR, prefix="demo-"))
    logs = private / "logs"
    logs.mkdir()
    os.environ["XDG_RUNTIME_DIR"] = str(private)
    demo = None
    try:
        demo = Demo(arguments, logs)
        result = demo.run()
        found = problems(result)
        if arguments.json:
            arguments.json.write_text(json.dumps(result, indent=2) + "\n")
        found += demo.close()
    except (RuntimeError, AssertionError, OSError) as error:
        found = [str(error)]
    except (subprocess.SubprocessError, ValueError, LookupError) as error:  # of a command, or its output
        found = [f"{type(error).__name__}: {error}"]
    finally:
        if demo:
            demo.screen.end_live()
        if arguments.logs:
            shutil.copytree(logs, arguments.logs, dirs_exist_ok=True)
    for problem in found:
        print(f"demo FAILED: {problem}")
    if not found:
        print("demo passed: every packet was delivered or is counted by its cause")
    return 1 if found else 0


def main() -> int:
    arguments = parse_arguments()
    try:
        return namespaces.run_inside(
            lambda: inside(arguments), private_network=not arguments.device
        )
    except namespaces.NamespaceError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
