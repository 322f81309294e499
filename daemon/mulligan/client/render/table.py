"""Aligned columns in the width of the terminal: the flexible ones give way first, then the rightmost are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mulligan.client.render.text import Palette, cells, cut, pad, visible

GAP = 2


class Column(NamedTuple):
    """A column: its title, whether it is right-aligned, and how narrow it may be cut (0: never cut, only dropped)."""

    title: str
    right: bool = False
    minimum: int = 0


class Cell(NamedTuple):
    """Text of anybody, with a style of ours."""

    text: str
    style: str = ""


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    width: int,
    palette: Palette,
    *,
    heading: bool = True,
    first_gap: int = GAP,
) -> list[str]:
    """The lines of a table, none wider than `width` cells; `first_gap` is the gap behind the first column."""
    safe = [[Cell(visible(cell.text), cell.style) for cell in row] for row in rows]
    widths = [
        max([cells(column.title) if heading else 0, *(cells(row[index].text) for row in safe)])
        for index, column in enumerate(columns)
    ]
    fitted = _fit(columns, widths, width, first_gap)
    lines = []
    titles = [[Cell(column.title, "dim") for column in columns]] if heading else []
    for row in [*titles, *safe]:
        parts: list[str] = []
        for index, limit in enumerate(fitted):
            text = pad(cut(row[index].text, limit), limit, right=columns[index].right)
            if index == len(fitted) - 1 and not columns[index].right:
                text = text.rstrip()
            if index:
                parts.append(" " * (first_gap if index == 1 else GAP))
            parts.append(palette.paint(text, row[index].style) if text.strip() else text)
        lines.append("".join(parts).rstrip())
    return lines


def _fit(columns: Sequence[Column], natural: list[int], width: int, first_gap: int) -> list[int]:
    """The widths of the columns that are shown."""
    count = len(columns)
    while count:
        widths = natural[:count]
        gaps = GAP * (count - 1) + (first_gap - GAP if count > 1 else 0)
        excess = sum(widths) + gaps - width
        for index in sorted(range(count), key=lambda i: -widths[i]):
            if excess > 0 and columns[index].minimum:
                given = min(excess, max(0, widths[index] - columns[index].minimum))
                widths[index] -= given
                excess -= given
        if excess <= 0:
            return widths
        if count == 1:
            return [max(1, width)]
        count -= 1
    return []
