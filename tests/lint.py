# SPDX-License-Identifier: BSD-3-Clause
"""Checks of the source text: one test each in `scripts/test lint`."""
from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Protocol

ROOT = Path(__file__).resolve().parent.parent
LICENCE = "SPDX-License-Identifier: BSD-3-Clause"
# Files that cannot have comments, and the licence and prose; the last three are Debian's.
NO_LICENCE_LINE = {".md", ".json", ".bin", ".gitignore", "LICENSE", "changelog", "copyright",
                   "format"}


@dataclass
class Outcome:
    failed: bool = False
    output: str = ""
    repeat: str = ""
    skipped: str = ""  # the reason, if the check could not run


class Check(Protocol):
    name: str

    def run(self) -> Outcome: ...


def sources() -> list[Path]:
    """All files of the checkout that git tracks or would track, relative to its root."""
    # safe.directory: continuous integration may run as another user than the checkout's owner.
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others",
               "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if listing.returncode != 0:
        raise SystemExit("lint: git cannot list the files to check; it needs a clone, not an "
                         f"unpacked archive: {listing.stderr.strip()}")
    names = filter(None, listing.stdout.split("\0"))
    return [Path(name) for name in names if (ROOT / name).is_file()]  # without deleted ones


def interpreter(path: Path) -> str:
    """'python', 'bash' or '': by suffix or by the first line."""
    if path.suffix == ".py":
        return "python"
    if path.suffix == ".sh":
        return "bash"
    if path.suffix:
        return ""
    with (ROOT / path).open(errors="replace") as file:
        first = file.readline()
    if not first.startswith("#!"):
        return ""
    return next((name for name in ("python", "bash") if name in first), "")


@dataclass
class Tool:
    """A program that takes files and fails if one of them is wrong."""
    name: str
    command: list[str]
    files: list[Path]

    def run(self) -> Outcome:
        if shutil.which(self.command[0]) is None:
            return Outcome(skipped=f"{self.command[0]} is missing (scripts/setup installs it)")
        if not self.files:
            return Outcome(failed=True, output=f"{self.name}: no file to check",
                           repeat="scripts/test lint")
        answer = subprocess.run([*self.command, *map(str, self.files)], cwd=ROOT,
                                capture_output=True, text=True, check=False)
        output = answer.stdout + answer.stderr
        wrong = [str(file) for file in self.files if f"{file}:" in output] or ["FILE..."]
        return Outcome(answer.returncode != 0, output, shlex.join([*self.command, *wrong]))


@dataclass
class Rendered:
    """The guides render without warnings. They use only what docutils supports without Sphinx."""
    guides: list[Path]
    name = "docutils"

    def run(self) -> Outcome:
        tool = Tool(self.name, ["rst2pseudoxml", "--report=info", "--halt=info"], [])
        for guide in self.guides:
            tool.files = [guide]
            outcome = tool.run()
            if outcome.failed or outcome.skipped:
                return outcome
        return Outcome(failed=not self.guides, output="docutils: no guide to check",
                       repeat="scripts/test lint")


@dataclass
class LicenceLine:
    files: list[Path]
    name: str = "licence line"

    def run(self) -> Outcome:
        bare = [str(path) for path in self.files if not self.has_line(path)]
        output = "".join(f"{path}: no '{LICENCE}' in its first lines\n" for path in bare)
        return Outcome(bool(bare), output, "scripts/test lint")

    @staticmethod
    def has_line(path: Path) -> bool:
        if path.suffix in NO_LICENCE_LINE or path.name in NO_LICENCE_LINE:
            return True
        with (ROOT / path).open(errors="replace") as file:
            return any(LICENCE in file.readline() for _ in range(3))


# Rules of doc/architecture.md that a line can break: where, what must not occur there, why.
BORDERS = (
    (r"drivers/", r"softhca", "the driver holds no line that exists for softhca"),
    (r"common/", r'#include "(drivers|app)/', "common/ serves the others and uses none of them"),
    (r"app/", r'#include "drivers/', "softhca knows nothing of the driver"),
    (r"app/softhca/core/(?!rings/)", r'#include "(common/mlx5|app/softhca/core/rings)/|\bmlx5::',
     "the core knows no family's formats outside rings/: requests.hpp and ring_format.hpp are the border"),
    (r"(drivers/(?!net/rawqp/dpdk\.hpp)|common/|app/(?!rawqp-perf/dpdk\.hpp))",
     r"#include <(rte_|ethdev_|bus_)", "a part's dpdk.hpp alone includes DPDK"),
    (r"(tests|scripts|app)/(?!.*\.[ch]pp$)", r"\bsys\.path\b",
     "packages are imported as they are: scripts/lib.sh and tests/pytest.ini say where they lie"),
)


@dataclass
class Borders:
    files: list[Path]
    name: str = "borders between the parts"

    def run(self) -> Outcome:
        breaches = [f"{path}:{number}: {why}\n" for path in self.files
                    for where, what, why in BORDERS if re.match(where, str(path))
                    for number, line in enumerate((ROOT / path).read_text().splitlines(), 1)
                    if re.search(what, line)]
        return Outcome(bool(breaches), "".join(breaches), "scripts/test lint")


