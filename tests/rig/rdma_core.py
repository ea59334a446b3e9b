# SPDX-License-Identifier: BSD-3-Clause
"""rdma-core's own tests, as the distribution ships them beside pyverbs, on a device of either front."""

import gzip
import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .screen import Screen

PACKAGE = "python3-pyverbs"
CASES = Path(__file__).with_name("rdma_core_cases.py")


@dataclass
class Ending:
    ended: str  # "passed", "skipped" or "failed"
    said: str

    @property
    def reason(self) -> str:
        """The reason on one line; for a failure, that of the exception."""
        lines = self.said.strip().splitlines() or [""]
        return next((line for line in reversed(lines) if re.match(r"[\w.]+Error: ", line)), lines[-1])


Endings = dict[str, dict[str, Ending]]  # by front and name


def _shipped(folder: Path) -> Path:
    """The folder with the compressed tests. If the machine drops documentation, the package is unpacked again."""
    listing = subprocess.run(["dpkg", "-L", PACKAGE], check=True, capture_output=True, text=True)
    for path in map(Path, listing.stdout.split()):
        if path.name.startswith("base.py") and path.exists():
            return path.parent
    subprocess.run(["apt-get", "-q", "download", PACKAGE], cwd=folder, check=True)
    package, = folder.glob(f"{PACKAGE}_*.deb")
    subprocess.run(["dpkg", "-x", str(package), str(folder / "package")], check=True)
    return next(folder.glob("package/usr/share/doc/**/tests"))


def unpack(folder: Path) -> Path:
    """The tests as a package `tests` below `folder`; returns its folder."""
    tests = folder / "tests"
    tests.mkdir()
    for path in _shipped(folder).iterdir():
        if path.suffix == ".gz":
            (tests / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        elif path.suffix == ".py":
            shutil.copy(path, tests)
    return tests


def environment(tests: Path) -> dict[str, str]:
    return {"PYTHONPATH": f"{tests.parent}:{tests}", "PYTHONDONTWRITEBYTECODE": "1"}


def command(device: str, seconds: float) -> list[str]:
    """A program for Cases. `seconds`: time limit of a case."""
    return [sys.executable, str(CASES), device, str(seconds)]


@cache
def names() -> list[str]:
    """MODULE.CLASS.CASE of each case."""
    with tempfile.TemporaryDirectory() as folder:
        tests = unpack(Path(folder))
        return subprocess.run([sys.executable, str(CASES)], env=environment(tests), check=True,
                              capture_output=True, text=True).stdout.split()


class Cases:
    """The running program: runs one case after the other."""

    def __init__(self, program: Screen, seconds: float) -> None:
        self._program = program
        self._seconds = seconds

    def run(self, name: str) -> Ending:
        position = self._program.send_line(name)
        line = self._program.wait_for(r'^\{"case": .*\}$', position, self._seconds + 30)
        answer = json.loads(line[0])
        assert answer["case"] == name
        return Ending(answer["ended"], answer["said"])
