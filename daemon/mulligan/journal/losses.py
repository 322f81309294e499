"""What was lost: entries that vanished, were emptied, shrank drastically, were put back or had another file moved over.

Pure: the rows of a path in, the version that is worth having back out. What stands there now decides; what went on in
between is passed over, because destruction comes in steps (truncate, then unlink; unlink, then create).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from mulligan.clock import MILLISECOND, NANOSECONDS
from mulligan.model import ANOTHER_ROOT, Entry, Flag, Kind, Row

#: A file that has a tenth left of at least so many bytes has shrunk drastically.
_SHARE, _LEAST = 10, 200
#: git reads a file before it stores it: what it had earlier than this before a change was not stored for it.
_EARLIER = 50 * MILLISECOND
#: What lived no longer is a step of somebody's saving and no work.
SHORT = 250 * MILLISECOND
#: A file appears under its new name as it vanishes under the old one, give or take the dating of events.
_TOGETHER = 2 * NANOSECONDS


class How(StrEnum):
    """In which way a version was lost."""

    VANISHED = "vanished"
    EMPTIED = "emptied"
    SHRANK = "shrank"
    PUT_BACK = "put back"
    MOVED_OVER = "moved over"


class Loss(NamedTuple):
    """A version that was lost, the row by which it was, and what the path is now.

    `newer`: something that is neither empty nor older came to the path after the loss.
    """

    path: bytes
    how: How
    version: Row
    loss: Row
    now: Row
    newer: bool = False


class Known(NamedTuple):
    """What the rows of one path do not say: which paths vanished with a content, and since when git holds it.

    `in_git` is 0 for what git does not hold.
    """

    vanished: Callable[[bytes], Sequence[Row]]
    in_git: Callable[[Entry], int]


def is_gone(entry: Entry) -> bool:
    """Whether nothing stands at a path, or only in a root that was another one."""
    return entry.kind == Kind.ABSENT or (entry.kind == Kind.UNKNOWN and entry.reason == ANOTHER_ROOT)


def lost(before: Entry, after: Entry) -> How | None:
    """In which way one entry is lost in another one; None if it is not, as far as kinds and sizes tell."""
    if not before.there:
        return None
    if is_gone(after):
        return How.VANISHED
    if before.kind != Kind.FILE or after.kind != Kind.FILE:
        return None
    if before.size and not after.size:
        return How.EMPTIED
    return How.SHRANK if before.size >= max(_LEAST, after.size * _SHARE) else None


class _Version(NamedTuple):
    """Rows in a row with one content, of which the mode may have changed and which may have been confirmed."""

    first: Row
    last: Row

    @property
    def entry(self) -> Entry:
        return self.last.entry


def find_loss(rows: Sequence[Row], since: int, known: Known) -> Loss | None:
    """What a path lost since a moment; `rows` are all of its rows, oldest first."""
    versions: list[_Version] = []
    for row in rows:
        if versions and _content(versions[-1].entry) == _content(row.entry):
            versions[-1] = versions[-1]._replace(last=row)
        else:
            versions.append(_Version(row, row))
    place = _newest_lost(versions, since)
    if place is None:
        return _replaced(versions, since, known)
    version, loss, now = versions[place], versions[_step_of_loss(versions, place)], versions[-1]
    how = lost(version.entry, now.entry)
    assert how is not None
    older = any(_content(each.entry) == _content(now.entry) for each in versions[:place])
    newer = loss is not now and now.entry.there and now.entry.size > 0 and not older
    return Loss(now.last.path, how, version.last, loss.first, now.last, newer)


def _content(entry: Entry) -> tuple[int, bytes, bytes]:
    return entry.kind, entry.hash, entry.target


def _newest_lost(versions: Sequence[_Version], since: int) -> int | None:
    """The place of the newest version that is lost in the last one, and that is no remainder of one before it."""
    found: int | None = None
    for place in range(len(versions) - 2, -1, -1):
        if versions[place + 1].first.at < since:
            break
        into = versions[-1] if found is None else versions[found]
        if lost(versions[place].entry, into.entry):
            found = place
        elif found is not None and versions[place].entry.there:
            break
    return found


def _step_of_loss(versions: Sequence[_Version], place: int) -> int:
    """The place of what a version was lost in: a file that is written in place is empty for a moment before."""
    found = place + 1
    while (
        found + 1 < len(versions)
        and versions[found].entry.kind == Kind.FILE
        and not versions[found].entry.size
        and versions[found + 1].first.at - versions[found].first.at < SHORT
        and lost(versions[place].entry, versions[found + 1].entry)
    ):
        found += 1
    return found


def _replaced(versions: Sequence[_Version], since: int, known: Known) -> Loss | None:
    """A version in whose place an older one, or another file, was put at once."""
    now, place = versions[-1], len(versions) - 2
    while place >= 0 and not (versions[place].entry.there and versions[place].entry.size):
        place -= 1  # what is replaced is often removed or emptied first
    if place < 0 or versions[place + 1].first.at < since or not now.entry.size:
        return None
    version, loss = versions[place], versions[place + 1].first
    if version.entry.kind != Kind.FILE or _content(version.entry) == _content(now.entry):
        return None
    gone = known.vanished(now.entry.hash)
    if any(abs(row.at - now.first.at) < _TOGETHER and row.path != now.last.path for row in gone):
        return Loss(now.last.path, How.MOVED_OVER, version.last, loss, now.last)
    again = any(_content(each.entry) == _content(now.entry) for each in versions[:place])
    if again or 0 < known.in_git(now.entry) < loss.at - _EARLIER:
        return Loss(now.last.path, How.PUT_BACK, version.last, loss, now.last)
    return None


def is_passing(rows: Sequence[Row], loss: Loss) -> bool:
    """Whether what was lost had only just been made: a step of saving another file."""
    made = next((row for row in reversed(rows[: rows.index(loss.version) + 1]) if _is_birth(rows, row)), None)
    return made is not None and loss.loss.at - made.at < SHORT


def _is_birth(rows: Sequence[Row], row: Row) -> bool:
    place = rows.index(row)
    if place == 0:
        return not row.flags & (Flag.FROM_UNKNOWN | Flag.AWAY | Flag.SCANNED)
    # what an operation of our own brought back was made long ago
    return rows[place - 1].entry.kind == Kind.ABSENT and not row.flags & Flag.RESTORED
