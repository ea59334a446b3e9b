# SPDX-License-Identifier: BSD-3-Clause
"""Information about programs launched by softhca. The demo uses it, too, so it does not need Scapy."""

import os
import signal
import time
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


def suspend(process: int, timeout: float = 10) -> None:
    """Stops a process and waits until none of its threads is running."""
    os.kill(process, signal.SIGSTOP)
    deadline = time.monotonic() + timeout
    # Polls, as only the parent could wait for the event.
    while any(stat.read_text().rpartition(")")[2].split()[0] != "T"
              for stat in Path(f"/proc/{process}/task").glob("*/stat")):
        if time.monotonic() > deadline:
            raise AssertionError(f"process {process} does not stop within {timeout} s")
        time.sleep(0.001)


POLLING_THREADS = ("rte-worker", "dpdk-worker")  # as EAL names them in DPDK 22.11, and in later releases
LOWER_PRIORITY = 5  # a third of the CPU time of a thread beside it: it is slower then, but gets on


def let_others_run(process: int) -> None:
    """Lowers the priority of testpmd's forwarding threads. They poll all the time, also when there is nothing to
    do, which would take most of the CPU time from all that waits for some: commands, devices and other tests."""
    for task in Path(f"/proc/{process}/task").iterdir():
        if (task / "comm").read_text().startswith(POLLING_THREADS):
            thread = int(task.name)
            priority = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, priority + LOWER_PRIORITY)


def launcher_env(launcher: Screen, timeout: float = 10) -> dict[str, str]:
    """The environment that another program needs to run under the same softhca."""
    environ = Path(f"/proc/{program_under(launcher)}/environ")
    deadline = time.monotonic() + timeout
    while not (text := environ.read_bytes()):  # empty during its execve()
        if time.monotonic() > deadline:
            raise AssertionError(f"{environ} stays empty")
        time.sleep(0.001)
    settings = dict(os.fsdecode(entry).split("=", 1) for entry in text.split(b"\0") if entry)
    return {name: settings[name] for name in ("LD_PRELOAD", "SOFTHCA_CONFIG")}


def devices_of(stat: Any) -> dict[str, dict[str, Any]]:
    """The devices in `softhca stat --json`, by name."""
    return {
        device["device"]: device for instance in stat["instances"] for device in instance["devices"]
    }
