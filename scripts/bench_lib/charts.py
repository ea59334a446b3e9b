# SPDX-License-Identifier: BSD-3-Clause
"""Ratios as bars in SVG, written by hand: a single kind of chart needs no plotting library."""

from __future__ import annotations

from html import escape
from typing import Sequence

from .ratios import Ratio

ROW, LABEL, WIDTH, MARGIN = 24, 330, 420, 20
GOOD, BAD, PLAIN = "#2e7d32", "#c62828", "#546e7a"


def limit(row: Ratio) -> float | None:
    return float(row.bar.split()[1]) if row.bar else None


def chart(title: str, rows: Sequence[Ratio]) -> str:
    """One bar per ratio, its spread as a line, its target as a mark."""
    most = max(max(row.ratio_max, limit(row) or 0, 1) for row in rows)
    scale = WIDTH / most
    height = MARGIN * 2 + ROW * (len(rows) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL + WIDTH + 120}" height="{height}"'
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{MARGIN}" y="{MARGIN}" font-size="14" font-weight="bold">{escape(title)}</text>',
        line(LABEL + scale, MARGIN + 8, LABEL + scale, height - MARGIN, "#999", 1, "3 3"),
    ]
    for number, row in enumerate(rows):
        parts += bar(row, MARGIN + ROW * (number + 1), scale)
    return "\n".join([*parts, "</svg>", ""])


def bar(row: Ratio, y: float, scale: float) -> list[str]:
    colour = PLAIN if row.ok is None else GOOD if row.ok else BAD
    middle = y + ROW / 2 - 3
    end = LABEL + row.ratio_median * scale
    parts = [
        f'<text x="{MARGIN}" y="{middle + 4}">{escape(row.name)}</text>',
        f'<rect x="{LABEL}" y="{y}" width="{row.ratio_median * scale:.1f}" height="{ROW - 8}"'
        f' fill="{colour}"><title>{escape(row.a)} ÷ {escape(row.b)}</title></rect>',
        line(LABEL + row.ratio_min * scale, middle, LABEL + row.ratio_max * scale, middle, "#000", 1),
        f'<text x="{max(end, LABEL + row.ratio_max * scale) + 6:.1f}" y="{middle + 4}">'
        f"{row.ratio_median:.2f}</text>",
    ]
    wanted = limit(row)
    if wanted is not None:
        x = LABEL + wanted * scale
        parts.append(line(x, y - 2, x, y + ROW - 6, "#000", 2))
    return parts


def line(
    x1: float, y1: float, x2: float, y2: float, colour: str, width: int, dashes: str = ""
) -> str:
    dash = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"'
            f' stroke-width="{width}"{dash}/>')
