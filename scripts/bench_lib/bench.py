# SPDX-License-Identifier: BSD-3-Clause
"""Measures the driver and its peers and prints ratios. Called by scripts/bench after setup.

Machines drift, so subjects to be compared are measured alternately, A B A B …, and only ratios within a
turn are results. Each row has the median, the least and the greatest of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from .cases import CASES, ROUNDS
from .effort import HUGE, SMALL, Effort
from .results import Results
from .runner import ROOT, BenchError, Machine, Runner, plugin_of, program_of, softhca_of
from .tables import fill_documents


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Benchmarks of net_rawqp and softhca beside their peers, in turns. Ends with"
        " status 1 when a figure misses its bar or cannot be had. The device is softhca;"
        " doc/bench.md explains.",
    )
    parser.add_argument("--json", "--out", type=Path, metavar="FILE", dest="json",
                        help="write the rows there as they come, and charts (SVG) beside it")
    parser.add_argument("--quick", action="store_true", help="3 pairs in place of 12")
    parser.add_argument("--distance", action="append", choices=("far", "near", "cold"),
                        help="of the lines that the device has touched from the lcore, for rounds"
                        " with an idle device; may be given several times (all that can be had)")
    parser.add_argument("--pages", action="append", choices=(HUGE, SMALL), default=[],
                        help="that packets and rings are on, for rounds with an idle device; may be"
                        " given several times (huge ones, and 4k for cycles at far)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="this benchmark or row only, as cycles or 'cycles.rx.*'; may be given"
                        " several times")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="DIR",
                        help="build folder (build/)")
    parser.add_argument("--against", type=Path, metavar="DIR",
                        help="another build folder: our driver ÷ that build's, both in the same"
                        " program on the same device; of benchmarks of drained rounds only")
    parser.add_argument("--fill", type=Path, metavar="FILE",
                        help="measure nothing: make the tables of README.md and doc/bench.md anew"
                        " from rows that --json has written")
    parser.add_argument("--verbose", action="store_true", help="show the programs' command lines")
    return parser.parse_args()


def refuse(text: str) -> int:
    print(text, file=sys.stderr)
    return 2


def main() -> int:
    arguments = parse_arguments()
    if arguments.list:
        for name, case in CASES.items():
            print(f"{name:<14} {(case.__doc__ or '').splitlines()[0]}")
        return 0
    if arguments.fill:
        try:
            fill_documents(arguments.fill)
        except BenchError as error:
            return refuse(f"--fill: {error}")
        return 0
    for file in plugin_of(arguments.build), program_of(arguments.build), softhca_of(arguments.build):
        if not file.exists():
            return refuse(f"--build {arguments.build}: no build there, {file} is missing: scripts/setup builds")
    if arguments.against and not plugin_of(arguments.against).exists():
        return refuse(f"--against {arguments.against}: no driver there, {plugin_of(arguments.against)}")
    try:
        results = Results(arguments.json, arguments.only)
    except OSError as error:
        return refuse(f"--json {arguments.json}: {error.filename}: {error.strerror}")
    cases = ROUNDS if arguments.against else CASES
    chosen = [name for name in cases if results.may_want(name)]
    if not chosen:
        return refuse(f"no benchmark has such rows: {', '.join(arguments.only)}; see --list")
    machine = Machine(arguments.build.resolve(),
                      other_build=arguments.against and arguments.against.resolve())
    runner = Runner(machine, arguments.verbose)
    if not runner.prefix:
        print("note: no real-time priority here (CAP_SYS_NICE): other programs can disturb")
    possible = machine.distances()
    if len(machine.cpus) < 2:
        print("note: one CPU: device and program share it also in live measures, and nothing can be"
              " measured far from the device")
    elif "far" not in possible:
        print("note: all CPUs here are of one core: nothing can be measured far from the device")
    distances = tuple(each for each in possible if each in (arguments.distance or possible))
    if not distances:
        return refuse(f"such distances cannot be measured here: {', '.join(arguments.distance)}")
    effort = Effort.of(arguments.quick, distances, tuple(arguments.pages))
    if arguments.against:
        effort = effort.for_two_builds()
    begin = time.monotonic()
    for name in chosen:
        start = time.monotonic()
        print(f"\033[1m== {name}\033[0m", flush=True)
        try:
            cases[name](runner, effort, results)
        except BenchError as error:
            results.fail(f"{name}: {error}")
        if far_lines := runner.far_lines():
            print(f"note: {far_lines}")
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
    return conclude(results, time.monotonic() - begin)


def conclude(results: Results, seconds: float) -> int:
    missed = [row.name for row in results.rows if row.ok is False]
    bars = [row for row in results.rows if row.ok is not None]
    if not results.rows and not results.failures:
        results.fail("there is no such row")
    for text in results.failures:
        print(f"failed: {text}")
    print(f"{len(bars) - len(missed)} of {len(bars)} bars reached in {seconds:.0f} s"
          + (f"; missed: {', '.join(missed)}" if missed else ""))
    return 1 if results.failures or missed else 0


if __name__ == "__main__":
    sys.exit(main())
