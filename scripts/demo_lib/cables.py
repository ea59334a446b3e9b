# SPDX-License-Identifier: BSD-3-Clause
"""Finds out which interfaces of this machine the two ports of testpmd are cabled to.

While testpmd forwards, frames that enter one port leave the other, so a frame sent from the interface at
the end of one cable arrives at the end of the other. Frames have an EtherType for local experiments.
"""

from __future__ import annotations

import json
import os
import select
import socket
import time
from contextlib import ExitStack

from rig.testpmd import Testpmd

from . import namespaces

PROBE_TYPE = 0x88B5
PROBE_BYTES = 60
PATIENCE = 1.0  # seconds for a probe to come back
COUNTED = 100  # frames that show, by the port's counter, where they entered


class CableError(RuntimeError):
    """States what was found, and how to name the interfaces to the demo instead."""


def up_interfaces() -> list[str]:
    """Ethernet interfaces that can send."""
    links = json.loads(namespaces.run("ip", "-j", "link", "show", "up"))
    return [link["ifname"] for link in links if link.get("link_type") == "ether"]


class Probes:
    """One socket on each interface, for frames of PROBE_TYPE only."""

    def __init__(self, interfaces: list[str]) -> None:
        self._stack = ExitStack()
        self._sockets: dict[str, socket.socket] = {}
        for name in interfaces:
            one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(PROBE_TYPE))
            self._stack.enter_context(one)
            one.bind((name, PROBE_TYPE))
            self._sockets[name] = one

    def close(self) -> None:
        self._stack.close()

    def send(self, name: str, token: bytes, count: int = 1) -> None:
        header = b"\x02demo\x00" + b"\x02demo\x01" + PROBE_TYPE.to_bytes(2, "big")
        frame = (header + token + name.encode()).ljust(PROBE_BYTES, b"\0")
        for _ in range(count):
            self._sockets[name].send(frame)

    def round(self) -> set[tuple[str, str]]:
        """Sends from every interface; returns who was received where, as (sender, receiver)."""
        token = os.urandom(8)
        for name in self._sockets:
            self.send(name, token)
        heard = set()
        names = {one: name for name, one in self._sockets.items()}
        deadline = time.monotonic() + PATIENCE
        while (left := deadline - time.monotonic()) > 0:
            for one in select.select(list(names), [], [], left)[0]:
                content = one.recv(2048)[14:]
                if content.startswith(token):
                    heard.add((content[len(token):].rstrip(b"\0").decode(), names[one]))
        return heard


def find_peers(testpmd: Testpmd) -> list[str]:
    """The interfaces cabled to testpmd's ports 0 and 1. testpmd is stopped before and after."""
    interfaces = up_interfaces()
    probes = Probes(interfaces)
    try:
        directly = probes.round()  # over a switch, a bridge, a cable between two of them
        testpmd.start("io")
        through = probes.round() - directly
        pairs = {tuple(sorted(pair)) for pair in through if pair[0] != pair[1]}
        if len(pairs) != 1:
            raise CableError(
                f"cannot see which interfaces the devices are cabled to: of {', '.join(interfaces)}"
                f" (all that are up), {len(pairs)} pairs are connected through the devices. Bring"
                " the right ones up, or name them: --device DEV,peer=INTERFACE"
            )
        one, other = pairs.pop()
        before = [testpmd.stats(port).rx_packets for port in range(2)]
        probes.send(one, os.urandom(8), COUNTED)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            for port in range(2):
                if testpmd.stats(port).rx_packets - before[port] >= COUNTED:
                    return [one, other] if port == 0 else [other, one]
        raise CableError(f"{one} is connected to neither port directly")
    finally:
        probes.close()
        testpmd.stop()
