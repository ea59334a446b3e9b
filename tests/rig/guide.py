# SPDX-License-Identifier: BSD-3-Clause
"""The driver guide and softhca's manual, whose recipes are run as written."""

import configparser
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from .stack import ROOT

GUIDE = ROOT / "doc/guides/nics/rawqp.rst"
MANUAL = ROOT / "doc/softhca.md"


def recipe(section: str, start: str = "") -> str:
    """The first literal block (that begins with `start`) below a heading of the guide."""
    return _block(GUIDE, rf"{re.escape(section)}\n[-=~]+\n", "::\n\n", section, start)


def manual_recipe(section: str, start: str = "") -> str:
    """The same for softhca's manual."""
    return _block(MANUAL, rf"##+ {re.escape(section)}\n", "\n\n", section, start)


def _block(page: Path, heading: str, opening: str, section: str, start: str) -> str:
    text = page.read_text()
    found = re.search(rf"(?m)^{heading}", text)
    assert found, f"{page.name} has no section {section!r}"
    for block in re.finditer(rf"{opening}((?:    .*\n|\n)+)", text[found.end() - 1:]):
        lines = textwrap.dedent(block[1]).strip("\n")
        if lines.startswith(start):
            return lines
    raise AssertionError(f"section {section!r} of {page.name} has no block {start!r}")


def commands(block: str) -> list[str]:
    """The commands of a block, with continued lines joined."""
    return re.sub(r"\\\n *", "", block).splitlines()


def features(section: str) -> dict[str, str]:
    """A section of the feature list: "Y" or "P" (see its header) for each name."""
    table = configparser.ConfigParser()
    assert table.read(GUIDE.parent / "features/rawqp.ini")
    return dict(table[section])


# Fields that testpmd names differently from the guide, splits or joins.
_PARTS = {"tci": ("tci", "pcp", "dei", "vid"), "key": ("value",), "ihl": ("version_ihl",), "c bit": ("c_bit",),
          "k bit": ("k_bit",), "s bit": ("s_bit",)}


@dataclass(frozen=True)
class MatchedFields:
    """The fields of rte_flow items in the guide's table, as (item, field) in testpmd's syntax."""

    by_both: frozenset[tuple[str, str]]
    by_mlx5: frozenset[tuple[str, str]]  # only with flow_engine=mlx5


def matched_fields() -> MatchedFields:
    table = re.search(r"csv-table:: Items\n(?:   :.*\n)+\n((?:   .+\n)+)", GUIDE.read_text())
    assert table, f"{GUIDE.name} has no table of items"
    by_both: set[tuple[str, str]] = set()
    by_mlx5: set[tuple[str, str]] = set()
    for line in table[1].splitlines():
        item, *cells = (cell.strip() for cell in line.split(";"))
        for column, cell in zip((by_both, by_mlx5), [*cells[:1], " ".join(cells[1:])]):
            for name in re.split(r", |; ", cell):
                parts = _PARTS.get(name) or name.split(" and ")
                column |= {(item.replace("_gpe", "-gpe"), part) for part in parts if part}
    return MatchedFields(frozenset(by_both), frozenset(by_mlx5))
