# SPDX-License-Identifier: BSD-3-Clause
"""The rows of a run: shown, and written to the file, as they arrive."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Callable, Sequence

from .charts import chart
from .ratios import Figure, Ratio, TooFewFigures, ratio
from .runner import BenchError


class Results:
    """`only`: names of benchmarks or rows, with * and ?; a name selects all that begin with it.

    Failures are reported and recorded, and the remaining benchmarks continue. Raises OSError if `file` cannot be
    written.
    """

    def __init__(self, file: Path | None = None, only: Sequence[str] = ()) -> None:
        self._file = file
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
            part_of(file).touch()
            part_of(file).unlink()
        self._only = only
        self.rows: list[Ratio] = []
        self.failures: list[str] = []

    def wants(self, name: str) -> bool:
        """Whether the row was requested."""
        return not self._only or any(
            fnmatchcase(name, each) or fnmatchcase(name, f"{each}.*") for each in self._only)

    def may_want(self, start: str) -> bool:
        """Whether a row whose name begins with `start` may have been requested."""
        def meets(pattern: str) -> bool:
            literal = pattern.split("*")[0].split("?")[0]
            below = f"{literal}." if literal == pattern else literal
            return literal.startswith(start) or start.startswith(below)

        return not self._only or any(meets(each) for each in self._only)

    def add(self, name: str, a: Sequence[Figure], b: Sequence[Figure], labels: tuple[str, str],
            bar: str | None = None) -> None:
        if not self.wants(name):
            return
        try:
            row = ratio(name, a, b, labels, bar)
        except TooFewFigures as error:
            self.fail(str(error))
            return
        self.rows.append(row)
        print(line(row), flush=True)
        if self._file:
            self._write(self._file, benchmark(name))

    def collect(self, what: str, times: int, run: Callable[[int], list[Figure]]) -> list[Figure]:
        """The figures of `times` numbered runs; if one fails, those of the others."""
        figures: list[Figure] = []
        for number in range(times):
            try:
                figures += run(number)
            except BenchError as error:
                figures += error.figures
                self.fail(f"{what}: {error}")
        return figures

    def fail(self, text: str) -> None:
        self.failures.append(text.splitlines()[0])
        print(f"FAILED: {text}", file=sys.stderr, flush=True)

    def _write(self, file: Path, case: str) -> None:
        part = part_of(file)  # concurrent readers see complete rows
        part.write_text(json.dumps([row.as_json() for row in self.rows], indent=1) + "\n")
        part.replace(file)
        some = [row for row in self.rows if benchmark(row.name) == case]
        order = list(dict.fromkeys(at_far(row.name) for row in some))
        some.sort(key=lambda row: order.index(at_far(row.name)))
        file.with_name(f"{file.stem}-{case}.svg").write_text(chart(
            f"{case}: ratio, median and spread of {some[0].pairs} pairs; at far unless said", some))


def part_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.part")


def benchmark(name: str) -> str:
    """The benchmark that a row belongs to."""
    return at_far(name).split(".")[0]


def at_far(name: str) -> str:
    """The row of the same name at far, where names do not include the setting."""
    return re.sub("@[^.]+", "", name)


def line(row: Ratio) -> str:
    verdict = {None: "", True: "ok", False: "MISSED"}[row.ok]
    values = f"{row.a_value:.4g} ÷ {row.b_value:.4g} {row.unit}"
    return (f"{row.name:<42} {row.ratio_median:>7.2f}  [{row.ratio_min:.2f} … {row.ratio_max:.2f}]"
            f"  {row.bar or '':<8} {verdict:<7} {values:<38} {row.a} ÷ {row.b}")
