"""The versions of a file, over its renames: which there were, who made each, which checkpoint holds it. Pure.

Rows come by callables. A name from before a rename is followed back only where the rename is plain: the same bytes, or
much of the same text within one call. Everything else would be a guess, and a guess would give lines to somebody.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

import msgspec

from mulligan.clock import MILLISECOND
from mulligan.model import Cut, Flag, Kind, RelPath, Row

#: Editors and git remove a file and write it anew; what stood there a moment before is the version before.
REPLACED = 2000 * MILLISECOND
#: A file that is written in steps is captured on the way every 250 ms.
WRITING = 300 * MILLISECOND
#: Renames that are followed; a chain of more is a program that plays with names.
RENAMES = 100

BEFORE_MULLIGAN, GAP, NOBODY, RESTORED = "before mulligan", "gap", "nobody", "restored"
#: Versions between this one and the one before were dropped, and not all were of one call.
THINNED = "thinned"
_OF_ITS_OWN = Flag.FROM_UNKNOWN | Flag.AWAY | Flag.RESTORED | Flag.THINNED


class Doing(msgspec.Struct, frozen=True):
    """The call that owns a row, with what led to it; `prompt_number` counts in the session, from 1.

    `unguarded`: its hook could not wait, so what changed just before it may seem to be its own.
    """

    call: str
    session: str
    tool: str
    prompt_number: int = 0
    prompt: str = ""
    model: str = ""
    unguarded: bool = False


class Mark(msgspec.Struct, frozen=True):
    """A checkpoint as a place in the journal."""

    id: str
    ordinal: int
    timestamp: int
    cut: Cut


class Source(msgspec.Struct, frozen=True):
    """Where a file was before it was renamed: the path, and the row that said that it is gone."""

    path: RelPath
    seq: int


class Lineage(msgspec.Struct, frozen=True):
    """The rows of a file's life, oldest first, and `all`: every row of the paths that it had, oldest first."""

    rows: list[Row]
    all: dict[RelPath, list[Row]]


def lineage(
    path: RelPath, cut: Cut, versions: Callable[[RelPath], list[Row]], origin: Callable[[Row], Source | None]
) -> Lineage:
    """The rows that led to what a path is in a cut.

    `versions` gives every row of a path, oldest first; `origin` says where a file that was created came from. Where a
    file came from another path, what else stood at its path before is not part of its life.
    """
    found: list[Row] = []
    every: dict[RelPath, list[Row]] = {}
    last = cut.seq
    for _ in range(RENAMES):
        every.setdefault(path, versions(path))
        rows = [row for row in every[path] if row.seq <= last and row.at <= cut.moment]
        start, source = _creation(rows, origin)
        found = rows[start:] + found
        if source is None:
            break
        path, last = source.path, min(source.seq, rows[start].seq) - 1
    return Lineage(found, every)


def _creation(rows: Sequence[Row], origin: Callable[[Row], Source | None]) -> tuple[int, Source | None]:
    """The newest row that came from another path, by its index; 0 if none did."""
    for index in range(len(rows) - 1, -1, -1):
        if is_created(rows, index) and (source := origin(rows[index])) is not None:
            return index, source
    return 0, None


def is_created(rows: Sequence[Row], index: int) -> bool:
    """Whether a row of a path made a file, which may have come from another path, where none was."""
    row, before = rows[index], rows[index - 1] if index else None
    if row.entry.kind is not Kind.FILE or not row.entry.size or row.flags & (Flag.FROM_UNKNOWN | Flag.RESTORED):
        return False
    return before is None or before.entry.kind is Kind.ABSENT


def settled(rows: Sequence[Row]) -> list[Row]:
    """Without the states in which a file was being written: torn or half, emptied or removed to be made anew.

    Each was replaced within moments, and by the same call or by nobody as well, so no owner is lost.
    """
    kept: list[Row] = []
    for row in rows:
        while kept and _on_the_way(kept[-1], row):
            kept.pop()
        kept.append(row)
    return kept


def _on_the_way(row: Row, following: Row) -> bool:
    if row.call != following.call or (row.flags | following.flags) & _OF_ITS_OWN or not following.entry.there:
        return False
    if following.at - row.at > REPLACED or row.path != following.path:
        return False
    entry = row.entry
    empty = entry.kind is Kind.ABSENT or (entry.kind is Kind.FILE and not entry.size)
    return empty or bool(row.flags & (Flag.TORN | Flag.UNPROVEN))


def steps(rows: Sequence[Row]) -> list[Row]:
    """As `settled`, and without versions that their owner replaced as fast as a file is captured while it is written.

    For questions of who: the version that follows has the same owner.
    """
    kept: list[Row] = []
    for row in settled(rows):
        if kept and _written_on(kept[-1], row):
            kept.pop()
        kept.append(row)
    return kept


def _written_on(row: Row, following: Row) -> bool:
    both = row.entry.kind is Kind.FILE and following.entry.kind is Kind.FILE
    same = row.call == following.call and row.path == following.path
    return both and same and following.at - row.at <= WRITING and not (row.flags | following.flags) & _OF_ITS_OWN


def grade(row: Row, *, first: bool) -> str:
    """How sure it is whose a version is; for what is nobody's call, what is known instead.

    `first`: nothing is known of the path before this row.
    """
    if row.call:
        return row.grade
    if row.flags & Flag.THINNED:
        return THINNED
    if row.entry.kind is Kind.UNKNOWN:
        return GAP
    if row.flags & Flag.RESTORED:
        return RESTORED
    if row.flags & Flag.FROM_UNKNOWN:
        return BEFORE_MULLIGAN if first else GAP
    return GAP if row.flags & Flag.AWAY else NOBODY


def holders(rows: Sequence[Row], marks: Iterable[Mark]) -> dict[int, Mark]:
    """The first checkpoint that holds each row of one path, by the row's seq; `marks` come in the order of time."""
    seqs, moments = [row.seq for row in rows], [row.at for row in rows]
    found: dict[int, Mark] = {}
    for mark in marks:
        count = min(bisect_right(seqs, mark.cut.seq), bisect_right(moments, mark.cut.moment))
        if count:
            found.setdefault(rows[count - 1].seq, mark)
    return found
