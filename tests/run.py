#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs test suites and sums their results. Called by scripts/test after scripts/setup.

A suite is one of
  lint, tidy         checks of the sources
  unit:BUILD         the GoogleTest programs of a build folder; unit-thorough:BUILD kills bursts
                     after each of their instructions; rings:BUILD is the data path's program alone
  functional:BUILD   pytest on it, in three processes; with sanitizers, without tests marked `unsanitized`
                     or `thorough`
  unsanitized:BUILD  only the tests marked `unsanitized`, in two processes
  kernel:BUILD       the tests that need a kernel, and the functional tests in a guest;
                     kernel-once:BUILD runs each of the latter with the first of its parameters only,
                     and no test of either that is `thorough`
  rdma:BUILD         third-party suites, on both fronts: tests/rdma; rdma-daily:BUILD without tests
                     marked `thorough`
  clang, sanitize    a build with that option of scripts/setup
  threads            the unit tests with several threads, with ThreadSanitizer
  fuzz, arm, packages-RELEASE
                     tests/fuzz/run, scripts/check-arm, scripts/check-package RELEASE, a test each
  dpdk:SOURCE        scripts/check-dpdk, a test
A&B&C runs B and then C alongside A: a guest keeps one CPU busy, compilers can use the others.
The results of each suite are read from its JUnit file, never from its output. A suite that crashes, or
that runs no test at all, is a failure.
"""
from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Callable, NamedTuple, Sequence
from xml.etree import ElementTree

import lint
import tidy
from rig.program import die_with_parent
from rig.sanitizers import ASAN_OPTIONS, UBSAN_OPTIONS

ROOT = Path(__file__).resolve().parent.parent
UNIT_TIMEOUT_S = 600
THOROUGH_UNIT_TIMEOUT_S = 2400
FUNCTIONAL_TIMEOUT_S = 7200
FUNCTIONAL_WORKERS = 3  # a test's programs mostly wait for each other
UNSANITIZED_WORKERS = 2  # some of these count events, which change if the device gets no CPU
KERNEL_TIMEOUT_S = 10800
RDMA_TIMEOUT_S = 5400  # perftest in the guest as well
COMMAND_TIMEOUT_S = 3600
MESSAGE_CHARS = 600  # shown of a failed test
FEW = 5  # tests named when several are skipped for the same reason
FUZZ_SECONDS = 60  # for each target
# Threads of the device, and of the code around it. Memory faults are left out: ThreadSanitizer does not let
# their signal handler jump.
THREAD_TESTS = ("*Hairpin*:*Arm*:*Virtq*:Turns*:HandOver*:Engine*:ControlClient*:EventPipe*:VfioUser*:"
                "LedTest*:PortThreads*-HandOverFaults*")
CANNOT_RUN = 77  # the exit status that says so

# Returns the command that reruns one JUnit test case.
Repeat = Callable[[ElementTree.Element], str]


class Failure(NamedTuple):
    name: str
    repeat: str  # the command that reruns it
    why: str = ""


@dataclass
class Results:
    passed: int = 0
    failed: list[Failure] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)  # name, reason

    def add(self, other: Results) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def shell(command: list[str], env: dict[str, str]) -> str:
    """The command line to paste into a shell at the root of the checkout."""
    settings = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    return " ".join(settings + [shlex.join(command)])


def hear_signals() -> None:
    """Restores signals: background jobs of a script ignore SIGINT and SIGQUIT, those of nohup SIGHUP, and
    children inherit this; but tests send these signals."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


running: set[subprocess.Popen[bytes]] = set()  # each leads a process group


