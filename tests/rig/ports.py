# SPDX-License-Identifier: BSD-3-Clause
"""Ports as tests request them, on either front."""

from dataclasses import dataclass, field
from typing import Mapping


@dataclass
class PortSpec:
    """One port of softhca, and the net_rawqp device on it."""

    wire: str = "socket"  # "socket": created by the rig; else a wire in softhca's syntax
    options: Mapping[str, str] = field(default_factory=dict)  # further keys of softhca --port
    devargs: str = ""  # further device arguments of the driver


def lossless(count: int, devargs: str = "", **options: str) -> list[PortSpec]:
    """Ports whose empty rings pause the wire, so that everything sent to them arrives. Tests use these unless
    they are about loss, so that successive stacks can use the same ports of a guest."""
    return [PortSpec(options={"pause": "on", **options}, devargs=devargs) for _ in range(count)]


def device_name(index: int) -> str:
    return f"mlx5_{index}"


def port_mac(index: int) -> str:
    """The MAC address that the rig gives to port `index`."""
    return f"02:00:00:00:00:{index + 1:02x}"


def pci_address(index: int) -> str:
    return f"0000:ca:{index // 8:02x}.{index % 8}"


def guest_pci_address(index: int) -> str:
    """The address if no other stack has ports."""
    return f"0000:00:{0x10 + index:02x}.0"
