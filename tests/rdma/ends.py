# SPDX-License-Identifier: BSD-3-Clause
"""Two programs whose ports are connected by a cable, on each front that can cable two processes."""

import os
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Callable, Sequence

from rig.guest import Guest
from rig.ports import PortSpec, device_name, port_mac
from rig.program import Program
from rig.screen import Screen
from rig.stack import OWN_NETWORK, Build, SoftHca

# An empty receive queue pauses the cable: perftest needs everything that was sent.
CABLE = {"pause": "on"}
# The length field of perftest's IPv6 packets is wrong, so a filtering bridge drops them.
BRIDGE = """
ip link add cable type bridge stp_state 0 forward_delay 0 mcast_snooping 0
for filter in /proc/sys/net/bridge/bridge-nf-call-*; do ! [ -e $filter ] || echo 0 > $filter; done
for end in 0 1; do
    ip tuntap add end$end mode tap
    ip link set end$end master cable up
done
ip link set cable up
echo ready
exec cat
"""
# A bridge forwards only from TAPs with a carrier, which it notices with a delay. A program that opens the
# port would have sent everything by then.
WHEN_FORWARDED = """
ip link set $0 carrier on
until [ "$(cat /sys/class/net/$0/brport/state)" = 3 ]; do sleep 0.05; done
exec "$@"
"""


class Ends:
    """The cable, and the programs at its ends 0 and 1."""

    def __init__(self) -> None:
        self._programs = ExitStack()
        self._cable = ExitStack()

    def start(self, end: int, command: Sequence[str]) -> Screen:
        raise NotImplementedError

    def device(self, end: int) -> str:
        return device_name(end)

    def end_programs(self) -> None:
        self._programs.close()

    def close(self) -> None:
        self._programs.close()
        self._cable.close()


class WireEnds(Ends):
    """Each program has a softhca of its own."""

    def __init__(self, build: Build, new_folder: Callable[[], Path], wire: str) -> None:
        super().__init__()
        self._build, self._new_folder = build, new_folder
        name = f"t{uuid.uuid4().hex[:12]}"
        self._wires = {"link": [f"link:{name}"] * 2, "socket": [f"socket:{new_folder()}/cable"] * 2,
                       "tap": ["tap:end0", "tap:end1"]}[wire]
        self._bridged = wire == "tap"
        self._prefix = self._enter_bridged_network() if self._bridged else []

    def _enter_bridged_network(self) -> list[str]:
        network = Program([*OWN_NETWORK, "sh", "-ec", BRIDGE], self._new_folder() / "network.log")
        self._cable.callback(network.close)
        network.wait_for("^ready$")
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return ["nsenter", f"--target={network.pid}", *user, "--net", "--mount", "--"]

    def start(self, end: int, command: Sequence[str]) -> Screen:
        # perftest checks the port's state once, when the first end has no peer yet.
        options = {**CABLE, "carrier": "always", "mac": port_mac(end), "device": device_name(end)}
        if self._bridged:
            command = ["sh", "-ec", WHEN_FORWARDED, f"end{end}", *command]
        hca = SoftHca(self._build, self._new_folder(), [PortSpec(self._wires[end], options)], command,
                      prefix=self._prefix)
        self._programs.callback(hca.close)
        return hca.program


class GuestEnds(Ends):
    """Both programs run in one guest, which has a PCI function for each."""

    def __init__(self, guest: Guest, new_folder: Callable[[], Path], hugepages: int) -> None:
        super().__init__()
        self._guest, self._new_folder = guest, new_folder
        guest.drop_spares()
        cable = f"link:t{uuid.uuid4().hex[:12]}"
        self._ports = guest.provide([PortSpec(cable, CABLE)] * 2, new_folder())
        for port in self._ports:
            self._cable.callback(port.unplug)
        self._cable.enter_context(guest.hugepages(hugepages))

    def device(self, end: int) -> str:
        return self._ports[end].name

    def start(self, end: int, command: Sequence[str]) -> Screen:
        program = self._guest.start(command, self._new_folder() / "output.log")
        self._programs.callback(program.close)
        return program
