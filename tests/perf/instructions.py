#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Instructions per packet of the mlx5 rings' burst functions, counted by callgrind.

Counts are exactly reproducible, whatever else the machine does, so a test can compare them with a record.
They depend on the compiler: each has its own record.

    tests/perf/instructions.py [BUILD]            show
    tests/perf/instructions.py --record [BUILD]   write the record, after an intended change
    tests/perf/instructions.py --lines [BUILD]    cache misses by number of queues, simulated
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "tests/perf/instructions.json"
TIMEOUT_S = 120


# First- and second-level caches of current servers; callgrind calls the second one the last level.
CACHES = ["--cache-sim=yes", "--D1=49152,12,64", "--LL=2097152,16,64"]


@dataclass
class Counts:
    compiler: str  # of the build, "gcc 12"
    per_packet: dict[str, float]  # instructions, by case


def run(program: Path, options: list[str]) -> tuple[str, dict[str, dict[str, int]]]:
    """The program's output, and the events of each case."""
    with tempfile.TemporaryDirectory(prefix="rawqp-instructions-") as folder:
        command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--quiet", *options,
                   f"--callgrind-out-file={folder}/out", str(program)]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        if answer.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {answer.stdout}{answer.stderr}")
        dumps = [file.read_text() for file in Path(folder).glob("out.*")]
    cases = {}
    for dump in dumps:
        case = re.search(r"desc: Trigger: Client Request: (.+)", dump)
        events = re.search(r"^events: (.+)", dump, re.MULTILINE)
        totals = re.search(r"^(?:summary|totals): (.+)", dump, re.MULTILINE)
        if case and events and totals:
            cases[case[1].strip()] = dict(zip(events[1].split(), map(int, totals[1].split())))
    return answer.stdout, cases


def number(text: str, what: str) -> int:
    found = re.search(rf"{what} (\d+)", text)
    if found is None:
        raise RuntimeError(f"no number of {what}: {text}")
    return int(found[1])


def count(build: Path) -> Counts:
    text, cases = run(build / "tests/perf/rawqp-instructions", [])
    compiler = re.search(r"compiler (.+)", text)
    assert compiler, text
    packets = number(text, "packets")
    counts = {case: round(events["Ir"] / packets, 2) for case, events in cases.items()}
    return Counts(compiler[1], dict(sorted(counts.items())))


def show_lines(build: Path) -> None:
    text, cases = run(build / "tests/perf/rawqp-lines", CACHES)
    bursts = number(text, "bursts")
    print(f"{'a burst of 32':<16} {'instructions':>12} {'past level 1':>12} {'past level 2':>12}")
    for case, events in sorted(cases.items(), key=lambda each: [*map(int, re.findall(r"\d+", each[0]))]):
        first, second = (events[f"{level}mr"] + events[f"{level}mw"] for level in ("D1", "DL"))
        print(f"{case:<16} {events['Ir'] / bursts:12.1f} {first / bursts:12.1f} {second / bursts:12.1f}")


def read_records() -> dict[str, dict[str, float]]:
    """Instructions per packet by compiler and case."""
    records: dict[str, dict[str, float]] = json.loads(RECORD.read_text())
    return records


def main() -> int:
    arguments = [text for text in sys.argv[1:] if not text.startswith("--")]
    build = Path(arguments[0] if arguments else ROOT / "build").resolve()
    if shutil.which("valgrind") is None:
        print("valgrind is missing (scripts/setup installs it)", file=sys.stderr)
        return 1
    if "--lines" in sys.argv:
        show_lines(build)
        return 0
    counts = count(build)
    records = read_records()
    record = records.get(counts.compiler, {})
    for case, value in counts.per_packet.items():
        before = record.get(case)
        print(f"{case:<24} {value:8.2f} {'new' if before is None else f'{before:8.2f} recorded'}")
    if "--record" in sys.argv:
        records[counts.compiler] = counts.per_packet
        RECORD.write_text(json.dumps(dict(sorted(records.items())), indent=1) + "\n")
    elif not record:
        print(f"note: there are records of {', '.join(records)}, this build is of {counts.compiler}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
