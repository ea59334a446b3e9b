# SPDX-License-Identifier: BSD-3-Clause
"""Frames for the tests. Nothing here asks the host for addresses or routes."""

import random
from typing import Iterator

from scapy.config import conf
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from .ports import port_mac

PEER_MAC = "02:aa:00:00:00:01"  # sender on the wires
BROADCAST = "ff:ff:ff:ff:ff:ff"
TEST_TYPE, MARKER_TYPE = 0x88B5, 0x88B6  # EtherTypes for local experiments


def forbid_address_resolution() -> None:
    """Scapy would resolve a missing destination by ARP, on the machine's own network."""
    conf.neighbor.resolvers.clear()
    conf.raise_no_dst_mac = True


def ether(destination: str = port_mac(0), source: str = PEER_MAC, **fields: int) -> Packet:
    return Ether(dst=destination, src=source, **fields)


def ipv4(source: str = "10.0.0.1", destination: str = "10.0.0.2", **fields: object) -> Packet:
    return IP(src=source, dst=destination, **fields)


def ipv6(source: str = "fd00::1", destination: str = "fd00::2", **fields: object) -> Packet:
    return IPv6(src=source, dst=destination, **fields)


def udp4(payload: bytes = b"payload", *, destination: str = port_mac(0), sport: int = 1000,
         dport: int = 2000, source_ip: str = "10.0.0.1",
         destination_ip: str = "10.0.0.2") -> Packet:
    return (ether(destination) / ipv4(source_ip, destination_ip)
            / UDP(sport=sport, dport=dport) / Raw(payload))


def udp6(payload: bytes = b"payload", *, sport: int = 1000, dport: int = 2000) -> Packet:
    return ether() / ipv6() / UDP(sport=sport, dport=dport) / Raw(payload)


def tcp4(payload: bytes = b"payload", *, sport: int = 1000, dport: int = 2000) -> Packet:
    return ether() / ipv4() / TCP(sport=sport, dport=dport, seq=7, flags="PA") / Raw(payload)


def tcp6(payload: bytes = b"payload", *, sport: int = 1000, dport: int = 2000) -> Packet:
    return ether() / ipv6() / TCP(sport=sport, dport=dport, seq=7, flags="PA") / Raw(payload)


def opaque(length: int, seed: int, destination: str = port_mac(0)) -> bytes:
    """A frame of an experimental EtherType with random content."""
    header = bytes(Ether(dst=destination, src=PEER_MAC, type=TEST_TYPE))
    return header + random.Random(seed).randbytes(length - len(header))


def numbered(count: int, length: int = 60, destination: str = port_mac(0)) -> Iterator[bytes]:
    """Frames that differ in a sequence number: for order and loss."""
    header = bytes(Ether(dst=destination, src=PEER_MAC, type=TEST_TYPE))
    filler = bytes(length - len(header) - 8)
    for index in range(count):
        yield header + index.to_bytes(8, "big") + filler


def marker(number: int = 0, destination: str = BROADCAST) -> bytes:
    """A frame that every port accepts: sent last, it shows which frames did not pass before it."""
    header = bytes(Ether(dst=destination, src=PEER_MAC, type=MARKER_TYPE))
    return header + b"marker" + number.to_bytes(4, "big") + bytes(36)


def marker_by_length(number: int) -> bytes:
    """A marker whose number testpmd shows. Rules may make the device deliver a marker twice, so two received
    markers need not be two sent ones."""
    return marker(number) + bytes(number)