def run_bounded(command: list[str], env: dict[str, str], timeout_s: int,
                output: IO[str] | None = None) -> str:
    """Runs a command in a process group of its own. Returns '' for status 0, else how it ended."""
    die = die_with_parent()  # also when this program is killed, or loses its terminal

    def prepare() -> None:
        hear_signals()
        die()

    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **env}, start_new_session=True,
                               preexec_fn=prepare, stdout=output,
                               stderr=subprocess.STDOUT if output else None)
    running.add(process)  # so that Ctrl-C ends it: it must not outlive this program
    try:
        status = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        end_group(process)
        running.discard(process)
        return f"not finished after {timeout_s} s"
    running.discard(process)
    if status < 0:
        return f"died by {signal.Signals(-status).name}"
    return f"exit status {status}" if status else ""


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends it gently at first, so that fixtures can clean up."""
    for number, patience_s in ((signal.SIGINT, 20), (signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, number)
            process.wait(patience_s)
            return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return


def on_one_line(text: str) -> str:
    return " ".join(text.split())


def in_short(wrong: ElementTree.Element) -> str:
    """The message of a failed test: a run's log may be all that is left of it."""
    return on_one_line(wrong.get("message") or wrong.text or "")[:MESSAGE_CHARS]


def read_junit(report: Path, repeat: Repeat) -> Results:
    results = Results()
    seen: set[str] = set()
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        wrong = [*case.iter("failure"), *case.iter("error")]
        if wrong:
            if name not in seen:  # a test and its teardown can both fail
                results.failed.append(Failure(name, repeat(case), in_short(wrong[0])))
        elif skipped is not None:
            reason = on_one_line(skipped.get("message") or "no reason given")
            results.skipped.append((name, reason))
        elif case.get("status") == "notrun":
            results.skipped.append((name, "disabled in the source"))
        else:
            results.passed += 1
        seen.add(name)
    return results


def run_suite(name: str, command: list[str], env: dict[str, str], report: Path, timeout_s: int,
              repeat: Repeat) -> Results:
    report.parent.mkdir(exist_ok=True)
    report.unlink(missing_ok=True)
    end = run_bounded(command, env, timeout_s)
    try:
        results = read_junit(report, repeat)
    except (OSError, ElementTree.ParseError):
        results = Results()
        end = end or "left no report"
    if not end and not results.passed + len(results.failed) + len(results.skipped):
        end = "ran no test"
    if end and not (results.failed and end == "exit status 1"):
        results.failed.append(Failure(f"{name}: {end}", shell(command, env)))
    return results


def sanitized(build: Path) -> bool:
    return build.name.endswith("-asan")


def sanitizer_settings(build: Path) -> dict[str, str]:
    if not sanitized(build):
        return {}
    return {
        "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", ASAN_OPTIONS),
        "UBSAN_OPTIONS": os.environ.get("UBSAN_OPTIONS", UBSAN_OPTIONS),
    }


def gtest(build: Path, name: str, timeout_s: int = UNIT_TIMEOUT_S, **more_settings: str) -> Results:
    """Runs a program of unit tests in parallel, in one shard per CPU."""
    program = str((build / "tests/unit" / name).relative_to(ROOT))
    settings = {**sanitizer_settings(build), **more_settings}
    # Not built by ninja's default target: otherwise an old program would be run.
    built = command(f"build of {program}", "ninja", "-C", str(build), f"tests/unit/{name}")
    if built.failed:
        return built

    def repeat(case: ElementTree.Element) -> str:
        return shell([program, f"--gtest_filter={case.get('classname')}.{case.get('name')}"],
                     settings)

    shares = len(os.sched_getaffinity(0))

    def share(index: int) -> Results:
        report = build / "test-results" / f"{name}-{index}.xml"
        env = {**settings, "GTEST_TOTAL_SHARDS": str(shares), "GTEST_SHARD_INDEX": str(index)}
        return run_suite(f"{name} in {build.name}, share {index}",
                         [program, "--gtest_brief=1", f"--gtest_output=xml:{report}"], env, report,
                         timeout_s, repeat)

    return all_at_once([partial(share, index) for index in range(shares)])


