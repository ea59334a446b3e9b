# SPDX-License-Identifier: BSD-3-Clause
"""doc/rdma-core.md is of a run that was good by the list."""

from pathlib import Path

from rig import rdma_core

from rdma.listed import FRONTS, is_run, listed
from rdma.table import entry_of, read_rows

PAGE = (Path(__file__).parents[2] / "doc/rdma-core.md").read_text()


def test_cases_end_as_listed() -> None:
    rows = read_rows(PAGE)
    assert sorted(rows) == sorted(rdma_core.names())
    for case, (endings, why) in rows.items():
        entry = entry_of(case)
        assert why == (entry.why if entry else ""), case
        assert list(endings) == [front for front in FRONTS if is_run(front, case)], case
        for front, ended in endings.items():
            entry = listed(front, case)
            may = {"passed"} if entry is None else {entry.ended, *(["passed"] if entry.may_pass else [])}
            assert ended in may, f"{case} on {front}"
