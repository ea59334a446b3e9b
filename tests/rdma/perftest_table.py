#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints doc/perftest.md from the results of `scripts/test rdma`, in a checkout's root:

    PYTHONPATH=tests python3 -m rdma.perftest_table build/test-results/perftest.json > doc/perftest.md
"""
from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path

from rdma.perftest import FRONTS, RUNS, WHY, Run
from rdma.table import MARKS, header, row, sentence

Found = dict[str, dict[str, str]]  # front -> name of a run -> how it ended

INTRODUCTION = """\
`scripts/test rdma` runs perftest's programs for RAW_PACKET QPs, as the distribution ships them (here
{version}), with each option that means something to them: a server and a client, which face each other
over a cable. On the uverbs front each of them has a softhca of its own, and the cable is a wire that two
processes can share (see [softhca.md](softhca.md#wires)): `link`, `socket`, or two `tap`s on a bridge. In
the `guest` both run on the distribution's unmodified kernel, on two PCI functions that `link` connects.
What fails by perftest's own fault is run on one front only. `fs_rate` is about rules alone, and has
nobody at its other end.

This page is what such a run found: do not edit it, `tests/rdma/perftest_table.py` wrote it.
`tests/rdma/perftest.py` lists the options, and what does not pass, and why. A run fails if one of them
ends otherwise, also if it passes."""


def why(of: Run) -> str:
    return f"{of.why}: {of.note}" if of.why else ""


def render(found: Found) -> str:
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "perftest"], check=True,
                             capture_output=True, text=True).stdout
    lines = ["<!-- SPDX-License-Identifier: BSD-3-Clause -->", "# perftest's raw Ethernet programs on softhca",
             "", INTRODUCTION.format(version=version), "", *header("on", "passed", "failed", "runs")]
    for front in FRONTS:
        count = Counter(found[front][of.name] for of in RUNS if of.is_run(front))
        lines.append(row(front, str(count["passed"]), str(count["failed"]), str(count.total())))
    for name, text in WHY.items():
        lines += ["", sentence(f"**{name}**: {text}")]
    for program, runs in groupby(RUNS, lambda of: of.program):
        lines += ["", *header(f"raw_ethernet_{program}", *FRONTS, "why")]
        for of in runs:
            marks = [MARKS[found[front][of.name]] if of.is_run(front) else "" for front in FRONTS]
            lines.append(row(f"`{of.options}`" if of.options else "", *marks, why(of)))
    return "\n".join(lines) + "\n"


def read_rows(page: str) -> dict[tuple[str, str], tuple[dict[str, str], str]]:
    """The page's entry for each run, by program and options: front -> how it ended, and why."""
    endings = {mark: ended for ended, mark in MARKS.items()}
    rows, program = {}, ""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
        if cells[0].startswith("raw_ethernet_"):
            program = cells[0].removeprefix("raw_ethernet_")
        elif program and len(cells) == len(FRONTS) + 2 and not cells[0].startswith("-"):
            marks = {front: endings[mark] for front, mark in zip(FRONTS, cells[1:]) if mark}
            rows[program, cells[0].strip("`")] = (marks, cells[-1])
    return rows


if __name__ == "__main__":
    print(render(json.loads(Path(sys.argv[1]).read_text())), end="")
