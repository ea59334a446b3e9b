# SPDX-License-Identifier: BSD-3-Clause
"""What a packet costs does not creep up: instructions per packet against the record.

Timing would depend on the machine; counts by callgrind do not. After a change that is meant to cost
more: tests/perf/instructions.py --record.
"""

import shutil
import sys

import pytest
from rig.stack import ROOT, Build

sys.path.insert(0, str(ROOT / "tests/perf"))

import instructions  # noqa: E402

MAY_GROW_BY = 0.05


@pytest.fixture(scope="module")
def counts(build: Build) -> dict[str, float]:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is missing (scripts/setup installs it)")
    counts = instructions.count(build.folder)
    recorded = instructions.read_record()
    if counts.compiler != recorded.compiler:
        pytest.skip(f"the record is of {recorded.compiler}, this build of {counts.compiler}")
    return counts.per_packet


CASES = sorted(instructions.read_record().per_packet)


@pytest.mark.unsanitized  # instrumented code costs more
@pytest.mark.parametrize("case", CASES)
def test_costs_no_more_than_recorded(counts: dict[str, float], case: str) -> None:
    recorded = instructions.read_record().per_packet[case]
    assert case in counts, f"callgrind has not seen it, but {sorted(counts)}"
    assert counts[case] <= recorded * (1 + MAY_GROW_BY), (
        f"{case}: {counts[case]} instructions per packet, recorded {recorded}; if that is meant:"
        " tests/perf/instructions.py --record"
    )


@pytest.mark.unsanitized
def test_every_case_is_recorded(counts: dict[str, float]) -> None:
    """A new burst function comes with its record."""
    assert sorted(counts) == CASES
