# SPDX-License-Identifier: BSD-3-Clause
"""What a port must not leave when it has gone."""

import os
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path

from .launched import program_under
from .stack import Stack


def open_files(process: int) -> Counter[str]:
    """But for softhca's own streams, to `softhca fault` and `stat`, which may just be ending."""
    streams = {f"socket:[{fields[6]}]" for fields in map(str.split, Path(f"/proc/{process}/net/unix").open())
               if fields[4] == "0001"}
    files: Counter[str] = Counter()
    for entry in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):
            name = os.readlink(entry)
            if name not in streams:
                files[re.sub(r"\d+", "#", name)] += 1
    return files


def heap_in_use(stack: Stack) -> tuple[str, str]:
    """DPDK's: megabytes, and pieces."""
    sums = stack.testpmd.expect("dump_socket_mem",
                                r"Total +: .*?alloc: ([\d.]+).*(?i:count) alloc: (\d+)")
    return sums[1], sums[2]


def left_behind(stack: Stack, port: int) -> dict[str, object]:
    """File descriptors, memory of DPDK, objects of the port's device."""
    device = stack.stat().get(stack.device_name(port), {})
    return {
        "files": open_files(program_under(stack.program)),
        "heap": heap_in_use(stack),
        "objects": {kind: count for kind, count in device.get("objects", {}).items() if count},
    }


def check_clean(left: dict[str, object], clean: dict[str, object], after: str) -> None:
    differing = [f"{what}: {left[what]}, not {clean[what]}" for what in clean if left[what] != clean[what]]
    assert not differing, f"{after}:\n" + "\n".join(differing)
