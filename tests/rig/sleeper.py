# SPDX-License-Identifier: BSD-3-Clause
"""tests/functional/dpdk/rx-interrupt: it sleeps on the Rx interrupt until it has a number of packets."""

import random
import re
from pathlib import Path
from typing import Sequence

from .packets import numbered
from .wire import SocketWire


def command(build_folder: Path, device_args: Sequence[str], packets: int) -> list[str]:
    return [str(build_folder / "tests/functional/dpdk/rx-interrupt"), "-l", "0", "--no-huge",
            "-m", "256", "--no-shconf", "--no-telemetry", *device_args, "--", str(packets)]


def wake(wire: SocketWire, packets: int) -> None:
    """Sends packets one by one, in bursts, and while the program is about to fall asleep."""
    rng = random.Random(3)
    frames = list(numbered(packets))
    while frames:
        count = rng.choice([1, 1, 2, 7, 40])
        wire.send_all(frames[:count])
        del frames[:count]


def result(output: str) -> tuple[int, int]:
    """Packets received, times slept."""
    received, sleeps = re.findall(r"received (\d+) sleeps (\d+)", output)[0]
    return int(received), int(sleeps)
