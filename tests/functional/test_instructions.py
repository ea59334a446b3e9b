# SPDX-License-Identifier: BSD-3-Clause
"""The cost of a packet does not creep up: instructions per packet against the record.

Timing would depend on the machine; counts by callgrind do not. After a change that is meant to cost
more: tests/perf/instructions.py --record.
"""

import pytest
from perf import instructions
from rig.callgrind import skip_without_valgrind
from rig.stack import Build

MAY_GROW_BY = 0.05
RECORDS = instructions.read_records()
CASES = sorted(set().union(*RECORDS.values()))


@pytest.fixture(scope="module")
def counts(build: Build) -> instructions.Counts:
    skip_without_valgrind()
    counts = instructions.count(build.folder)
    if counts.compiler not in RECORDS:
        pytest.skip(f"there are records of {', '.join(RECORDS)}, this build is of {counts.compiler}:"
                    " tests/perf/instructions.py --record")
    return counts


@pytest.mark.unsanitized  # instrumented code costs more
@pytest.mark.parametrize("case", CASES)
def test_costs_no_more_than_recorded(counts: instructions.Counts, case: str) -> None:
    recorded = RECORDS[counts.compiler][case]
    assert case in counts.per_packet, f"callgrind has not seen it, but {sorted(counts.per_packet)}"
    assert counts.per_packet[case] <= recorded * (1 + MAY_GROW_BY), (
        f"{case}: {counts.per_packet[case]} instructions per packet, recorded {recorded}; if that is"
        " meant: tests/perf/instructions.py --record"
    )


@pytest.mark.unsanitized
def test_every_case_is_recorded(counts: instructions.Counts) -> None:
    """A new burst function must come with its record."""
    assert sorted(counts.per_packet) == CASES == sorted(RECORDS[counts.compiler])
