# SPDX-License-Identifier: BSD-3-Clause
"""The man pages document every option of the programs, and no others."""
import re

import pytest
from rig.helps import PROGRAMS, help_of, options_in
from rig.stack import ROOT, Build


def page_of(program: str) -> str:
    return (ROOT / f"doc/man/{program}.1").read_text().replace("\\-", "-")


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_page_has_the_options(build: Build, program: str) -> None:
    helps = [help_of(build, program, words) for words in PROGRAMS[program]]
    options = set[str]().union(*map(options_in, helps))
    documented = set(re.findall(r"--[a-z][a-z-]*", page_of(program).partition(".SH EXAMPLES")[0]))
    not_its_own = {"--proc-type"}  # EAL's
    assert options and options == documented - not_its_own, options ^ documented


def test_the_page_of_softhca_has_the_keys_of_a_port(build: Build) -> None:
    keys = set(re.findall(r"(?m)^  ([a-z_]+)=", help_of(build, "softhca", [])))
    documented = set(re.findall(r"(?m)^\.B[IR] ([a-z_]+)=", page_of("softhca")))
    assert keys and keys == documented, keys ^ documented


@pytest.mark.parametrize("command", ["stat", "dump", "trace", "capture", "link", "fault"])
def test_help_of_a_command_is_about_that_command(build: Build, command: str) -> None:
    assert "wire=" not in help_of(build, "softhca", [command])
