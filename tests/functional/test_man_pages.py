# SPDX-License-Identifier: BSD-3-Clause
"""The man pages tell of every option that the programs have, and of none that they have not."""
import os
import re
import subprocess

import pytest
from rig.stack import ROOT, Build

EAL = ["--no-huge", "-m", "64", "--no-pci", "--no-shconf", "--no-telemetry", "--"]
# How each program is asked for its help: once for itself and once for each of its commands.
PROGRAMS: dict[str, list[list[str]]] = {
    "rawqp-doctor": [[]],
    "rawqp-perf": [EAL],
    "softhca": [[], ["stat"], ["dump"], ["trace"], ["capture"], ["link"], ["fault"], ["vm"]],
    "softhca-pci": [[]],
}


def help_of(build: Build, program: str, words: list[str]) -> str:
    folder = build.folder / "app" / ("softhca/pci" if program == "softhca-pci" else program)
    told = subprocess.run([folder / program, *words, "--help"], check=True,
                          capture_output=True, text=True, timeout=60,
                          env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    return told.stdout


def page_of(program: str) -> str:
    return (ROOT / f"doc/man/{program}.1").read_text().replace("\\-", "-")


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_page_has_the_options(build: Build, program: str) -> None:
    helps = [help_of(build, program, words) for words in PROGRAMS[program]]
    options = {option for told in helps
               for option in re.findall(r"(?m)^  (?:-\w,? ?)?(--[a-z-]+)", told)}
    documented = set(re.findall(r"--[a-z][a-z-]*", page_of(program).partition(".SH EXAMPLES")[0]))
    not_its_own = {"--proc-type"}  # EAL's
    assert options and options == documented - not_its_own, options ^ documented


def test_the_page_of_softhca_has_the_keys_of_a_port(build: Build) -> None:
    keys = set(re.findall(r"(?m)^  ([a-z]+)=", help_of(build, "softhca", [])))
    documented = set(re.findall(r"(?m)^\.B[IR] ([a-z]+)=", page_of("softhca")))
    assert keys and keys == documented, keys ^ documented


@pytest.mark.parametrize("command", ["stat", "dump", "trace", "capture", "link", "fault"])
def test_help_of_a_command_is_about_that_command(build: Build, command: str) -> None:
    assert "wire=" not in help_of(build, "softhca", [command])
