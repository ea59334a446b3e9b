# SPDX-License-Identifier: BSD-3-Clause
"""TCP segments, and how LRO merges them."""

import os
import signal
from dataclasses import dataclass, replace
from typing import Sequence

from scapy.layers.inet import TCP
from scapy.layers.l2 import Dot1Q
from scapy.packet import Packet, Raw

from .launched import suspend
from .packets import ether, ipv4, ipv6
from .stack import Stack

MSS = 1400


@dataclass(frozen=True)
class Segment:
    """A TCP segment, or several in one packet."""

    number: int = 0  # of the first one
    count: int = 1
    flow: int = 0
    version: int = 4
    tags: tuple[int, ...] = ()
    flags: str = "A"
    ttl: int = 64
    ack: int = 1000
    window: int = 500
    time_stamp: int | None = None

    @property
    def data(self) -> bytes:
        numbers = range(self.number, self.number + self.count)
        return b"".join(bytes((self.flow + n + 7 * i) % 256 for i in range(MSS)) for n in numbers)

    def frame(self) -> Packet:
        frame = ether()
        for tag in self.tags:
            frame /= Dot1Q(vlan=tag)
        frame /= ipv4(ttl=self.ttl) if self.version == 4 else ipv6(hlim=self.ttl)
        options = [] if self.time_stamp is None else [
            ("NOP", None), ("NOP", None), ("Timestamp", (self.time_stamp, 7))]
        tcp = TCP(sport=1000 + self.flow, dport=2000, flags=self.flags, ack=self.ack, options=options,
                  seq=(0xFFFFFF00 + self.number * MSS) % 2**32, window=self.window)
        return frame / tcp / Raw(self.data)


def joined(segments: Sequence[Segment]) -> Segment:
    """The packet that LRO makes of them."""
    first, last = segments[0], segments[-1]
    return replace(first, count=len(segments), ttl=min(segment.ttl for segment in segments),
                   ack=last.ack, window=last.window, flags=last.flags)


def send_at_once(stack: Stack, frames: Sequence[Packet]) -> None:
    """Sends frames so that the device finds all of them on the wire: no time passes between them."""
    device = stack.device_process(0)
    suspend(device)
    try:
        stack.wires[0].send_all(frames)
    finally:
        os.kill(device, signal.SIGCONT)


def flow(count: int, **fields: object) -> list[Segment]:
    """Segments that differ only in fields that may differ."""
    return [replace(Segment(), number=n, ttl=64 - n % 2, ack=1000 * n, window=500 + n, **fields)
            for n in range(count)]
