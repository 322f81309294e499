"""Which rows of a path no kept position selects, and what the rows that stay then stand for. Pure.

Positions are cuts. A row is needed if some kept cut sees it and not the row that follows it; what a path is now is
always needed. A row that stays after others left stands for their changes as well: if these were not all of one call,
it is nobody's from then on, for a guess would give lines to somebody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from mulligan.clock import FOREVER
from mulligan.journal.cuts import Cuts
from mulligan.model import Cut, Flag

#: From sure to unsure; what is neither is a share ("one of 3").
_GRADES = ("named", "window")
#: What a row takes over from those that left before it.
_INHERITED = Flag.FROM_UNKNOWN | Flag.AWAY


class Version(NamedTuple):
    """A row as far as it matters here."""

    seq: int
    at: int
    call: str
    grade: str
    flags: int


class Thinned(msgspec.Struct):
    """What leaves, and what becomes of what stays: as in `ThinFact`."""

    rows: list[int] = []
    changed: list[tuple[int, str, str, int]] = []
    lost: list[tuple[str, int]] = []

    def add(self, other: Thinned) -> None:
        """Join what was found for another path."""
        self.rows += other.rows
        self.changed += other.changed
        self.lost += other.lost


class Kept:
    """The positions that stay. Rows beyond (`seq`, `at`) `young` all stay, and what stood at that border does."""

    def __init__(self, cuts: Iterable[Cut], young: Cut) -> None:
        self._young = young
        every = [*cuts, young, Cut(young.seq), Cut(FOREVER, young.moment)]
        self._cuts = Cuts((cut, None) for cut in every)

    def selects(self, row: Version, following: Version) -> bool:
        """Whether a row is needed that another one follows."""
        if row.seq > self._young.seq or row.at > self._young.moment:
            return True
        return any(True for _ in self._cuts.selecting(row.seq, row.at, following.seq, following.at))


def thin(rows: Sequence[Version], kept: Kept) -> Thinned:
    """What leaves of one path's rows, the oldest first; the last one is what the path is now."""
    found = Thinned()
    left: list[Version] = []
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        if following is not None and not kept.selects(row, following):
            left.append(row)
            continue
        if left:
            _stand_in(row, left, found)
            left = []
    return found


def _stand_in(row: Version, left: Sequence[Version], found: Thinned) -> None:
    """Let a row that stays stand for those before it that leave."""
    every = [*left, row]
    flags = row.flags
    for each in left:
        flags |= each.flags & _INHERITED
    call, grade = row.call, row.grade
    if any(each.call != row.call for each in left):
        call, grade, flags = "", "", flags | Flag.THINNED
        found.lost += sorted({each.call: each.seq for each in every if each.call}.items())
    elif call:
        grade = max((each.grade for each in every), key=_doubt)
    elif any(each.flags & Flag.THINNED for each in left):
        flags |= Flag.THINNED
    found.rows += [each.seq for each in left]
    if (call, grade, flags) != (row.call, row.grade, row.flags):
        found.changed.append((row.seq, call, grade, flags))


def _doubt(grade: str) -> int:
    return _GRADES.index(grade) if grade in _GRADES else len(_GRADES)
