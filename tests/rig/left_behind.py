# SPDX-License-Identifier: BSD-3-Clause
"""What a port must not leave behind."""

import re
from collections import Counter

from .stack_base import StackBase


def heap_in_use(stack: StackBase) -> tuple[str, str]:
    """DPDK's heap: megabytes, and number of pieces."""
    sums = stack.testpmd.expect("dump_socket_mem",
                                r"Total +: .*?alloc: ([\d.]+).*(?i:count) alloc: (\d+)")
    return sums[1], sums[2]


def left_behind(stack: StackBase, port: int) -> dict[str, object]:
    """File descriptors, DPDK memory, objects of the port's device."""
    device = stack.stat().get(stack.device_name(port), {})
    return {
        "files": Counter(re.sub(r"\d+", "#", name) for name in stack.open_files()),
        "heap": heap_in_use(stack),
        "objects": {kind: count for kind, count in device.get("objects", {}).items() if count},
    }


def check_clean(left: dict[str, object], clean: dict[str, object], after: str) -> None:
    differing = [f"{what}: {left[what]}, not {clean[what]}" for what in clean if left[what] != clean[what]]
    assert not differing, f"{after}:\n" + "\n".join(differing)
