# SPDX-License-Identifier: BSD-3-Clause
"""Stock testpmd between two ports, with kernel interfaces at their far ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Sequence

from rig.program import Program
from rig.testpmd import Testpmd


def start_testpmd(build: Path, launcher: Sequence[str], ports: Sequence[str], descriptors: int, log: Path) -> Testpmd:
    """`launcher`: softhca's command line, or nothing; `ports`: their EAL options. The forwarding thread polls on the
    last CPU; the others are left for everything else."""
    cpus = sorted(os.sched_getaffinity(0))
    command = [*launcher, *(["--"] if launcher else []), "dpdk-testpmd", "--lcores", f"0@{cpus[0]},1@{cpus[-1]}"]
    command += ["--no-huge", "-m", "512", "--no-shconf", "--no-telemetry", "--no-pci", *ports]
    command += ["--", "-i", "--total-num-mbufs=32768", f"--rxd={descriptors}", f"--txd={descriptors}", "--burst=64"]
    path = [str(build / "drivers/net/rawqp"), os.environ.get("LD_LIBRARY_PATH", "")]
    env = {"LD_LIBRARY_PATH": ":".join(filter(None, path))}
    return Testpmd(Program(command, log, env, name="dpdk-testpmd"))
