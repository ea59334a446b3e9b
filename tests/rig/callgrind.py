# SPDX-License-Identifier: BSD-3-Clause
"""Counts instructions with callgrind: these, unlike time, do not depend on what else the machine does."""

import re
import shutil
from pathlib import Path

import pytest


def skip_without_valgrind() -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is missing (scripts/setup installs it)")


def counting(out: Path, *options: str) -> list[str]:
    """The beginning of a command line whose program is counted, each of its threads in a file of its own."""
    return ["valgrind", "--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={out}", *options]


def of_main_thread(out: Path) -> int:
    """Its instructions, after the program has ended."""
    totals = re.search(r"^(?:summary|totals): (\d+)", Path(f"{out}-01").read_text(), re.MULTILINE)
    assert totals
    return int(totals[1])
