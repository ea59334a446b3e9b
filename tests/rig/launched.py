# SPDX-License-Identifier: BSD-3-Clause
"""What to know of programs that softhca has launched. The demo uses it, too: without Scapy."""

from pathlib import Path
from typing import Any

from .screen import Screen

DRIVER = "librte_net_rawqp.so"


def program_under(launcher: Screen) -> int:
    """The process that a running softhca has started."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    if len(children) != 1:
        raise AssertionError(f"softhca (process {launcher.pid}) runs {len(children)} programs")
    return int(children[0])


def devices_of(stat: Any) -> dict[str, dict[str, Any]]:
    """The devices in `softhca stat --json`, by name."""
    return {
        device["device"]: device for instance in stat["instances"] for device in instance["devices"]
    }
