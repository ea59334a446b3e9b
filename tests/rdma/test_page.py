# SPDX-License-Identifier: BSD-3-Clause
"""doc/rdma-core.md and doc/perftest.md show runs that agreed with the lists."""

from pathlib import Path

from rig import rdma_core

from rdma import perftest, perftest_table
from rdma.listed import FRONTS, is_run, listed
from rdma.table import entry_of, read_rows

DOC = Path(__file__).parents[2] / "doc"


def test_cases_end_as_listed() -> None:
    rows = read_rows((DOC / "rdma-core.md").read_text())
    assert sorted(rows) == sorted(rdma_core.names())
    for case, (endings, why) in rows.items():
        entry = entry_of(case)
        assert why == (entry.why if entry else ""), case
        assert list(endings) == [front for front in FRONTS if is_run(front, case)], case
        for front, ended in endings.items():
            entry = listed(front, case)
            may = {"passed"} if entry is None else {entry.ended, *(["passed"] if entry.may_pass else [])}
            assert ended in may, f"{case} on {front}"


def test_perftest_ends_as_listed() -> None:
    rows = perftest_table.read_rows((DOC / "perftest.md").read_text())
    assert rows == {(of.program, of.options): (
        {front: "failed" if of.why else "passed" for front in perftest.FRONTS if of.is_run(front)},
        perftest_table.why(of)) for of in perftest.RUNS}
