# SPDX-License-Identifier: BSD-3-Clause
"""Ports as tests ask for them, on either front."""

from dataclasses import dataclass, field
from typing import Mapping


@dataclass
class PortSpec:
    """One port of softhca, and the net_rawqp device on it."""

    wire: str = "socket"  # "socket": the rig makes one; else a wire as softhca takes it
    options: Mapping[str, str] = field(default_factory=dict)  # more of softhca --port
    devargs: str = ""  # more of the driver's device arguments


def lossless(count: int, devargs: str = "", **options: str) -> list[PortSpec]:
    """Ports whose empty rings hold the wire: what is sent to them arrives. Tests have these unless
    they are about loss, so that one stack after another can have the same ports of a guest."""
    return [PortSpec(options={"pause": "on", **options}, devargs=devargs) for _ in range(count)]


def device_name(index: int) -> str:
    return f"mlx5_{index}"


def port_mac(index: int) -> str:
    """The address that the rig gives to port `index`."""
    return f"02:00:00:00:00:{index + 1:02x}"


def pci_address(index: int) -> str:
    return f"0000:ca:{index // 8:02x}.{index % 8}"


def guest_pci_address(index: int) -> str:
    """When no other stack has ports."""
    return f"0000:00:{0x10 + index:02x}.0"
