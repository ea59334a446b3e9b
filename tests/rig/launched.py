# SPDX-License-Identifier: BSD-3-Clause
"""What to know of programs that softhca has launched. The demo uses it, too: without Scapy."""

import os
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


def launcher_env(launcher: Screen) -> dict[str, str]:
    """What another program needs to run below the same softhca."""
    environ = Path(f"/proc/{program_under(launcher)}/environ").read_bytes().split(b"\0")
    settings = dict(os.fsdecode(entry).split("=", 1) for entry in environ if entry)
    return {name: settings[name] for name in ("LD_PRELOAD", "SOFTHCA_CONFIG")}


def devices_of(stat: Any) -> dict[str, dict[str, Any]]:
    """The devices in `softhca stat --json`, by name."""
    return {
        device["device"]: device for instance in stat["instances"] for device in instance["devices"]
    }
