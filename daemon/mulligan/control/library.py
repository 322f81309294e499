"""What questions about the past are answered from, in the daemon or in a child, and who did what, as objects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mulligan.journal.history import grade, holders
from mulligan.model import RelPath, Row
from mulligan.store.catalogue import Catalogue
from mulligan.store.contents import Contents
from mulligan.store.questions import doings, marks


@dataclass(slots=True)
class Library:
    """One project's part of a store, or for 0 all of it, to be read by one thread.

    `index_budget` is for the search index, in bytes.
    """

    directory: str
    catalogue: Catalogue
    contents: Contents
    project: int
    index_budget: int


class Evidence:
    """Who made rows and which checkpoints hold them. `every` has all rows of their paths, oldest first."""

    def __init__(self, library: Library, rows: Iterable[Row], every: dict[RelPath, list[Row]]) -> None:
        known = list(rows)
        self._doings = doings(library.catalogue, {row.call for row in known})
        since = min((row.at for row in known), default=0)
        places = marks(library.catalogue, library.project, since)
        self._holders = {
            seq: mark for rows_of_path in every.values() for seq, mark in holders(rows_of_path, places).items()
        }
        self._first = {rows_of_path[0].seq for rows_of_path in every.values() if rows_of_path}

    def who(self, row: Row) -> dict[str, Any]:
        """Session, prompt, tool, model and grade of a row; the first four are null if it is no call's."""
        doing = self._doings.get(row.call)
        return {
            "session_id": doing.session if doing else None,
            "prompt": (doing.prompt or None) if doing else None,
            "prompt_number": (doing.prompt_number or None) if doing else None,
            "tool": doing.tool if doing else None,
            "tool_id": doing.call if doing else None,
            "unguarded": doing is not None and doing.unguarded,
            "model": (doing.model or None) if doing else None,
            "grade": grade(row, first=row.seq in self._first),
        }

    def checkpoint(self, row: Row) -> tuple[str | None, int | None]:
        """(id, ordinal) of the first checkpoint that holds a row; nothing if none does."""
        mark = self._holders.get(row.seq)
        return (mark.id, mark.ordinal) if mark else (None, None)
