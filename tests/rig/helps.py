# SPDX-License-Identifier: BSD-3-Clause
"""Help texts of our programs."""

import os
import re
import subprocess
from pathlib import Path

from .stack import Build

EAL = ["--no-huge", "-m", "64", "--no-pci", "--no-shconf", "--no-telemetry", "--"]
# Arguments before --help, for each program itself and for each of its commands.
PROGRAMS: dict[str, list[list[str]]] = {
    "rawqp-doctor": [[]],
    "rawqp-perf": [EAL],
    "softhca": [[], ["stat"], ["dump"], ["trace"], ["capture"], ["link"], ["fault"], ["vm"]],
    "softhca-pci": [[]],
}


def path_of(build: Build, program: str) -> Path:
    folder = "softhca/pci" if program == "softhca-pci" else program
    return build.folder / "app" / folder / program


def help_of(build: Build, program: str, words: list[str]) -> str:
    told = subprocess.run([path_of(build, program), *words, "--help"], check=True,
                          capture_output=True, text=True, timeout=60,
                          env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    return told.stdout


def options_in(told: str) -> set[str]:
    return set(re.findall(r"(?m)^  (?:-\w,? ?)?(--[a-z-]+)", told))
