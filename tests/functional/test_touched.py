# SPDX-License-Identifier: BSD-3-Clause
"""The count of cache lines touched by bursts is right: for the floor it is known."""

import os

import pytest
from perf import touched
from rig.stack import Build

BURST = 32


@pytest.mark.unsanitized  # instrumented code touches more
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="steps are traced on x86-64 only")
def test_lines_of_the_floor_and_of_drivers(build: Build) -> None:
    found = touched.touched(build.folder, list(touched.SUBJECTS), ["rx", "tx"])
    rx, tx = found["floor", "rx"], found["floor", "tx"]
    assert 1 <= rx["CQE"] <= 1 + 1 / BURST  # a compiler may read the next one early
    assert (rx["mbuf line 0"], rx["mbuf line 1"]) == (1, 0)
    assert rx["WQE"] == pytest.approx(16 / touched.LINE, abs=0.04)
    assert rx["doorbell record"] == 2 / BURST and rx["doorbell register"] == 0
    assert (tx["mbuf line 0"], tx["mbuf line 1"], tx["packet"]) == (1, 0, 0)
    assert tx["WQE"] == pytest.approx((2 + BURST) * 16 / touched.LINE / BURST, abs=0.05)
    assert tx["doorbell register"] == 1 / BURST
    for measure, least in ("rx", rx), ("tx", tx):
        for driver, share in ("net_rawqp", 0.9), ("net_mlx5", 0.7):  # the latter requests fewer completions
            for kind in "CQE", "WQE", "mbuf line 0":
                lines = found[driver, measure][kind]
                assert least[kind] * share <= lines <= 2 * least[kind] + 0.1, (driver, measure, kind)


@pytest.mark.parametrize("text,width", [
    ("vmovdqu 0x30(%rax),%ymm0", 32),
    ("vinserti128 $0x1,0x30(%rax),%ymm0,%ymm1", 16),
    ("vbroadcasti128 0x30(%rax),%ymm0", 16),
    ("movdqu 0x30(%rax),%xmm0", 16),
])
def test_what_an_instruction_reads_at_once(text: str, width: int) -> None:
    assert [operand.width for operand in touched.operands(text, None)] == [width]
