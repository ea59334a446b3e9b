# SPDX-License-Identifier: BSD-3-Clause
"""Programs built with AddressSanitizer or ThreadSanitizer run under softhca unchanged, with reports of their
own errors only."""

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Callable

import pytest
from functional.conftest import StartSoftHca
from rig.guide import manual_recipe
from rig.stack import PortSpec

pytestmark = pytest.mark.unsanitized  # softhca is built without sanitizers here

SOURCE = Path(__file__).parent / "sanitized/traffic.cpp"
RECIPE = "A program with AddressSanitizer or ThreadSanitizer"
MISTAKES = {
    "address": ("overflow", "AddressSanitizer: heap-buffer-overflow"),
    "thread": ("race", "ThreadSanitizer: data race"),
}


@pytest.fixture(scope="module")
def compile_with(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    folder = tmp_path_factory.mktemp("sanitized")

    def compile_program(compiler: str, sanitizer: str) -> Path:
        place = folder / f"{compiler}-{sanitizer}"
        place.mkdir()
        shutil.copy(SOURCE, place / "my-program.cpp")
        command, = (line for line in manual_recipe(RECIPE).splitlines() if f"={sanitizer} " in line)
        subprocess.run(shlex.split(command.replace("g++", compiler)), cwd=place, check=True)
        return place / "my-program"

    return compile_program


@pytest.mark.parametrize("sanitizer", MISTAKES)
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_sanitized_program(
    start_softhca: StartSoftHca, compile_with: Callable[[str, str], Path], compiler: str, sanitizer: str
) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    program = str(compile_with(compiler, sanitizer))
    mistake, complaint = MISTAKES[sanitizer]
    # Also as the child of a program without sanitizer.
    hca = start_softhca([PortSpec(wire="loop")], ["sh", "-c", '"$0"', program])
    assert hca.program.wait(60) == 0, hca.program.output
    assert "received 100" in hca.program.output and "Sanitizer" not in hca.program.output
    hca = start_softhca([PortSpec(wire="loop")], [program, mistake])
    assert hca.program.wait(60) != 0
    assert complaint in hca.program.output
