# SPDX-License-Identifier: BSD-3-Clause
"""Live figures and the verdict: with rich where it is installed and the output is a terminal."""

from __future__ import annotations

import sys
import time
from typing import Any, Sequence

from .ledger import Ledger, Snapshot, balance

try:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    HAVE_RICH = True
except ImportError:
    HAVE_RICH = False

Row = Sequence[str]


def plain_table(title: str, rows: Sequence[Row]) -> str:
    """The first row is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [title] if title else []
    for index, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))]
        lines.append("  " + "  ".join(cells).rstrip())
        if index == 0:
            lines.append("  " + "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def rich_table(title: str, rows: Sequence[Row]) -> Any:
    table = Table(title=title or None, title_justify="left")
    for index, heading in enumerate(rows[0]):
        table.add_column(heading, justify="right" if index else "left")
    for row in rows[1:]:
        table.add_row(*row)
    return table


class Screen:
    """Shows one live table that is replaced each second; on plain output, one line per second."""

    def __init__(self) -> None:
        self._rich = HAVE_RICH and sys.stdout.isatty()
        self._console: Any = Console(highlight=False) if self._rich else None
        self._live: Any = None
        self._before: tuple[float, Ledger] | None = None

    def say(self, text: str) -> None:
        if self._rich:
            self._console.print(text, markup=False)
        else:
            print(text, flush=True)

    def table(self, title: str, rows: Sequence[Row]) -> None:
        if self._rich:
            self._console.print(rich_table(title, rows))
        else:
            print(plain_table(title, rows), flush=True)

    def start_live(self, snapshot: Snapshot) -> None:
        """`snapshot`: the current one, for the first rates."""
        self._before = (time.monotonic(), balance(snapshot))
        if self._rich:
            self._live = Live(console=self._console, refresh_per_second=4, transient=True)
            self._live.start()

    def end_live(self) -> None:
        if self._live:
            self._live.stop()
            self._live = None

    def figures(self, phase: str, snapshot: Snapshot) -> None:
        """The last second: rates, totals, drops by cause."""
        now, ledger = time.monotonic(), balance(snapshot)
        then, earlier = self._before or (now, ledger)
        self._before = (now, ledger)
        span = max(now - then, 1e-9)
        pps = (ledger.delivered - earlier.delivered) / span
        gbps = (ledger.delivered_bytes - earlier.delivered_bytes) * 8 / span / 1e9
        drops = ", ".join(f"{name} {count:,}" for name, count in ledger.dropped.items()) or "none"
        if self._live:
            rows = [
                (phase, "now", "total"),
                ("packets", f"{pps:,.0f}/s", f"{ledger.delivered:,}"),
                ("Gbit/s", f"{gbps:.3f}", ""),
                ("drops", "", drops),
            ]
            self._live.update(rich_table("", rows))
        else:
            self.say(
                f"  {phase}: {pps:,.0f} packets/s, {gbps:.3f} Gbit/s,"
                f" {ledger.delivered:,} delivered in all, drops: {drops}"
            )
