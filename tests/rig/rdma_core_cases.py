#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs cases of rdma-core's own tests on a device, each in a process of its own, so that a crash or
hang does not affect others.

usage: rdma_core_cases.py                  lists them
       rdma_core_cases.py DEVICE SECONDS   runs those named on stdin, one per line

PYTHONPATH leads to the tests, as rdma-core's package `tests` and as modules. Prints a line of JSON
for each case: its name, how it ended, and its message if it was skipped or failed.
"""
from __future__ import annotations

import importlib
import json
import os
import random
import select
import signal
import sys
import tempfile
import time
import unittest
from typing import IO, Iterator


def each_case(tests: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from each_case(test)
        elif isinstance(test, unittest.TestCase):
            yield test


def load(device: str) -> dict[str, unittest.TestCase]:
    """Cases by name, without the package."""
    package = importlib.import_module("tests")
    sys.argv[1:] = ["--dev", device] if device else []
    importlib.import_module("args_parser").parser.parse_args()
    loader = unittest.defaultTestLoader
    return {case.id().removeprefix("tests."): case for module in package.__test_modules__
            for case in each_case(loader.loadTestsFromModule(module))}


def ended(result: unittest.TestResult) -> tuple[str, str]:
    for _, text in result.errors + result.failures:
        return "failed", text
    for _, reason in result.skipped:
        return "skipped", reason
    return "passed", ""


def run_here(case: unittest.TestCase, answer: int, output: IO[bytes]) -> None:
    """Runs in the child. Random choices of a case are the same each time."""
    os.setpgid(0, 0)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    random.seed(case.id())
    result = unittest.TestResult()
    case.run(result)
    with os.fdopen(answer, "w") as pipe:
        pipe.write(json.dumps(ended(result)) + "\n")
    os._exit(0)  # without exit handlers: objects may be in any state


def end_group(child: int) -> int:
    """Ends a case with its children."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    return os.waitpid(child, 0)[1]


def read_line(pipe: int, seconds: float) -> bytes | None:
    """A line; empty if all writers are gone, None on a timeout."""
    deadline = time.monotonic() + seconds
    line = b""
    while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
        chunk = os.read(pipe, 65536)
        line += chunk
        if not chunk or line.endswith(b"\n"):
            return line
    return None


def run_case(case: unittest.TestCase, seconds: float) -> tuple[str, str]:
    with tempfile.TemporaryFile() as output:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            run_here(case, writer, output)
        os.close(writer)
        answer = read_line(reader, seconds)
        os.close(reader)
        status = end_group(child)
        if answer:
            how, said = json.loads(answer)
        elif answer is None:
            how, said = "failed", f"not finished after {seconds:g} s"
        else:
            how, said = "failed", f"ended with status {os.waitstatus_to_exitcode(status)}"
        output.seek(0)
        printed = output.read().decode(errors="replace") if how == "failed" else ""
    return how, said if not printed else f"{printed.strip()}\n{said}"


def main(arguments: list[str]) -> None:
    if not arguments:
        print("\n".join(load("")))
        return
    device, seconds = arguments
    cases = load(device)
    for line in iter(sys.stdin.readline, ""):
        name = line.strip()
        how, said = run_case(cases[name], float(seconds))
        print(json.dumps({"case": name, "ended": how, "said": said}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
