# SPDX-License-Identifier: BSD-3-Clause
"""The traffic of the demo: ping, then iperf3 TCP and UDP, from the left kernel to the right one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from rig.program import Program, ProgramError

from .namespaces import NetworkNamespace

# IPv6 would send packets by itself (router solicitations) while we count.
WITHOUT_IPV6 = ("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
LEFT_IP = "10.99.0.1"
RIGHT_IP = "10.99.0.2"


@dataclass
class Ping:
    sent: int
    received: int
    rtt_us: float  # average


@dataclass
class Tcp:
    gbps: float
    retransmits: int


@dataclass
class Udp:
    gbps: float  # received
    pps: float  # received
    sent: int
    lost: int
    socket_full: int  # part of the lost: dropped after the wire, because the receiver was too slow


def plug_in(space: NetworkNamespace, interface: str, address: str) -> None:
    """Moves an interface of the current namespace, its end of a cable, to the given one."""
    space.run(*WITHOUT_IPV6)
    space.take(interface)
    space.run("ip", "link", "set", "lo", "up")
    space.run("ip", "address", "add", f"{address}/24", "dev", interface)
    space.run("ip", "link", "set", interface, "txqueuelen", "4000", "up")


def ping(left: NetworkNamespace, count: int = 20) -> Ping:
    text = left.run("ping", "-c", str(count), "-i", "0.05", "-W", "2", RIGHT_IP)
    found = re.search(r"(\d+) packets transmitted, (\d+) received", text)
    times = re.search(r"= [\d.]+/([\d.]+)/", text)
    if not found:
        raise RuntimeError(f"ping said: {text}")
    return Ping(int(found[1]), int(found[2]), float(times[1]) * 1000 if times else 0.0)


class Iperf:
    """Runs iperf3 with its server on the right; `each_second` is called while it runs."""

    def __init__(
        self,
        left: NetworkNamespace,
        right: NetworkNamespace,
        logs: Path,
        each_second: Callable[[], None],
    ) -> None:
        self._left, self._right = left, right
        self._logs = logs
        self._each_second = each_second

    def tcp(self, seconds: int) -> Tcp:
        end = self._run("tcp", seconds, [])["end"]
        return Tcp(
            gbps=end["sum_received"]["bits_per_second"] / 1e9,
            retransmits=end["sum_sent"].get("retransmits", 0),
        )

    def udp(self, seconds: int, bits_per_second: int, payload: int) -> Udp:
        options = ["--udp", "--bitrate", str(bits_per_second), "--length", str(payload)]
        before = self._datagrams_for_full_sockets()
        total = self._run("udp", seconds, options)["end"]["sum"]
        received = total["packets"] - total["lost_packets"]
        return Udp(
            gbps=received * payload * 8 / total["seconds"] / 1e9,
            pps=received / total["seconds"],
            sent=total["packets"],
            lost=total["lost_packets"],
            socket_full=self._datagrams_for_full_sockets() - before,
        )

    def _datagrams_for_full_sockets(self) -> int:
        """The right kernel's count (RcvbufErrors)."""
        names, values = re.findall(r"(?m)^Udp: (.*)$", self._right.run("cat", "/proc/net/snmp"))
        return int(dict(zip(names.split(), values.split()))["RcvbufErrors"])

    def _run(self, name: str, seconds: int, options: list[str]) -> dict[str, Any]:
        server_command = ["iperf3", "--server", "--one-off", "--forceflush"]
        server = Program(self._right.wrap(server_command), self._logs / f"{name}-server.log")
        result = self._logs / f"{name}.json"
        client_command = ["iperf3", "--client", RIGHT_IP, "--time", str(seconds), "--json"]
        client_command += ["--logfile", str(result), *options]
        client = None
        try:
            server.wait_for("Server listening")
            client = Program(self._left.wrap(client_command), self._logs / f"{name}-client.log")
            self._watch(client, seconds + 20)
            report: dict[str, Any] = json.loads(result.read_text())
        finally:
            for program in filter(None, (client, server)):
                program.close()
        if "error" in report:
            raise RuntimeError(f"iperf3 {name}: {report['error']}")
        return report

    def _watch(self, client: Program, seconds: int) -> None:
        for _ in range(seconds):
            try:
                client.wait(1)
                return
            except ProgramError:  # still running
                self._each_second()
        raise RuntimeError(f"iperf3 has not finished after {seconds} s")
