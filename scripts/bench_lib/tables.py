# SPDX-License-Identifier: BSD-3-Clause
"""Tables of the documents, filled in from the rows written by scripts/bench --json.

The part of a document to be replaced is between `<!-- bench NAME -->` and `<!-- end of bench -->`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from .runner import ROOT, BenchError

DOCUMENTS = (ROOT / "README.md", ROOT / "doc/bench.md")

Row = Mapping[str, Any]  # as Ratio.as_json
ROW_KEYS = ("ratio_median", "ratio_min", "ratio_max", "pairs", "bar", "ok")
Rows = Mapping[str, Row]  # by name


@dataclass(frozen=True)
class Line:
    """A line of a table: its cells show the rows of these names, where {} is a setting, such as "" (far)
    or "@near"."""

    label: str
    names: tuple[str, ...]


def by_size(label: str, name: str, sizes: Sequence[str] = ("64", "imix", "1500")) -> Line:
    return Line(label, tuple(name.replace("SIZE", size) for size in sizes))


SETTINGS = {"far": "", "near": "@near", "cold": "@cold", "far, 4 KiB pages": "@far-4k"}
MEASURES = {"Rx": "rx", "Tx": "tx", "forward": "forward"}
HEADLINE = (by_size("Rx", "cycles{}.rx.SIZE.vs_mlx5"),
            by_size("Tx, fast free", "cycles{}.tx.SIZE.vs_mlx5"),
            by_size("Tx", "cycles{}.tx.SIZE.no_fast_free.vs_mlx5"),
            by_size("forward", "cycles{}.forward.SIZE.vs_mlx5"))
MODES = (
    by_size("MPRQ, Rx", "mprq{}.rx.SIZE.vs_mlx5"),
    by_size("MPRQ, forward", "mprq{}.forward.SIZE.vs_mlx5"),
    by_size("compressed CQEs, Rx", "compressed{}.rx.SIZE.vs_mlx5", ("64", "imix")),
    by_size("compressed CQEs, forward", "compressed{}.forward.SIZE.vs_mlx5", ("64", "imix")),
    by_size("Rx with checksums, RSS hash, VLAN", "offloads{}.rx.SIZE.vs_mlx5"),
    Line("the same, 64 bytes, bursts of 4 and 8",
         ("offloads{}.rx.64.burst_4.vs_mlx5", "offloads{}.rx.64.burst_8.vs_mlx5")),
    Line("the same and a mark, bursts of 32, 4, 8",
         ("marks{}.rx.64.vs_mlx5", "marks{}.rx.64.burst_4.vs_mlx5",
          "marks{}.rx.64.burst_8.vs_mlx5")))


def against(loop: str) -> list[Line]:
    return [by_size(label, f"cycles{{}}.{measure}.SIZE.{loop}")
            for label, measure in MEASURES.items()]


def cell(rows: Rows, names: Sequence[str]) -> str:
    """Medians; bold where the target was missed."""
    def value(name: str) -> str:
        row = rows.get(name)
        if row is None:
            return "–"
        text = f"{row['ratio_median']:.2f}"
        return f"**{text}**" if row["ok"] is False else text

    values = [value(name) for name in names]
    return " / ".join(values) if any(each != "–" for each in values) else ""


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    filled = [["", *header], ["---"] * (len(header) + 1), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in filled)


def by_setting(rows: Rows, lines: Sequence[Line]) -> str:
    """A table with a column for each setting that has rows."""
    settings = {label: at for label, at in SETTINGS.items()
                if any(name.format(at) in rows for line in lines for name in line.names)}
    return markdown(list(settings), [
        [line.label, *(cell(rows, [name.format(at) for name in line.names])
                       for at in settings.values())] for line in lines])


def by_measure(rows: Rows, labels: Mapping[str, Callable[[str, str], str]]) -> str:
    """A column for each measure at far and at near, if it has rows. `labels`: for each line, the name of the row
    for a measure and a setting."""
    columns = [(f"{label}, {setting}", measure, SETTINGS[setting])
               for label, measure in MEASURES.items() for setting in ("far", "near")
               if any(name(measure, SETTINGS[setting]) in rows for name in labels.values())]
    return markdown([label for label, _, _ in columns], [
        [label, *(cell(rows, [name(measure, at)]) for _, measure, at in columns)]
        for label, name in labels.items()])


def bursts(rows: Rows) -> str:
    def row(burst: int) -> Callable[[str, str], str]:
        if burst == 32:
            return lambda measure, at: f"cycles{at}.{measure}.64.vs_mlx5"
        return lambda measure, at: f"bursts{at}.{measure}.{burst}.vs_mlx5"

    return by_measure(rows, {str(burst): row(burst) for burst in (4, 8, 16, 32, 64)})


def queues(rows: Rows) -> str:
    def row(count: int, by: str) -> Callable[[str, str], str]:
        return lambda measure, at: f"queues{at}.{measure}.{count}.{by}"

    lines = {f"{count} queues": row(count, "vs_mlx5") for count in (4, 16, 64)}
    lines |= {f"{count} ÷ 1 queue, ÷ the floor's": row(count, "growth_vs_floor")
              for count in (4, 16, 64)}
    return by_measure(rows, lines)


def headline(rows: Rows) -> str:
    names = {name.format(at) for line in HEADLINE for name in line.names for at in SETTINGS.values()}
    pairs = sorted({rows[name]["pairs"] for name in names & rows.keys()})
    if not pairs:
        return ""
    how_many = f"{pairs[0]}" if len(pairs) == 1 else f"{pairs[0]} to {pairs[-1]}"
    return f"{by_setting(rows, HEADLINE)}\n\nMedians of {how_many} pairs."


def missed(rows: Rows, old: str) -> str:
    """The rows that miss their bar, and those in the `old` list that were not measured this time. (One that is no
    longer measured at all is to be taken out by hand.)"""
    kept = [[cell.strip() for cell in line.strip("| ").split(" | ")]
            for line in re.findall(r"(?m)^\| [a-z].*\|$", old)]
    lines = {name: [name, *values] for name, *values in kept if rows.get(name, {"ok": False})["ok"] is False}
    lines |= {name: [name, f"{row['ratio_median']:.2f} [{row['ratio_min']:.2f} … {row['ratio_max']:.2f}]",
                     row["bar"].replace("<=", "≤").replace(">=", "≥")]
              for name, row in rows.items() if row["ok"] is False}
    return markdown(["ratio", "bar"], list(lines.values())) if lines else "None." if rows else ""


# From the rows and what the table was before.
TABLES: Mapping[str, Callable[[Rows, str], str]] = {
    "headline": lambda rows, _: headline(rows),
    "floor": lambda rows, _: by_setting(rows, against("vs_floor")),
    "verbs": lambda rows, _: by_setting(rows, against("verbs.vs_loop")),
    "bursts": lambda rows, _: bursts(rows),
    "modes": lambda rows, _: by_setting(rows, MODES),
    "queues": lambda rows, _: queues(rows),
    "missed": missed,
}


def fill(text: str, rows: Rows) -> str:
    """The text, in which the tables that there are rows for are regenerated."""
    def table(found: re.Match[str]) -> str:
        if found[2] not in TABLES:
            raise BenchError(f"there is no table {found[2]}: {', '.join(TABLES)}")
        made = TABLES[found[2]](rows, found[3])
        has_figures = re.search(r"\d\.\d", made) or made.startswith("None")
        return f"{found[1]}\n{made}\n{found[4]}" if has_figures else found[0]

    return re.sub(r"(<!-- bench (\w+) -->)\n(.*?)(<!-- end of bench -->)", table, text,
                  flags=re.DOTALL)


def rows_in(file: Path) -> Rows:
    """Raises BenchError if the file is not one that --json has written."""
    try:
        rows = {row["name"]: row for row in json.loads(file.read_text())}
        for row in rows.values():
            for key in ROW_KEYS:
                row[key]
    except OSError as error:
        raise BenchError(f"{file}: {error.strerror}")
    except (ValueError, TypeError, LookupError):
        raise BenchError(f"{file}: these are no rows that scripts/bench --json has written")
    return rows


def fill_documents(file: Path, documents: Sequence[Path] = DOCUMENTS) -> None:
    rows = rows_in(file)
    for document in documents:
        document.write_text(fill(document.read_text(), rows))