def rings(build: Path) -> Results:
    return gtest(build, "rawqp-unit-rings")


def unit(build: Path) -> Results:
    results = rings(build)
    results.add(gtest(build, "rawqp-unit"))
    return results


def unit_thorough(build: Path) -> Results:
    results = gtest(build, "rawqp-unit-rings", THOROUGH_UNIT_TIMEOUT_S, RAWQP_EVERY_INSTRUCTION="1")
    results.add(gtest(build, "rawqp-unit"))
    return results


def pytest_suite(name: str, folder: str, build: Path, options: list[str], timeout_s: int,
                 workers: int = 1) -> Results:
    """`name` is the report's. Each worker takes whole files, because the tests of a file share stacks."""
    report = build / "test-results" / f"{name}.xml"
    env = {"RAWQP_BUILD": build.name, **sanitizer_settings(build)}
    if sanitized(build):
        env["RAWQP_SANITIZE"] = "1"
    pytest = [sys.executable, "-m", "pytest"]

    def repeat(case: ElementTree.Element) -> str:
        module = (case.get("classname") or "").replace(".", "/")
        path = next((p for p in (f"tests/{module}.py", f"{module}.py") if (ROOT / p).is_file()), "")
        where = f"{path}::{case.get('name')}" if path else folder
        return shell([*pytest, *options, where], env)

    shares = ["-n", str(workers), "--dist", "loadfile"] if workers > 1 else []
    command = [*pytest, "-q", *shares, *options, f"--junitxml={report}", folder]
    return run_suite(f"{name} in {build.name}", command, env, report, timeout_s, repeat)


def functional(build: Path) -> Results:
    options = ["-m", "not unsanitized and not thorough"] if sanitized(build) else []
    return pytest_suite("functional", "tests/functional", build, options, FUNCTIONAL_TIMEOUT_S,
                        FUNCTIONAL_WORKERS)


def unsanitized(build: Path) -> Results:
    return pytest_suite("unsanitized", "tests/functional", build,
                        ["-m", "unsanitized and not thorough"], FUNCTIONAL_TIMEOUT_S,
                        UNSANITIZED_WORKERS)


def kernel(build: Path, which: Sequence[str] = (), once: Sequence[str] = ()) -> Results:
    """The tests that need a kernel, then the functional tests that run on either front."""
    results = pytest_suite("kernel", "tests/kernel", build, [*which], KERNEL_TIMEOUT_S)
    results.add(pytest_suite("functional-in-guest", "tests/functional", build,
                             ["--front=guest", *once, *which], KERNEL_TIMEOUT_S))
    return results


def kernel_once(build: Path) -> Results:
    return kernel(build, ["-m", "not thorough"], ["--once"])


def rdma(build: Path, *options: str) -> Results:
    return pytest_suite("rdma", "tests/rdma", build, list(options), RDMA_TIMEOUT_S)


def rdma_daily(build: Path) -> Results:
    return rdma(build, "-m", "not thorough")


def check_sources(checks: list[lint.Check]) -> Results:
    results = Results()
    for check in checks:
        outcome = check.run()
        if outcome.skipped:
            results.skipped.append((check.name, outcome.skipped))
        elif outcome.failed:
            print(outcome.output)
            results.failed.append(Failure(check.name, outcome.repeat))
        else:
            results.passed += 1
    return results


def command(name: str, *words: str) -> Results:
    """One test, whose output is shown if it fails; with status 77 its last line says why it cannot
    run here. At low priority, in favor of concurrent suites."""
    with tempfile.TemporaryFile("w+") as log:
        end = run_bounded(["nice", "-n", "19", *words], {}, COMMAND_TIMEOUT_S, log)
        if not end:
            return Results(passed=1)
        log.seek(0)
        output = log.read()
    if end == f"exit status {CANNOT_RUN}":
        return Results(skipped=[(name, output.strip().rpartition("\n")[2])])
    print(output)
    return Results(failed=[Failure(f"{name}: {end}", shlex.join(words))])


