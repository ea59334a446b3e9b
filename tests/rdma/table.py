#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints doc/rdma-core.md from the results of `scripts/test rdma`, in a checkout's root:

    PYTHONPATH=tests python3 -m rdma.table build/test-results/rdma-core.json > doc/rdma-core.md
"""
from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Iterator

from rdma.listed import FRONTS, LIST, WHY, WIRES, Listed, is_run, listed

Found = dict[str, dict[str, list[str]]]  # front -> case -> how it ended, the reason

MARKS = {"passed": "pass", "skipped": "skip", "failed": "fail"}
INTRODUCTION = """\
rdma-core brings tests of its own, written in Python on pyverbs, and the distribution ships them with
python3-pyverbs (here {version}). `scripts/test rdma` runs each of them with each of softhca's wires (see
[softhca.md](softhca.md#wires)), and in a guest, where the distribution's unmodified kernel drives
softhca's PCI device, on a port with software steering (`steering_format=0`). In `format1` and
`guest-format1` are a socket and a guest again, with `steering_format=1`, for the cases of software
steering. This page is what such a run found: do not edit it, `tests/rdma/table.py` wrote it.

`tests/rdma/listed.py` lists what does not pass, and why. A run fails if a case ends otherwise: if one
that is not on the list does not pass, and also if one that is on it does, or says another reason."""


def sentence(text: str) -> str:
    return "\n".join(textwrap.wrap(" ".join(text.split()), 104, break_long_words=False))


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def header(*names: str) -> list[str]:
    return [row(*names), "|" + "---|" * len(names)]


def entry_of(case: str) -> Listed | None:
    """The entry of a front where the case does not pass, if it passes on others."""
    return next(filter(None, (listed(front, case) for front in reversed(WIRES))), None)


def summary(found: Found, cases: list[str]) -> Iterator[str]:
    yield from header("on", *MARKS, "cases")
    for front in FRONTS:
        count = Counter(found[front][case][0] for case in cases if is_run(front, case))
        yield row(front, *(str(count[ended]) for ended in MARKS), str(count.total()))


def reasons(found: Found, cases: list[str]) -> Iterator[str]:
    for why, text in WHY.items():
        yield "\n" + sentence(f"**{why}**: {text}")
        said = Counter[tuple[str, str, str]]()
        for entry in (each for each in LIST if each.why == why):
            front = entry.fronts[-1]
            on = "" if set(WIRES) <= set(entry.fronts) else f" (on {', '.join(entry.fronts)})"
            for case in cases:
                if not (entry.is_for(front, case) and is_run(front, case)):
                    continue
                ended, reason = found[front][case]
                if ended != "passed":
                    said[MARKS[ended] + on, reason, entry.may_pass] += 1
        yield ""
        yield from header("cases", "", "what they say")
        for (ended, reason, may_pass), count in said.items():
            yield row(str(count), ended, f"`{reason}`" + (f"; passes {may_pass}" if may_pass else ""))


def render(found: Found) -> str:
    cases = list(found[FRONTS[0]])
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "python3-pyverbs"],
                             check=True, capture_output=True, text=True).stdout
    lines = ["<!-- SPDX-License-Identifier: BSD-3-Clause -->", "# rdma-core's own tests on softhca", "",
             INTRODUCTION.format(version=version), "", *summary(found, cases), "",
             "## What does not pass", *reasons(found, cases), "", "## Case by case"]
    for module, names in groupby(cases, lambda case: case.partition(".")[0]):
        lines += ["", *header(f"{module}", *FRONTS, "why")]
        for case in names:
            marks = [MARKS[found[front][case][0]] if is_run(front, case) else "" for front in FRONTS]
            entry = entry_of(case)
            lines.append(row(case.partition(".")[2], *marks, entry.why if entry else ""))
    return "\n".join(lines) + "\n"


def read_rows(page: str) -> dict[str, tuple[dict[str, str], str]]:
    """The page's entry for each case: front -> how it ended, and why."""
    endings = {mark: ended for ended, mark in MARKS.items()}
    rows, module = {}, ""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.fullmatch(r"test_\w+", cells[0]):
            module = cells[0]
        elif module and len(cells) == len(FRONTS) + 2 and "." in cells[0]:
            marks = {front: endings[mark] for front, mark in zip(FRONTS, cells[1:]) if mark}
            rows[f"{module}.{cells[0]}"] = (marks, cells[-1])
    return rows


if __name__ == "__main__":
    print(render(json.loads(Path(sys.argv[1]).read_text())), end="")
