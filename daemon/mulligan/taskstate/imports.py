"""States that were kept by other programs: imported once, under a namespace of their own, and adopted explicitly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from mulligan.store.state import StateDatabase
from mulligan.taskstate.schema import encode


@dataclass(frozen=True, slots=True)
class Imported:
    """A foreign state: `source` is where it was read, `hash` of what, `adopted_by` the session that took it over."""

    namespace: str
    source: str
    hash: str
    value: dict[str, Any]
    imported_at: int
    adopted_by: str = ""


def keep_import(
    database: StateDatabase, project: bytes, namespace: str, source: str, digest: str, value: dict[str, Any], now: int
) -> bool:
    """Record a foreign state; False if the same one was imported before, which then stays as it is."""
    with database.writing() as db:
        db.execute("insert or ignore into project (path) values (?)", (project,))
        made = db.execute(
            "insert or ignore into migration (project, namespace, source, hash, value, imported)"
            " select id, ?, ?, ?, ?, ? from project where path = ?",
            (namespace, source, digest, encode(value), now, project),
        )
        return made.rowcount > 0


def imports(database: StateDatabase, project: bytes) -> list[Imported]:
    """What was imported for a project, the newest first."""
    return _imported(database, "project = (select id from project where path = ?)", project)


def imported_as(database: StateDatabase, namespace: str) -> list[Imported]:
    """What was imported under a name, for whatever project, the newest first."""
    return _imported(database, "namespace = ?", namespace)


def _imported(database: StateDatabase, where: str, argument: bytes | str) -> list[Imported]:
    query = f"select namespace, source, hash, value, imported, adopted_by from migration where {where} order by id desc"
    with database.reading() as db:
        return [
            Imported(namespace, source, digest, msgspec.json.decode(value), imported, adopted_by)
            for namespace, source, digest, value, imported, adopted_by in db.execute(query, (argument,))
        ]


def mark_adopted(database: StateDatabase, namespace: str, digest: str, session: str, now: int) -> None:
    """Remember which session took an imported state over; give it to the session first (`TaskStates.replace`)."""
    query = "update migration set adopted_by = ?, adopted = ? where namespace = ? and hash = ?"
    with database.writing() as db:
        db.execute(query, (session, now, namespace, digest))
