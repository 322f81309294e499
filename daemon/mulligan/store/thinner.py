"""Finding the rows and operations that may leave the journal: those that no kept position needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import msgspec

from mulligan.journal.thinning import Kept, Thinned, Version, thin
from mulligan.model import Cut
from mulligan.store.catalogue import Catalogue


class Scope(msgspec.Struct, frozen=True, array_like=True):
    """What of a project's journal is thinned.

    Rows from `young` (a moment) on stay, and so do those that were captured since. `prompts`: their positions are kept
    as checkpoints are, from the moment `prompts_from` on. `without`: checkpoints that count as deleted.
    """

    project: int
    young: int
    prompts: bool = True
    prompts_from: int = 0
    without: list[str] = []


def plan(catalogue: Catalogue, scope: Scope) -> Thinned:
    """What leaves the journal of one project."""
    border = Cut(_last_seq(catalogue, scope), scope.young)
    kept = Kept(_positions(catalogue, scope), border)
    found = Thinned()
    for rows in _candidates(catalogue, scope.project, border):
        found.add(thin(rows, kept))
    return found


def _last_seq(catalogue: Catalogue, scope: Scope) -> int:
    """The last row that was captured for certain before the border: a checkpoint of then saw it."""
    project = catalogue.project(scope.project)
    if scope.young > project.last_capture:
        return project.last_seq
    taken = catalogue.checkpoints("project = ? and timestamp <= ?", (scope.project, scope.young))
    return max((made.seq for made in taken if made.created <= scope.young), default=0)


def _positions(catalogue: Catalogue, scope: Scope) -> list[Cut]:
    gone = set(scope.without)
    found = [
        Cut(seq, moment)
        for name, seq, moment in catalogue.db.execute(
            "select id, seq, moment from checkpoint where project = ?", (scope.project,)
        )
        if name not in gone
    ]
    if scope.prompts:
        last = catalogue.project(scope.project).last_seq
        query = "select moment from prompt where project = ? and moment >= ?"
        found += [Cut(last, moment) for (moment,) in catalogue.db.execute(query, (scope.project, scope.prompts_from))]
    return found


def _candidates(catalogue: Catalogue, project: int, border: Cut) -> Iterator[Sequence[Version]]:
    """The rows of every path that has some before the border and another one behind them."""
    cursor = catalogue.db.execute(
        "select path, seq, at, call, grade, flags from row where path in"
        " (select r.path from row r join path p on p.id = r.path where r.project = ? and r.seq <= ? and r.seq < p.seq)"
        " order by path, seq",
        (project, border.seq),
    )
    for _, rows in groupby(cursor, itemgetter(0)):
        yield [Version(*row[1:]) for row in rows]


def forgettable(catalogue: Catalogue, before: int) -> list[str]:
    """Operations of before a moment that cannot be undone: rolled back, or without the checkpoint they began with."""
    cursor = catalogue.db.execute(
        "select id from operation where time < ? and (phase = 'rolled_back' or (phase = 'done' and not exists"
        " (select 1 from checkpoint where checkpoint.id = operation.before)))",
        (before,),
    )
    return [operation for (operation,) in cursor]
