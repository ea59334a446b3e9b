# SPDX-License-Identifier: BSD-3-Clause
"""The table of faults in doc/reliability.md: its rows, and how a run's reports fill them."""

import sys
from collections import Counter
from pathlib import Path
from typing import Callable, Iterable
from xml.etree import ElementTree

# Property of a test in its JUnit report: "faults:ROW", and the number of faults injected.
PROPERTY = "faults:"
TellFaults = Callable[[str, int], None]

# Faults by the names that tests use, in the table's order.
ROWS = {
    "command": "a command to the kernel fails, each of a port's life in turn",
    "call": "a call into libibverbs fails, each of a port's life in turn",
    "firmware": "a command of the kernel's drivers to the device's firmware fails",
    "tx-error": "an error CQE for a WQE that is sent, of every syndrome",
    "rx-error": "an error CQE for a packet that is received, of every syndrome",
    "queue-fatal": "a QP or WQ breaks, with its event",
    "cq-error": "a CQ breaks, with its event",
    "cq-overrun": "a CQ overruns",
    "device-fatal": "the device dies, or is unplugged",
    "stall": "the device stands still for a while, under load",
    "link": "the link goes down and up, under load",
    "empty": "nobody polls, and rings are full or empty",
    "nombuf": "the mempool is exhausted",
    "odd-frame": "a frame is truncated, oversized or random",
    "hot-plug": "a port is plugged in and out beside one in full traffic",
    "kill": "kill -9 at a random moment, and the next start",
}
BEGIN, END = "<!-- faults: by tests/rig/reliability.py -->", "<!-- end of faults -->"


def read(reports: Iterable[Path]) -> dict[str, Counter[str]]:
    """How often each fault was injected in tests that passed, by row and by report. A report's name without
    `.xml` says where: functional, functional-in-guest, kernel, rawqp-unit-0 …"""
    counts: dict[str, Counter[str]] = {row: Counter() for row in ROWS}
    for report in reports:
        where = "unit" if report.stem.startswith("rawqp-unit") else report.stem
        for case in ElementTree.parse(report).iter("testcase"):
            if any(case.find(bad) is not None for bad in ("failure", "error", "skipped")):
                continue
            for told in case.iter("property"):
                name = told.get("name") or ""
                if name.startswith(PROPERTY):
                    counts[name.removeprefix(PROPERTY)][where] += int(told.get("value") or 0)
    return counts


def table(counts: dict[str, Counter[str]]) -> str:
    lines = ["| what happens | unit tests | softhca's uverbs front | a kernel in the guest |", "|---|---|---|---|"]
    for row, text in ROWS.items():
        of = counts[row]
        fronts = (of["unit"], of["functional"], of["functional-in-guest"] + of["kernel"])
        lines.append(f"| {text} | {' | '.join(f'{count:,}' if count else '' for count in fronts)} |")
    return "\n".join(lines)


def fill(document: Path, reports: Iterable[Path]) -> None:
    text = document.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    document.write_text(f"{head}{BEGIN}\n{table(read(reports))}\n{END}{tail}")


def texts_in(document: Path) -> list[str]:
    """The first column of the table in the document."""
    _, _, rest = document.read_text().partition(BEGIN)
    rows, _, _ = rest.partition(END)
    return [line.split("|")[1].strip() for line in rows.strip().splitlines()[2:]]


if __name__ == "__main__":
    fill(Path(sys.argv[1]), map(Path, sys.argv[2:]))
