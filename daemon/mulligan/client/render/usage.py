"""`usage`: how much of the budget is used, by what, by whom, and for how long it lasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mulligan.client.render.amounts import age, size
from mulligan.client.render.status import LABEL
from mulligan.client.render.table import Cell, Column, table
from mulligan.client.render.text import Palette, pad, shown_path, visible

#: As `status` warns: the part of the budget that is used, and the days that are left.
_NEARLY_USED, _SOON_DAYS = 0.9, 7
#: Projects that take room although nobody watches them any more.
_LEFT = {"removed": " (removed)", "excluded": " (excluded)"}
_PROJECTS = (
    Column("project", minimum=12),
    Column("bytes", right=True),
    Column("versions", right=True),
    Column("checkpoints", right=True),
    Column("oldest", right=True),
    Column("a day", right=True),
)


def usage_lines(
    result: dict[str, Any], now: float, width: int, palette: Palette, short: Callable[[str], str]
) -> list[str]:
    """The whole text of `usage`; `short` shows a path."""
    lines = _summary(result, palette)
    kinds = {kind: count for kind, count in (result.get("by_kind") or {}).items() if count}
    rows = [
        [Cell(kind.replace("_", " ")), Cell(size(count))]
        for kind, count in sorted(kinds.items(), key=lambda found: -found[1])
    ]
    lines += _part([Column("by kind"), Column("bytes", right=True)], rows, width, palette)
    projects = result.get("projects") or []
    limited = any(each.get("budget_bytes") for each in projects)
    rows = [
        [
            Cell(short(str(each.get("path"))) + _LEFT.get(str(each.get("state")), "")),
            Cell(size(each.get("bytes") or 0), "look" if _is_nearly_used(each) else ""),
            *([Cell(size(each["budget_bytes"]) if each.get("budget_bytes") else "-", "dim")] if limited else []),
            Cell(f"{each.get('versions') or 0:,}"),
            Cell(f"{each.get('checkpoints') or 0:,}"),
            Cell(age(each.get("oldest"), now), "dim"),
            Cell(_per_day(each), "dim"),
        ]
        for each in projects
    ]
    columns = [*_PROJECTS[:2], *([Column("of", right=True)] if limited else []), *_PROJECTS[2:]]
    lines += _part(columns, rows, width, palette)
    several = len(projects) > 1
    for key, title in (("directories", "directory"), ("paths", "file")):
        columns = [Column("bytes", right=True), Column("versions", right=True), Column(title, minimum=16)]
        rows = [
            [
                Cell(size(each.get("bytes") or 0)),
                Cell(f"{each.get('versions') or 0:,}"),
                Cell(shown_path(each)),
                *([Cell(short(str(each.get("project"))), "dim")] if several else []),
            ]
            for each in result.get(key) or []
        ]
        lines += _part([*columns, *([Column("project", minimum=12)] if several else [])], rows, width, palette)
    if projects:
        lines += ["", palette.paint("What several of them have is counted for each.", "dim")]
    return lines


def _summary(result: dict[str, Any], palette: Palette) -> list[str]:
    used, budget = int(result.get("bytes") or 0), int(result.get("budget_bytes") or 0)
    part = used / budget if budget else 0.0
    growth, forecast = result.get("growth") or {}, result.get("forecast") or {}
    days, reason = forecast.get("days"), visible(str(forecast.get("reason") or ""))
    if days is None:
        until = f"not known: {reason}" if result.get("growth_bytes_per_day") is None else f"none: {reason}"
    elif not days:
        until = reason
    else:
        until = f"at this rate the budget is reached in {_days(days)}, on {str(forecast.get('reached_at'))[:10]}"
    day, week = (size(growth.get(f"{part}_bytes") or 0) for part in ("day", "week"))
    style = "look" if part >= _NEARLY_USED or (days is not None and days < _SOON_DAYS) else ""
    return [
        _line("store", f"{size(used)} of {size(budget)} ({used / budget:.0%})", palette, style),
        _line("growth", f"{day} in the last day, {week} in the last week", palette),
        _line("forecast", until, palette, style),
    ]


def _line(label: str, text: str, palette: Palette, style: str = "") -> str:
    return palette.paint(pad(label, LABEL), "dim") + palette.paint(text, style)


def _days(days: float) -> str:
    if days < 1:
        return f"{max(1, round(days * 24))} h"
    return "1 day" if round(days) == 1 else f"{round(days):,} days"


def _is_nearly_used(project: dict[str, Any]) -> bool:
    return int(project.get("bytes") or 0) >= _NEARLY_USED * int(project.get("budget_bytes") or 1 << 62)


def _per_day(project: dict[str, Any]) -> str:
    growth = project.get("growth_bytes_per_day")
    return "-" if growth is None else size(growth)


def _part(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int, palette: Palette) -> list[str]:
    """A table with an empty line before it; nothing without rows."""
    return ["", *table(columns, rows, width, palette)] if rows else []