def build(option: str) -> Results:
    """scripts/setup builds without a warning."""
    return command(f"build with {option}", "scripts/setup", f"--{option}", "--no-packages")


def threads() -> Results:
    results = build("threads")
    if not results.failed:
        results.add(gtest(ROOT / "build-threads", "rawqp-unit", GTEST_FILTER=THREAD_TESTS))
    return results


SUITES: dict[str, Callable[[], Results]] = {
    "lint": lambda: check_sources(lint.checks()),
    "tidy": lambda: check_sources([tidy.ClangTidy(ROOT / "build-clang")]),
    "clang": lambda: build("clang"),
    "sanitize": lambda: build("sanitize"),
    "threads": threads,
    "fuzz": lambda: command("fuzz", "tests/fuzz/run", str(FUZZ_SECONDS)),
    "arm": lambda: command("arm", "scripts/check-arm"),
    "packages-12": lambda: command("packages of Debian 12", "scripts/check-package", "12"),
    "packages-13": lambda: command("packages of Debian 13", "scripts/check-package", "13"),
}
SUITES_OF_A_FOLDER: dict[str, Callable[[Path], Results]] = {
    "dpdk": lambda source: command(f"DPDK in {source}", "scripts/check-dpdk", str(source)),
    "rings": rings,
    "unit": unit,
    "unit-thorough": unit_thorough,
    "functional": functional,
    "unsanitized": unsanitized,
    "kernel": kernel,
    "kernel-once": kernel_once,
    "rdma": rdma,
    "rdma-daily": rdma_daily,
}


def run(suite: str) -> Results:
    kind, _, folder = suite.partition(":")
    print(f"\033[1m== {suite}\033[0m\n", end="", flush=True)  # two threads may print
    start = time.monotonic()
    results = SUITES_OF_A_FOLDER[kind](ROOT / folder) if folder else SUITES[kind]()
    print(f"{suite}: {results.passed} passed, {len(results.failed)} failed, "
          f"{len(results.skipped)} skipped in {time.monotonic() - start:.0f} s", flush=True)
    return results


def all_at_once(jobs: Sequence[Callable[[], Results]]) -> Results:
    """Runs the first job in this thread, the others concurrently. An interrupt of one ends all programs."""
    results = Results()
    with ThreadPoolExecutor(len(jobs)) as beside:
        others = [beside.submit(job) for job in jobs[1:]]
        try:
            results.add(jobs[0]())
            for other in others:
                results.add(other.result())
        except BaseException:
            beside.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                end_group(process)
            raise
    return results


def run_all(suites: Sequence[str]) -> Results:
    """Runs the suites one after the other."""
    results = Results()
    for suite in suites:
        results.add(run(suite))
    return results


def run_together(first: str, *others: str) -> Results:
    """Runs A&B&C."""
    return all_at_once([partial(run, first), partial(run_all, others)])


def show_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    by_reason: dict[str, list[str]] = {}
    for name, reason in skipped:
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        if len(names) > FEW:
            names = [f"{names[0]} and {len(names) - 1} more"]
        for name in names:
            print(f"SKIPPED {name}: {reason}")


def main(suites: list[str]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT also in a background job
        signal.signal(number, signal.default_int_handler)
    total = Results()
    for suite in suites:
        total.add(run_together(*suite.split("&")))
    show_skipped(total.skipped)
    for lacking, count in Counter(
            found[0] for _, reason in total.skipped
            if (found := re.search(r"this CPU has no \S+", reason))).items():
        print(f"NOT TESTED: {count} tests, as {lacking}")
    for failure in total.failed:
        why = f": {failure.why}" if failure.why else ""
        print(f"FAILED {failure.name}{why}\n  repeat with: {failure.repeat}")
    print(f"{total.passed} passed, {len(total.failed)} failed, {len(total.skipped)} skipped")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
