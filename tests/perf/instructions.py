#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Instructions per packet of the mlx5 rings' burst functions, counted by callgrind.

Counts repeat exactly, whatever else the machine does, so a test can hold them against a record.
They belong to a compiler: the record names its own.

    tests/perf/instructions.py [BUILD]            show
    tests/perf/instructions.py --record [BUILD]   write the record, after a change that is meant
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


@dataclass
class Counts:
    compiler: str  # of the build, "gcc 12"
    per_packet: dict[str, float]  # instructions, by case


def count(build: Path) -> Counts:
    program = build / "tests/perf/rawqp-instructions"
    with tempfile.TemporaryDirectory(prefix="rawqp-instructions-") as folder:
        command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--quiet",
                   f"--callgrind-out-file={folder}/out", str(program)]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        packets = re.search(r"packets (\d+)", answer.stdout)
        compiler = re.search(r"compiler (.+)", answer.stdout)
        if answer.returncode != 0 or packets is None or compiler is None:
            raise RuntimeError(f"{' '.join(command)}: {answer.stdout}{answer.stderr}")
        dumps = [file.read_text() for file in Path(folder).glob("out.*")]
    counts = {}
    for dump in dumps:
        case = re.search(r"desc: Trigger: Client Request: (.+)", dump)
        total = re.search(r"^(?:summary|totals): (\d+)", dump, re.MULTILINE)
        if case and total:
            counts[case[1].strip()] = round(int(total[1]) / int(packets[1]), 2)
    return Counts(compiler[1], dict(sorted(counts.items())))


def read_record() -> Counts:
    record = json.loads(RECORD.read_text())
    return Counts(record["compiler"], record["instructions_per_packet"])


def main() -> int:
    arguments = [text for text in sys.argv[1:] if text != "--record"]
    build = Path(arguments[0] if arguments else ROOT / "build").resolve()
    if shutil.which("valgrind") is None:
        print("valgrind is missing (scripts/setup installs it)", file=sys.stderr)
        return 1
    counts = count(build)
    record = read_record() if RECORD.exists() else Counts(counts.compiler, {})
    for case, value in counts.per_packet.items():
        before = record.per_packet.get(case)
        print(f"{case:<24} {value:8.2f} {'new' if before is None else f'{before:8.2f} recorded'}")
    if "--record" in sys.argv:
        content = {"compiler": counts.compiler, "instructions_per_packet": counts.per_packet}
        RECORD.write_text(json.dumps(content, indent=1) + "\n")
    elif record.compiler != counts.compiler:
        print(f"note: the record is of {record.compiler}, this build of {counts.compiler}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
