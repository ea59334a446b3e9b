# SPDX-License-Identifier: BSD-3-Clause
"""Bash completion of our programs' command lines."""

import os
import subprocess

import pytest
from rig.helps import EAL, PROGRAMS, help_of, options_in, path_of
from rig.stack import ROOT, Build

HELPS = [pytest.param(program, words, id=" ".join([program, *words]))
         for program, all_words in PROGRAMS.items() for words in all_words]


def completed(build: Build, program: str, *words: str) -> list[str]:
    """The completions of the last word, as found by bash."""
    line = [str(path_of(build, program)), *words]
    script = """source "$1"; shift
                COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
                function=$(complete -p "${1##*/}" | sed -E 's/.* -F ([^ ]+) .*/\\1/')
                "$function" "$1" "${@: -1}" "${@: -2:1}"
                printf '%s\\n' "${COMPREPLY[@]}" """
    told = subprocess.run(["bash", "-c", script, "bash", ROOT / "app/completion.bash", *line],
                          check=True, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    assert told.stderr == ""
    return told.stdout.split()


@pytest.mark.parametrize(("program", "words"), HELPS)
def test_options_are_those_of_the_help(build: Build, program: str, words: list[str]) -> None:
    options = completed(build, program, *words, "--")
    assert "--help" in options and len(set(options)) == len(options)
    assert set(options) == options_in(help_of(build, program, words))


def test_commands_are_those_that_softhca_has(build: Build) -> None:
    commands = {words[0] for words in PROGRAMS["softhca"] if words}
    assert set(completed(build, "softhca", "")) == commands
    assert completed(build, "softhca", "tr") == ["trace"]
    assert completed(build, "softhca", "stat", "") == []


def test_what_is_another_programs_is_left_alone(build: Build) -> None:
    assert completed(build, "softhca", "--verbose", "--", "testpmd", "--") == []
    assert "--no-huge" in completed(build, "rawqp-perf", "--")
    assert "--no-huge" not in completed(build, "rawqp-perf", *EAL, "--")
