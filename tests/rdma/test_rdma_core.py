# SPDX-License-Identifier: BSD-3-Clause
"""rdma-core's own tests, case by case: each ends as listed in tests/rdma/listed.py, on every front."""

import re
from pathlib import Path
from typing import Callable, Iterator

import pytest
from rig import rdma_core
from rig.rdma_core import Ending

from rdma.listed import LIST, WHOLE, WHY, listed

RunCase = Callable[[str], Ending]

DUMP = Path("/tmp/dump.txt")  # test_mlx5_dr.Mlx5DrDumpTest always writes there


@pytest.fixture(scope="module", autouse=True)
def no_dump_left() -> Iterator[None]:
    was_there = DUMP.exists()
    yield
    if not was_there:
        DUMP.unlink(missing_ok=True)


@pytest.mark.timeout(400)
def test_case(cases: RunCase, case: str, request: pytest.FixtureRequest) -> None:
    front: str = request.node.callspec.params["cases"]
    entry = listed(front, case)
    ending = cases(case)
    if entry is None:
        assert ending.ended == "passed", ending.said
        return
    if ending.ended == "passed":
        assert entry.may_pass, f"it passes now: take it off the list ({entry.cases})"
        return
    assert ending.ended == entry.ended, ending.said
    assert re.search(entry.said, ending.reason), ending.said
    reason = f"{ending.reason} (on the list: {entry.why})"
    if ending.ended == "skipped":
        pytest.skip(reason)
    pytest.xfail(reason)


def test_the_list_has_no_entry_too_many() -> None:
    """Nor an entry hidden by another one."""
    for front in WHOLE:
        found = [listed(front, case) for case in rdma_core.names()]
        assert {entry for entry in LIST if front in entry.fronts} == set(filter(None, found))
    assert {entry.why for entry in LIST} == WHY.keys()


def test_what_the_device_has_does_not_fail() -> None:
    """Raw packets, flows, counters, DevX: failing cases need another kind of QP or another wire."""
    assert {entry.why for entry in LIST if entry.ended == "failed"} <= {"transports", "plug"}