@dataclass
class NamesInArchitecture:
    """Everything that doc/architecture.md names exists: every file and folder, below one of `bases` or next
    to one named before; and every `function()` in one of the files that the same paragraph, list item or
    row names."""
    page: Path = Path("doc/architecture.md")
    bases: tuple[str, ...] = ("", "drivers/net/rawqp", "drivers/net/rawqp/ethdev", "app/softhca")
    name: str = "names in architecture.md"

    def run(self) -> Outcome:
        text = (ROOT / self.page).read_text()
        wrong = [f"{self.page}: {complaint}\n"
                 for part in re.split(r"\n(?=\n|- |\d+\. |\|)", text)
                 for complaint in self.complaints(part)]
        return Outcome(bool(wrong), "".join(wrong), "scripts/test lint")

    def complaints(self, part: str) -> Iterator[str]:
        words = re.findall(r"`([^`]+)`", part)
        files: list[Path] = []
        for path in filter(self.is_path, words):
            beside = [str(file if file.is_dir() else file.parent) for file in files]
            found = [file for base in [*self.bases, *beside] for file in (ROOT / base).glob(path)]
            files += found
            if not found:
                yield f"there is no {path}"
        sources = [file.read_text() for file in files if file.is_file()]
        for word in words:
            function = re.fullmatch(r"(?!rte_)(?:\w+::)*(\w+)\(\)", word)
            if function and not any(re.search(rf"\b{function[1]}(<[\w, ]*>)?\(", source)
                                    for source in sources):
                yield f"{word} is in none of the files that are named with it"

    @staticmethod
    def is_path(word: str) -> bool:
        return bool(re.fullmatch(r"\w[\w.*-]*/[\w./*-]*|[\w*-]+\.(cpp|hpp|py|rst|ini|json|build)",
                                 word))


@dataclass
class ReceivedPacket:
    """The path of a received packet in doc/architecture.md leads downwards: at most `most` files, each of
    which includes only later ones."""
    page: Path = Path("doc/architecture.md")
    house: str = "drivers/net/rawqp"
    most: int = 7
    name: str = "the way of a received packet"

    def run(self) -> Outcome:
        walk = re.split(r"\n###? ", (ROOT / self.page).read_text().partition(
            "### A received packet")[2])[0]
        floors = [[f"{self.house}/{path}" for path in re.findall(r"`([\w./]+\.[ch]pp)`", head)]
                  for head in re.findall(r"\n\d+\. ([^:]+):", walk)]
        wrong = [] if 0 < len(floors) <= self.most else [f"it passes {len(floors)} files\n"]
        for number, files in enumerate(floors):
            above = [path for floor in floors[:number] for path in floor]
            wrong += [f"{path} includes {other}, which is above it\n"
                      for path in files for other in above
                      if f'#include "{other}"' in (ROOT / path).read_text()]
        return Outcome(bool(wrong), "".join(wrong), "scripts/test lint")


@dataclass
class Rooms:
    """Each folder of the driver is a room, and files next to rooms form a room of their own: the includes of a
    room must not lead back to it."""
    files: list[Path]
    name: str = "no circle between the driver's rooms"
    house: str = "drivers/net/rawqp"

    def run(self) -> Outcome:
        edges: dict[str, dict[str, str]] = {}  # room -> room -> where it is included
        for path in self.files:
            if not path.is_relative_to(self.house):
                continue
            for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
                found = re.match(rf'#include "({self.house}/.*)"', line)
                room, other = str(path.parent), str(Path(found[1]).parent) if found else ""
                if found and room != other:
                    edges.setdefault(room, {}).setdefault(other, f"{path}:{number}")
        circle: list[str] = next(
            filter(None, (self.way(edges, room, room) for room in sorted(edges))), [])
        output = "".join(f"{edges[room][other]}: {room} includes {other}\n"
                         for room, other in zip(circle, circle[1:]))
        return Outcome(bool(circle), output, "scripts/test lint")

    @staticmethod
    def way(edges: dict[str, dict[str, str]], start: str, end: str) -> list[str]:
        """The shortest path along at least one edge; [] if there is none."""
        ways, seen = [[start]], set[str]()
        for way in ways:
            for room in edges.get(way[-1], {}):
                if room == end:
                    return [*way, room]
                if room not in seen:
                    seen.add(room)
                    ways.append([*way, room])
        return []


def checks() -> list[Check]:
    files = sources()
    cpp = [path for path in files if path.suffix in (".cpp", ".hpp")]
    python = [path for path in files if interpreter(path) == "python"]
    bash = [path for path in files if interpreter(path) == "bash"]
    return [
        Tool("clang-format", ["clang-format", "--dry-run", "-Werror"], cpp),
        LicenceLine(files),
        Borders(cpp + python),
        Rooms(cpp),
        NamesInArchitecture(),
        ReceivedPacket(),
        Rendered([path for path in files if path.suffix == ".rst"]),
        Tool("pyflakes", ["pyflakes3"], python),
        Tool("mypy", ["mypy", "--ignore-missing-imports", "--disallow-untyped-defs",
                      "--scripts-are-modules", "--cache-dir=/dev/null"], python),
        Tool("shellcheck", ["shellcheck", "-x"], bash),
    ]
