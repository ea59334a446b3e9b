# SPDX-License-Identifier: BSD-3-Clause
"""Which checksums of a frame are right or wrong, by Scapy's sums, field by field."""

import struct

from scapy.layers.inet import TCP, UDP
from scapy.layers.inet6 import IPv6ExtHdrDestOpt, IPv6ExtHdrRouting, PadN
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.utils import checksum

from .packets import ether, ipv4, ipv6, udp4

GOOD, BAD, UNKNOWN = "GOOD", "BAD", "UNKNOWN"
VLAN_TYPES = (0x8100, 0x88A8)
TCP_PROTOCOL, UDP_PROTOCOL = 6, 17

Verdicts = dict[str, str]  # by layer, "IP" and "L4"


def word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at:at + 2], "big")


def verdicts(frame: bytes) -> Verdicts:
    """For frames without tunnels, fragments, options and extension headers; the rest is unknown."""
    at = 12
    while word(frame, at) in VLAN_TYPES:
        at += 4
    found = {"IP": UNKNOWN, "L4": UNKNOWN}
    l3, kind = frame[at + 2:], word(frame, at)
    if kind == 0x0800 and len(l3) >= 20 and 0x45 <= l3[0] <= 0x4F:
        header = l3[:(l3[0] & 15) * 4]
        found["IP"] = UNKNOWN if len(header) % 4 else BAD if checksum(header) else GOOD
        fragment = word(l3, 6) & 0x3FFF
        size = word(l3, 2)
        if l3[0] == 0x45 and not fragment and 20 <= size <= len(l3):
            found["L4"] = l4_verdict(l3[12:20], l3[9], l3[20:size])
        if found["IP"] == BAD and found["L4"] == BAD:
            found["L4"] = UNKNOWN  # as the header before it is broken
    elif kind == 0x86DD and len(l3) >= 40 and l3[0] >> 4 == 6 and 40 + word(l3, 4) <= len(l3):
        found["L4"] = l4_verdict(l3[8:40], l3[6], l3[40:40 + word(l3, 4)])
    return found


def l4_verdict(addresses: bytes, protocol: int, data: bytes) -> str:
    if protocol == UDP_PROTOCOL and len(data) >= 8:
        if word(data, 6) == 0:
            return GOOD if len(addresses) == 8 else UNKNOWN
        if not 8 <= word(data, 4) <= len(data):
            return UNKNOWN
        data = data[:word(data, 4)]
    elif protocol != TCP_PROTOCOL or len(data) < 20 or not 20 <= data[12] // 16 * 4 <= len(data):
        return UNKNOWN
    pseudo_header = addresses + struct.pack("!HH", protocol, len(data))
    return BAD if checksum(pseudo_header + data) else GOOD


def with_surplus(frame: Packet, surplus: bytes = b"surplus") -> bytes:
    """Adds bytes after the UDP datagram that IP's length includes (RFC 9868)."""
    longer = frame.copy()
    longer[UDP].len = 8 + len(frame[UDP].payload)
    longer[UDP].chksum = Ether(bytes(frame))[UDP].chksum
    return bytes(longer / Raw(surplus))


def routed() -> bytes:
    """A source-routed frame: the sender's sum covers the final address, which is not yet in the IPv6 header."""
    header = IPv6ExtHdrRouting(addresses=["fd00::9"], segleft=1)
    final = ether() / ipv6(destination="fd00::9") / UDP(sport=1, dport=2) / Raw(b"routed")
    udp = UDP(sport=1, dport=2, chksum=Ether(bytes(final))[UDP].chksum)
    return bytes(ether() / ipv6() / header / udp / Raw(b"routed"))


# Independent of the device's verdict. A sum that cannot be judged is neither right nor wrong.
DOUBTFUL: dict[str, tuple[bytes, Verdicts]] = {
    "surplus area": (with_surplus(udp4()), {"IP": GOOD, "L4": GOOD}),
    "segments left": (routed(), {"IP": UNKNOWN, "L4": UNKNOWN}),
    "destination options": (
        bytes(ether() / ipv6() / IPv6ExtHdrDestOpt(options=[PadN(optdata=bytes(4))])
              / UDP(sport=1, dport=2) / Raw(b"options")),
        {"IP": UNKNOWN, "L4": GOOD}),
    "more bytes than there are": (
        bytes(ether() / ipv4(len=200) / UDP(sport=1, dport=2) / Raw(b"short")),
        {"IP": GOOD, "L4": UNKNOWN}),
    "fewer bytes than there are": (
        bytes(ether() / ipv4(len=40, proto=TCP_PROTOCOL) / Raw(bytes(40))),
        {"IP": GOOD, "L4": UNKNOWN}),
    "options": (
        bytes(ether() / ipv4(options=b"\x01" * 4) / UDP(sport=1, dport=2) / Raw(b"options")),
        {"IP": GOOD, "L4": GOOD}),
    "options, sum wrong": (
        bytes(ether() / ipv4(options=b"\x01" * 4) / UDP(sport=1, dport=2, chksum=0x1234)
              / Raw(b"options")),
        {"IP": GOOD, "L4": UNKNOWN}),
    "no sum over IPv6": (
        bytes(ether() / ipv6() / UDP(sport=1, dport=2, chksum=0) / Raw(b"none")),
        {"IP": UNKNOWN, "L4": UNKNOWN}),
    "IP header wrong": (
        bytes(ether() / ipv4(chksum=0x1234) / TCP(sport=1, dport=2) / Raw(b"header")),
        {"IP": BAD, "L4": GOOD}),
    "both wrong": (
        bytes(ether() / ipv4(chksum=0x1234) / TCP(sport=1, dport=2, chksum=1) / Raw(b"both")),
        {"IP": BAD, "L4": UNKNOWN}),
}
