"""Who brought each line of a file. Pure.

Versions are compared one after another; a line that stays keeps the version that brought it, whatever happens to the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from mulligan.journal.diff import BINARY_PROBE, SIZE_LIMIT
from mulligan.journal.lines import edits, split_lines
from mulligan.model import Flag, Kind, Row

Read = Callable[[bytes], bytes]


class Line(msgspec.Struct, frozen=True, gc=False):
    """A line with its newline, and the version that brought it, by its index."""

    text: bytes
    version: int


class _Text(msgspec.Struct, frozen=True):
    """A version's lines, by numbers that equal lines share, and who brought each."""

    lines: list[int]
    owners: list[int]


_NONE = _Text([], [])


def is_text(row: Row, data: bytes) -> bool:
    """Whether a version has lines: a file without zero bytes, and not beyond what a diff would show."""
    return row.entry.kind is Kind.FILE and len(data) <= SIZE_LIMIT and b"\0" not in data[:BINARY_PROBE]


def blame(versions: Sequence[Row], read: Read) -> list[Line]:
    """The lines of the last version. What `read` raises is raised.

    A version that a restore brought back is what it was then: its lines are those of the version with the same bytes.
    Behind a deletion, and behind what is no text, every line is new; behind a version that is unknown every line is
    that one's, for nobody can tell which of them it had.
    """
    numbers: dict[bytes, int] = {}
    restored = {row.entry.hash for row in versions if row.flags & Flag.RESTORED}
    seen: dict[bytes, _Text] = {}
    text, last, unknown = _NONE, b"", -1
    for index, row in enumerate(versions):
        if row.entry.kind is not Kind.FILE:
            text, last = _NONE, b""
            unknown = index if row.entry.kind is Kind.UNKNOWN else -1
            continue
        if row.entry.hash == last:
            continue  # another mode, the same lines
        last = row.entry.hash
        known = seen.get(last) if row.flags & Flag.RESTORED else None
        owner = index if unknown < 0 or row.flags & Flag.FROM_UNKNOWN else unknown
        text, unknown = known or _next(text, owner, row, read, numbers), -1
        if last in restored:
            seen[last] = text
    lines = list(numbers)
    return [Line(lines[number], owner) for number, owner in zip(text.lines, text.owners, strict=True)]


def _next(text: _Text, index: int, row: Row, read: Read, numbers: dict[bytes, int]) -> _Text:
    """The lines of a version after another one's: those that stayed keep their owners, the others are its own."""
    data = read(row.entry.hash) if row.entry.size <= SIZE_LIMIT else b""
    if not data or not is_text(row, data):
        return _NONE
    new = [numbers.setdefault(line, len(numbers)) for line in split_lines(data)]
    owners: list[int] = []
    kept = 0
    for old_start, old_end, new_start, new_end in edits(text.lines, new):
        owners += text.owners[kept:old_start]
        owners += [index] * (new_end - new_start)
        kept = old_end
    owners += text.owners[kept:]
    return _Text(new, owners)
