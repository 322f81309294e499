"""The answer to `store.usage`, made from a store that is only read."""

from __future__ import annotations

from typing import Any

import msgspec

from mulligan.clock import to_rfc3339
from mulligan.control.library import Library
from mulligan.control.objects import path_fields, show_path
from mulligan.journal.forecast import DAY, WEEK, forecast, growth_per_day
from mulligan.store.catalogue import Project
from mulligan.store.usage import Place, Stock, disk_by_kind, take_stock


class UsageParams(msgspec.Struct, frozen=True):
    """What is asked at a moment of journal time, with so many files and directories; of the library's project or, for
    0, of all.
    """

    now: int
    budget: int
    limit: int


def usage_answer(library: Library, params: UsageParams) -> dict[str, Any]:
    """Disk space by kind, project, directory and path, growth, and when the budget is reached."""
    catalogue, now = library.catalogue, params.now
    by_kind = disk_by_kind(library.directory, catalogue)
    stock = take_stock(catalogue, library.contents.directory, now - DAY, now - WEEK, params.limit, library.project)
    # a row takes its part of what is written and kept for it beside the contents
    beside = sum(by_kind[kind] for kind in ("log", "catalogue", "search_index")) / max(1, stock.rows)
    day, week = stock.day + int(stock.rows_day * beside), stock.week + int(stock.rows_week * beside)
    growth = growth_per_day(week, now - catalogue.meta("first_start"))
    size = sum(by_kind.values())
    awaited = forecast(size, params.budget, growth)
    projects = {project.id: project for project in catalogue.projects()}
    chosen = [each for each in projects.values() if library.project in (0, each.id) and each.id in stock.projects]
    return {
        "bytes": size,
        "budget_bytes": params.budget,
        "by_kind": by_kind,
        "growth": {"day_bytes": day, "week_bytes": week},
        "growth_bytes_per_day": growth,
        "forecast": {
            "reached_at": None if awaited.days is None else to_rfc3339(now + int(awaited.days * DAY)),
            "days": awaited.days,
            "reason": awaited.reason,
        },
        "projects": sorted(
            (_project(library, each, stock, now) for each in chosen), key=lambda found: -int(found["bytes"])
        ),
        "directories": [_place(place, projects[place.project]) for place in stock.directories],
        "paths": [_place(place, projects[place.project]) for place in stock.paths],
    }


def _project(library: Library, project: Project, stock: Stock, now: int) -> dict[str, Any]:
    share, db = stock.projects[project.id], library.catalogue.db
    (oldest,) = db.execute("select min(at) from row where project = ?", (project.id,)).fetchone()
    (checkpoints,) = db.execute("select count(*) from checkpoint where project = ?", (project.id,)).fetchone()
    return {
        **path_fields(project.path),
        "state": project.state,
        "bytes": share.size,
        "contents": share.contents,
        "versions": share.versions,
        "checkpoints": checkpoints,
        "oldest": to_rfc3339(oldest),
        "growth_bytes_per_day": growth_per_day(share.week, now - project.added),
    }


def _place(place: Place, project: Project) -> dict[str, Any]:
    share = place.share
    return {
        **path_fields(place.path),
        "project": show_path(project.path),
        "bytes": share.size,
        "contents": share.contents,
        "versions": share.versions,
    }
