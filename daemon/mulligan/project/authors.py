"""Whose changes a restore would take away: a session's, another session's, nobody's call; with what would be lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from mulligan.clock import FOREVER
from mulligan.errors import IntegrityError
from mulligan.journal.lines import split_lines
from mulligan.journal.merge import is_text
from mulligan.model import Cut, Kind
from mulligan.restore.plan import Plan, Step
from mulligan.store.catalogue import Catalogue, join_path

THIS, ANOTHER, NOBODY = "this_session", "another_session", "nobody"
_ORDER = {THIS: 0, ANOTHER: 1, NOBODY: 2}
#: Files of which lost lines are counted, and the largest of them (bytes); of others the size alone is told.
_COUNTED, _COUNTED_SIZE = 200, 1 << 20


@dataclass(slots=True)
class Lost:
    """A version that goes: its size, its lines that the target does not have (None: not counted), when it came."""

    path: bytes
    size: int
    lines: int | None
    at: int


@dataclass(slots=True)
class Group:
    """The steps of a plan that undo somebody's changes; in the order and the parts of the plan.

    A path that several have changed is with the one who would be surprised: nobody's call before another session's
    before this one's. `uncertain` are paths of which it is not sure that the session's call changed them.
    """

    by: str
    session: str = ""
    parts: dict[str, list[Step]] = field(default_factory=dict)
    lost: list[Lost] = field(default_factory=list)
    uncertain: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class _Author:
    by: str = NOBODY
    session: str = ""
    at: int = 0
    uncertain: bool = False


def group(
    catalogue: Catalogue,
    project: int,
    cut: Cut,
    plan: Plan,
    session: str,
    read: Callable[[bytes], bytes],
    *,
    alone: bool = False,
) -> list[Group]:
    """The steps of a plan by who made the changes since a cut that they take away; `alone`: the session's and no other.

    `read` gives the contents of the plan's entries.
    """
    authors = _authors(catalogue, project, cut, session)
    if alone:
        for author in authors.values():
            author.by, author.session = THIS, session
    groups: dict[tuple[str, str], Group] = {}
    counted = 0
    for part in ("write", "delete", "chmod", "mkdir", "rmdir"):
        for step in getattr(plan, part):
            author = authors.get(step.path, _Author())
            found = groups.setdefault((author.by, author.session), Group(author.by, author.session))
            found.parts.setdefault(part, []).append(step)
            if author.uncertain:
                found.uncertain.append(step.path)
            if step.expected.kind == Kind.FILE:
                small = counted < _COUNTED and max(step.expected.size, step.target.size) <= _COUNTED_SIZE
                counted += small
                lines = _lost_lines(step, read) if small else None
                found.lost.append(Lost(step.path, step.expected.size, lines, author.at))
    return sorted(groups.values(), key=lambda group: (_ORDER[group.by], group.session))


def _authors(catalogue: Catalogue, project: int, cut: Cut, session: str) -> dict[bytes, _Author]:
    """Who changed each path since a cut."""
    authors: dict[bytes, _Author] = {}
    for path, at, owner, grade in _rows_since(catalogue, project, cut):
        by = NOBODY if not owner else THIS if owner == session else ANOTHER
        uncertain = grade.startswith("one of")
        known = authors.get(path)
        if known is None:
            authors[path] = _Author(by, owner, at, uncertain)
            continue
        known.at, known.uncertain = max(known.at, at), known.uncertain or uncertain
        if _ORDER[by] > _ORDER[known.by]:
            known.by, known.session = by, owner
    return authors


def _rows_since(catalogue: Catalogue, project: int, cut: Cut) -> Iterator[tuple[bytes, int, str, str]]:
    """(path, moment, session, grade) of the rows that a cut does not have."""
    columns = (
        "select p.dir, p.name, r.at, coalesce(c.session, ''), r.grade from row r join path p on p.id = r.path"
        " left join call c on c.id = r.call where"
    )
    # the plus keeps SQLite from walking all rows of the project by another index
    query, arguments = f"{columns} r.seq > ? and +r.project = ?", [cut.seq, project]
    if cut.moment != FOREVER:
        query += f" union all {columns} r.project = ? and r.at > ? and r.seq <= ?"
        arguments += [project, cut.moment, cut.seq]
    for directory, name, at, owner, grade in catalogue.db.execute(query, arguments):
        yield join_path(directory, name), at, owner, grade


def _lost_lines(step: Step, read: Callable[[bytes], bytes]) -> int | None:
    """Lines that are there now and not in the target, wherever they stand; None for what is no text, or damaged."""
    try:
        now = read(step.expected.hash)
        then = read(step.target.hash) if step.target.kind == Kind.FILE else b""
    except IntegrityError:
        return None
    if not is_text(now) or not is_text(then):
        return None
    return (Counter(split_lines(now)) - Counter(split_lines(then))).total()
