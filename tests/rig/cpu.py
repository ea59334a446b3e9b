# SPDX-License-Identifier: BSD-3-Clause
"""CPU features that readers of receive queues need."""

import re
from pathlib import Path

import pytest

# By EAL's --force-max-simd-bitwidth: the reader's name and the flags that it needs.
READERS = {64: "mlx5 scalar", 256: "mlx5 AVX2", 512: "mlx5 AVX-512"}
FLAGS_NEEDED: dict[int, set[str]] = {
    64: set(), 256: {"avx2"}, 512: {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
}


def flags() -> set[str]:
    found = re.search(r"flags\s*:(.*)", Path("/proc/cpuinfo").read_text())
    assert found is not None
    return set(found.group(1).split())


def need_vectors(bits: int) -> None:
    """Skips the test where the reader for this width cannot run and another one would be used instead.
    tests/run.py lists what was not tested for that reason."""
    if not FLAGS_NEEDED[bits] <= flags():
        pytest.skip(f"this CPU has no {READERS[bits].split()[1]}")
