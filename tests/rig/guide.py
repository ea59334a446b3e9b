# SPDX-License-Identifier: BSD-3-Clause
"""The driver's guide, whose recipes are run as they are written."""

import re
import textwrap

from .stack import ROOT

GUIDE = ROOT / "doc/guides/nics/rawqp.rst"


def recipe(section: str, start: str = "") -> str:
    """The first literal block (of those that start so) below a heading of the guide."""
    text = GUIDE.read_text()
    heading = re.search(rf"(?m)^{re.escape(section)}\n[-=~]+\n", text)
    assert heading, f"{GUIDE.name} has no section {section!r}"
    for block in re.finditer(r"::\n\n((?:    .*\n|\n)+)", text[heading.end():]):
        lines = textwrap.dedent(block[1]).strip("\n")
        if lines.startswith(start):
            return lines
    raise AssertionError(f"section {section!r} of {GUIDE.name} has no block {start!r}")


def commands(block: str) -> list[str]:
    """The commands of a block, those over several lines made one."""
    return re.sub(r"\\\n *", "", block).splitlines()
