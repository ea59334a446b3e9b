# SPDX-License-Identifier: BSD-3-Clause
"""Programs whose output cannot be written say so, and their status shows it."""

import os
import re
import subprocess

import pytest
from rig.helps import PROGRAMS, path_of
from rig.stack import Build

HELPS = [(program, [*words, "--help"]) for program, commands in PROGRAMS.items() for words in commands
         if words != ["vm"]]  # in Python: see test_vm_streams.py
OTHERS = [("softhca", ["--version"]), ("softhca", ["stat", "--json"]), ("rawqp-doctor", ["--version"]),
          ("rawqp-doctor", ["--json"])]


def run(build: Build, program: str, words: list[str], redirection: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", f'exec "$@" {redirection}', "sh", path_of(build, program), *words],
                          stderr=subprocess.PIPE, text=True, timeout=60,
                          env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})


@pytest.mark.parametrize("program, words", HELPS + OTHERS, ids=lambda value: value if isinstance(value, str)
                         else " ".join(word for word in value if word.startswith("--")) or "none")
@pytest.mark.parametrize("redirection", ["> /dev/full", ">&-"], ids=["full", "closed"])
def test_output_is_lost(build: Build, program: str, words: list[str], redirection: str) -> None:
    ended = run(build, program, words, redirection)
    assert ended.returncode == 1
    said = [line for line in ended.stderr.splitlines() if "cannot write" in line]
    assert len(said) == 1 and re.fullmatch(
        rf"{program}: cannot write to stdout( \([\w ]+\))?; is there room left\?", said[0])


def test_nothing_is_lost_where_nothing_is_written(build: Build) -> None:
    """A wrong command line is one, wherever stdout leads."""
    for program in "softhca", "rawqp-doctor", "softhca-pci":
        ended = run(build, program, ["--bogus"], "> /dev/full")
        assert ended.returncode == 2 and "--bogus" in ended.stderr
        assert "cannot write" not in ended.stderr
