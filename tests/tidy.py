# SPDX-License-Identifier: BSD-3-Clause
"""clang-tidy over all sources of our own: `scripts/test tidy`."""
from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lint import ROOT, Outcome

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rawqp/clang-tidy"
JOBS = 2


@lru_cache(maxsize=None)
def content_hash(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


@dataclass(frozen=True)
class Source:
    """A source file as the compile database has it."""
    path: Path
    command: str
    includes: tuple[Path, ...]  # all files that its last compilation read, the source itself first

    def key(self, version: str) -> str:
        """The same if clang-tidy would report the same again: same program, configuration, command and content
        of all files read, whatever the folder of the clone. Empty if that is not known."""
        if not self.includes:
            return ""
        key = hashlib.sha256(f"{version}\0{self.command.replace(str(ROOT), '')}".encode())
        for file in (ROOT / ".clang-tidy", *self.includes):
            key.update(content_hash(file))
        return key.hexdigest()


def includes_by_object(build: Path) -> dict[str, tuple[Path, ...]]:
    """From ninja's dependency log; precompiled headers are left out, as the same log names the files that
    they were made from."""
    log = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], check=True, capture_output=True,
                         text=True).stdout
    includes: dict[str, tuple[Path, ...]] = {}
    for entry in re.finditer(r"^(\S+): #deps .*\(VALID\)\n((?:    .+\n)+)", log, re.MULTILINE):
        paths = [Path(os.path.normpath(build / line.strip())) for line in entry[2].splitlines()]
        if all(path.exists() for path in paths):
            includes[entry[1]] = tuple(path for path in paths if path.suffix != ".pch")
    return includes


def sources(build: Path) -> list[Source]:
    """The compile database without what the build generated."""
    includes = includes_by_object(build)
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = Path(os.path.normpath(Path(entry["directory"]) / entry["file"]))
        if not path.is_relative_to(build):
            found[path] = Source(path, entry["command"], includes.get(entry["output"], ()))
    return [found[path] for path in sorted(found)]


@dataclass
class ClangTidy:
    """clang-tidy on each source in the compile database. It cannot read another compiler's precompiled
    headers, so `build` is a complete build by clang. Clean sources are recorded in CACHE: the first run
    takes an hour, one after a small change a minute."""
    build: Path
    name: str = "clang-tidy"

    def run(self) -> Outcome:
        if shutil.which("clang-tidy") is None:
            return Outcome(skipped="clang-tidy is missing (scripts/setup installs it)")
        version = subprocess.run(["clang-tidy", "--version"], check=True, capture_output=True,
                                 text=True).stdout
        CACHE.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(JOBS) as pool:
            complaints = list(pool.map(lambda source: self.read(source, version),
                                       found := sources(self.build)))
        wrong = [str(source.path) for source, complaint in zip(found, complaints) if complaint]
        return Outcome(bool(wrong) or not found, "".join(complaints) or "clang-tidy: no source to read",
                       shlex.join([*self.command(), *wrong]))

    def command(self) -> list[str]:
        return ["clang-tidy", "--quiet", "-p", str(self.build)]

    def read(self, source: Source, version: str) -> str:
        """The warnings of clang-tidy; empty if there are none."""
        key = source.key(version)
        if key and (CACHE / key).exists():
            return ""
        answer = subprocess.run([*self.command(), str(source.path)], cwd=ROOT, capture_output=True,
                                text=True, check=False)
        if answer.returncode != 0:
            return answer.stdout or answer.stderr or f"{source.path}: status {answer.returncode}\n"
        if key:
            (CACHE / key).touch()
        return ""
