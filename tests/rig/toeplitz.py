# SPDX-License-Identifier: BSD-3-Clause
"""The Toeplitz hash, written directly from its definition, as the reference for the device."""

import socket


def toeplitz(key: bytes, data: bytes) -> int:
    """XOR of the 32 key bits from each position where `data` has a set bit."""
    key_bits = int.from_bytes(key, "big")
    key_length = len(key) * 8
    result = 0
    for position in range(len(data) * 8):
        if data[position // 8] >> (7 - position % 8) & 1:
            result ^= key_bits >> (key_length - 32 - position) & 0xFFFFFFFF
    return result


def flow_hash(
    key: bytes, source: str, destination: str, ports: tuple[int, int] | None = None
) -> int:
    """The hash of an IPv4 or IPv6 address pair, with (source, destination) ports if they are hashed."""
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    data = socket.inet_pton(family, source) + socket.inet_pton(family, destination)
    for port in ports or ():
        data += port.to_bytes(2, "big")
    return toeplitz(key, data)
