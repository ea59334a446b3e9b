# SPDX-License-Identifier: BSD-3-Clause
"""Measures the driver beside its peers and prints ratios. Called by scripts/bench after setup.

Machines drift; so what is compared is measured in turns, A B A B …, and only ratios within a turn
are results. Each row has the median, the least and the greatest of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Sequence

LIBRARY = Path(__file__).resolve().parent
sys.path.insert(0, str(LIBRARY))

from cases import CASES, Effort  # noqa: E402
from charts import chart  # noqa: E402
from ratios import Ratio, TooFewFigures  # noqa: E402
from runner import ROOT, BenchError, Machine, Runner  # noqa: E402


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Benchmarks of net_rawqp and softhca beside their peers, in turns. Ends with"
        " status 1 when a figure misses its bar. The device is softhca; doc/bench.md explains.",
    )
    parser.add_argument("--json", type=Path, metavar="FILE",
                        help="write the rows there, and charts (SVG) beside it")
    parser.add_argument("--quick", action="store_true", help="3 pairs in place of 12")
    parser.add_argument("--only", action="append", choices=list(CASES), metavar="NAME",
                        help="this benchmark only; may be given several times")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="DIR",
                        help="build folder (build/)")
    parser.add_argument("--verbose", action="store_true", help="show the programs' command lines")
    return parser.parse_args()


def table(rows: Sequence[Ratio]) -> None:
    for row in rows:
        verdict = {None: "", True: "ok", False: "MISSED"}[row.ok]
        values = f"{row.a_value:.4g} ÷ {row.b_value:.4g} {row.unit}"
        print(f"{row.name:<42} {row.ratio_median:>7.2f}  [{row.ratio_min:.2f} … {row.ratio_max:.2f}]"
              f"  {row.bar or '':<8} {verdict:<7} {values:<38} {row.a} ÷ {row.b}", flush=True)


def write(rows: Sequence[Ratio], file: Path, by_case: dict[str, list[Ratio]]) -> None:
    file.write_text(json.dumps([row.as_json() for row in rows], indent=1) + "\n")
    for name, some in by_case.items():
        file.with_name(f"{file.stem}-{name}.svg").write_text(
            chart(f"{name}: ratio, median and spread of {some[0].pairs} pairs", some))


def main() -> int:
    arguments = parse_arguments()
    if arguments.list:
        for name, case in CASES.items():
            print(f"{name:<14} {(case.__doc__ or '').splitlines()[0]}")
        return 0
    machine = Machine(arguments.build.resolve())
    runner = Runner(machine, arguments.verbose)
    if not runner.prefix:
        print("note: no real-time priority here (CAP_SYS_NICE): other programs can disturb")
    if len(machine.cpus) < 2:
        print("note: one CPU: device and program share it also in live measures")
    effort = Effort.of(arguments.quick)
    by_case: dict[str, list[Ratio]] = {}
    failed = False
    for name in arguments.only or CASES:
        start = time.monotonic()
        print(f"\033[1m== {name}\033[0m", flush=True)
        try:
            by_case[name] = CASES[name](runner, effort)
        except (BenchError, TooFewFigures) as error:
            print(f"{name} FAILED: {error}", file=sys.stderr)
            failed = True
            continue
        table(by_case[name])
        print(f"{name}: {time.monotonic() - start:.0f} s")
    rows = [row for some in by_case.values() for row in some]
    if arguments.json:
        write(rows, arguments.json, by_case)
    missed = [row.name for row in rows if row.ok is False]
    bars = [row for row in rows if row.ok is not None]
    print(f"{len(bars) - len(missed)} of {len(bars)} bars reached"
          + (f"; missed: {', '.join(missed)}" if missed else ""))
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
