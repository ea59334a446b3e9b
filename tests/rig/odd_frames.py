# SPDX-License-Identifier: BSD-3-Clause
"""Frames that no honest sender produces, from a seed: truncated, oversized, damaged and random ones."""

import random
import struct
from dataclasses import dataclass
from typing import Iterator

from scapy.layers.inet import ICMP, IP, TCP, UDP, GRE
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from .packets import BROADCAST, ether, ipv4, ipv6, marker

HEADER = 14  # of Ethernet: shorter frames are undersize
LONGEST = 1518  # accepted by a port with an MTU of 1500, with a VLAN tag: longer frames are oversize
LONGEST_ON_WIRE = 9600

# Header of a capture file (pcap): magic number, version 2.4, no offset, frames up to 64 KiB, Ethernet.
FILE_HEADER = struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
BATCH = 1000
STRANGER = "02:00:00:00:99:01"  # not the address of any port


def models() -> list[bytes]:
    """Valid frames, so that parsers get as far as possible before they meet the damage."""
    inner = Ether(src="02:00:00:00:77:01", dst=BROADCAST) / IP() / TCP() / Raw(bytes(40))
    payload = Raw(bytes(range(90)))
    tunnels: list[Packet] = [
        ether() / ipv4() / UDP(dport=4789) / VXLAN(vni=7) / inner,
        ether() / ipv6() / UDP(dport=4789) / VXLAN(vni=7) / inner,
        ether() / ipv4() / GRE() / IP() / UDP() / payload,
        ether() / ipv4() / IPv6(src="fd00::3", dst="fd00::4") / TCP() / payload,
    ]
    plain: list[Packet] = [
        ether() / ipv4() / TCP(flags="PA") / payload, ether() / ipv6() / UDP() / payload,
        ether() / Dot1Q(vlan=5) / ipv4() / UDP() / payload,
        ether() / Dot1AD(vlan=5) / Dot1Q(vlan=6) / ipv6() / TCP() / payload,
        ether() / IP(src="10.0.0.1", dst="10.0.0.2", options=[b"\1\1\1\0"] * 10) / UDP() / payload,
        ether() / ipv4(flags="MF") / UDP() / payload, ether() / ipv4(frag=9) / payload,
        ether() / ipv6() / IPv6ExtHdrHopByHop() / IPv6ExtHdrFragment(m=1) / UDP() / payload,
        ether() / ipv4() / ICMP() / payload, ether(BROADCAST) / ARP(pdst="10.0.0.1", hwdst=BROADCAST),
    ]
    return [bytes(packet) for packet in plain + tunnels]


@dataclass
class Tally:
    """Counts of the frames produced so far."""

    undersize: int = 0
    oversize: int = 0
    others: int = 0  # which a port must accept

    def note(self, frame: bytes) -> None:
        if len(frame) < HEADER:
            self.undersize += 1
        elif len(frame) > LONGEST:
            self.oversize += 1
        else:
            self.others += 1

    @property
    def total(self) -> int:
        return self.undersize + self.oversize + self.others


def odd_frames(seed: int, count: int) -> Iterator[bytes]:
    """The first frame is sound, and only a promiscuous port takes it: a wire that plays the frames begins with the
    port that takes all of them."""
    yield marker(destination=STRANGER)
    chance = random.Random(seed)
    sound = models()
    noise = chance.randbytes(1 << 20)
    room = len(noise) - LONGEST_ON_WIRE
    uniform = chance.random
    for _ in range(count - 1):
        kind, at = uniform(), int(uniform() * room)
        if kind < 0.02:  # shorter than a header
            yield noise[at:at + 1 + at % (HEADER - 1)]
        elif kind < 0.03:  # too long, by one byte or by many
            yield noise[at:at + LONGEST + 1 + (at % 2 and at % (LONGEST_ON_WIRE - LONGEST))]
        elif kind < 0.04:  # the longest valid one
            yield noise[at:at + LONGEST - at % 6]
        elif kind < 0.3:  # random
            yield noise[at:at + HEADER + at % 150]
        else:
            frame = sound[at % len(sound)]
            if kind < 0.6:  # truncated
                yield frame[:HEADER + at % (len(frame) - HEADER)]
            else:  # damaged: some bytes in the headers
                where = HEADER - 2 + int(uniform() * min(60, len(frame) - HEADER))
                yield frame[:where] + noise[at:at + 1 + at % 3] + frame[where + 1 + at % 3:]


def as_capture(frames: Iterator[bytes], tally: Tally) -> Iterator[bytes]:
    """The parts of a capture file with these frames."""
    yield FILE_HEADER
    head = struct.Struct("=IIII")
    parts: list[bytes] = []
    for frame in frames:
        tally.note(frame)
        parts += (head.pack(0, 0, len(frame), len(frame)), frame)
        if len(parts) == 2 * BATCH:
            yield b"".join(parts)
            parts.clear()
    yield b"".join(parts)
