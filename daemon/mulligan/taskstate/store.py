"""The task states of all sessions, each its own: no call reads or writes another session's than the one it names.

Each real state that there was is kept as a version, by the time of its saving, while a checkpoint or a prompt may refer
to it. Every write is one transaction that reads what it builds on behind the write lock, so writers of several
processes lose nothing of each other's. Any thread.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec

from mulligan.clock import NANOSECONDS
from mulligan.config import Config
from mulligan.errors import NotFoundError
from mulligan.store.state import StateDatabase
from mulligan.taskstate.injection import injection_text
from mulligan.taskstate.merge import merge
from mulligan.taskstate.schema import RESERVED, check, check_name, digest, encode, require_shallow, same

#: What stands where a compaction found nothing; it claims no progress and is never told to an agent.
PLACEHOLDER: dict[str, Any] = {
    "title": "(no task state was saved)",
    "status": "active",
    "notes": "Written by mulligan when the conversation was compacted, because nothing had been saved before.",
}


@dataclass(frozen=True, slots=True)
class TaskState:
    """A session's state; `synthesized` is a placeholder's, and `updated_at` its last change (journal time)."""

    session: str
    value: dict[str, Any]
    synthesized: bool
    updated_at: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state under a name. `checkpoint` was taken at the same event, `operation` is the restore that it undoes."""

    name: str
    kind: str
    taken: int
    value: dict[str, Any]
    checkpoint: str = ""
    operation: str = ""


@dataclass(frozen=True, slots=True)
class Saved:
    """What a save led to; an unchanged one has written no state."""

    state: TaskState | None
    changed: bool
    snapshot: Snapshot | None = None


class TaskStates:
    """All task states. `on_change(session)` is called after what changes one, and after the triggers."""

    def __init__(self, database: StateDatabase, config: Callable[[], Config], now: Callable[[], int]) -> None:
        self.database = database
        self._config, self._now = config, now
        self.on_change: Callable[[str], None] = lambda _session: None

    # -- questions ----------------------------------------------------------------------------------------------------

    def load(self, session: str) -> TaskState | None:
        """A session's state, or None if nothing was ever saved, or all was cleared."""
        with self.database.reading() as db:
            return _load(db, session)

    def at(self, session: str, moment: int) -> TaskState | None:
        """The real state that a session had at a moment (journal time), if it had one."""
        query = "select value, saved from state_version where session = ? and saved <= ? order by saved desc, id desc"
        with self.database.reading() as db:
            found = db.execute(query + " limit 1", (session, moment)).fetchone()
        return None if found is None else TaskState(session, msgspec.json.decode(found[0]), False, found[1])

    def snapshots(self, session: str) -> list[Snapshot]:
        """A session's snapshots, the newest first."""
        with self.database.reading() as db:
            return _snapshots(db, session)

    def snapshot(self, session: str, name: str) -> Snapshot:
        """One of them by its name. Raises NotFoundError."""
        return _named(self.snapshots(session), name)

    def sessions(self, prefix: str = "") -> list[tuple[str, bytes]]:
        """(id, path of the project) of the sessions that have or had a state, by the beginning of their ids."""
        query = (
            "select session.id, project.path from session join project on project.id = session.project"
            " where session.id >= ? and session.id < ? order by session.id"
        )
        with self.database.reading() as db:
            return [(str(session), bytes(path)) for session, path in db.execute(query, (prefix, prefix + "\U0010ffff"))]

    def saved(self, project: bytes) -> dict[str, int]:
        """When the states of a project's sessions were saved last."""
        query = (
            "select state.session, state.updated from state join session on session.id = state.session"
            " join project on project.id = session.project where project.path = ?"
        )
        with self.database.reading() as db:
            return {str(session): int(updated) for session, updated in db.execute(query, (project,))}

    # -- changes ------------------------------------------------------------------------------------------------------

    def save(
        self, session: str, project: bytes, changes: dict[str, Any], snapshot: str = "", kind: str = "named"
    ) -> Saved:
        """Merge changes into a session's state, and keep the result under a name if one is given.

        What changes nothing writes nothing and leaves `updated_at`. Raises UsageError for what is no state, and
        NotFoundError for a snapshot of nothing.
        """
        require_shallow(changes)
        if snapshot:
            check_name(snapshot, kind)
        with self.database.writing() as db:
            found = _load(db, session)
            base = found.value if found is not None and not found.synthesized else {}
            value = merge(base, changes)
            check(value)
            changed = not same(base, value)
            if changed:
                _register(db, session, project)
                found = self._put(db, session, value)
            if snapshot and (found is None or found.synthesized):
                raise NotFoundError("there is no state to keep under a name", hint="save one first, or with it")
            made = self._keep(db, session, snapshot, kind, value) if snapshot else None
        if changed:
            self.on_change(session)
        return Saved(found, changed, made)

    def clear(self, session: str) -> tuple[bool, int]:
        """Delete everything of a session: state, versions, snapshots, counters. (Whether there was any, snapshots)."""
        with self.database.writing() as db:
            snapshots = len(_snapshots(db, session))
            cleared = _load(db, session) is not None or snapshots > 0
            # versions, snapshots and counters go with it
            db.execute("delete from session where id = ?", (session,))
        if cleared:
            self.on_change(session)
        return cleared, snapshots

    def restore_snapshot(self, session: str, name: str) -> tuple[TaskState, Snapshot | None]:
        """Make a snapshot the state; what the state was is kept as a snapshot itself, which is returned as well."""
        with self.database.writing() as db:
            wanted = _named(_snapshots(db, session), name).value
            made = self._replace(db, session, wanted)
        self.on_change(session)
        return made

    def replace(
        self, session: str, project: bytes, value: dict[str, Any], operation: str = ""
    ) -> tuple[TaskState, Snapshot | None]:
        """Make a state a session's own, whatever it had; what it had is kept as a snapshot, which is returned as well.

        `operation` is the restore of files that this is a part of.
        """
        check(value)
        with self.database.writing() as db:
            _register(db, session, project)
            made = self._replace(db, session, value, operation)
        self.on_change(session)
        return made

    def take_back(self, undone: str, operation: str) -> tuple[str, str, bool] | None:
        """Bring back what an operation on files had replaced, as a part of the one that undoes it.

        (session, name of the snapshot, whether it was done): a state that was saved since then stays. None if the
        operation had replaced none.
        """
        with self.database.writing() as db:
            query = "select session, name, taken, value from snapshot where operation = ? and operation != ''"
            found = db.execute(query, (undone,)).fetchone()
            if found is None:
                return None
            session, name, taken, value = found
            query = "select count(*) from state_version where session = ? and saved > ?"
            (saved,) = db.execute(query, (session, taken)).fetchone()
            if saved == 1:  # what the operation itself brought
                self._replace(db, session, msgspec.json.decode(value), operation)
        if saved == 1:
            self.on_change(session)
        return session, name, saved == 1

    # -- triggers -----------------------------------------------------------------------------------------------------

    def compacted(self, session: str, project: bytes, checkpoint: str = "") -> TaskState:
        """The conversation was compacted: the state becomes a snapshot if none holds it, or a placeholder is made.

        The same compaction may be told of again, by a hook and by the transcript.
        """
        with self.database.writing() as db:
            found = _load(db, session)
            if found is None:
                _register(db, session, project)
                found = self._put(db, session, PLACEHOLDER, synthesized=True)
            else:
                self._persist(db, found, checkpoint)
        self.on_change(session)
        return found

    def prompted(self, session: str, project: bytes, ordinal: int) -> bool:
        """A session's prompt of a number was heard: each Nth one makes a snapshot of what has changed since the last.

        A number that was heard before does nothing. Whether it was an Nth one.
        """
        every = self._config().autosave_every
        with self.database.writing() as db:
            before = db.execute("select prompts from session_runtime where session = ?", (session,)).fetchone()
            last = int(before[0]) if before else 0
            if ordinal <= last:
                return False
            _register(db, session, project)
            db.execute("update session_runtime set prompts = ? where session = ?", (ordinal, session))
            due = every > 0 and ordinal // every > last // every
            found = _load(db, session) if due else None
            if found is not None:
                self._persist(db, found)
        if due:
            self.on_change(session)
        return due

    def injection(self, session: str, limit: int | None = None) -> str | None:
        """The text that tells a new context of the state, in at most `limit` characters (default: as configured).

        None if there is no real state, or if this one was told already since the last `new_context`.
        """
        limit = self._config().max_injection_chars if limit is None else limit
        with self.database.writing() as db:
            found = _load(db, session)
            if found is None or found.synthesized or not found.value or limit <= 0:
                return None
            told = digest(found.value)
            query = "select injected from session_runtime where session = ?"
            if db.execute(query, (session,)).fetchone() == (told,):
                return None
            db.execute("update session_runtime set injected = ? where session = ?", (told, session))
        return injection_text(found.value, limit)

    def new_context(self, session: str) -> None:
        """A context begins that has not been told anything: `PreCompact`, or a conversation that was cleared."""
        with self.database.writing() as db:
            db.execute("update session_runtime set injected = '' where session = ? and injected != ''", (session,))

    # -- keeping house ------------------------------------------------------------------------------------------------

    def drop_versions(self, referring: Callable[[str, bytes], list[int] | None], before: int) -> int:
        """Drop versions that were replaced before a moment and that no moment refers to; how many.

        `referring(session, project)` are the moments that do, sorted; None if they are not known, so that all stay.
        """
        dropped = 0
        for session, project in self.sessions():
            query = "select id, saved from state_version where session = ? order by saved, id"
            with self.database.reading() as db:
                versions = db.execute(query, (session,)).fetchall()
            old = [(number, saved, until) for (number, saved), (_, until) in pairwise(versions) if until < before]
            moments = referring(session, project) if old else None
            if moments is None:
                continue
            gone = [
                (number,) for number, *span in old if bisect_left(moments, span[0]) == bisect_left(moments, span[1])
            ]
            if gone:
                with self.database.writing() as db:
                    db.executemany("delete from state_version where id = ?", gone)
            dropped += len(gone)
        return dropped

    # -- within a transaction -----------------------------------------------------------------------------------------

    def _put(
        self, db: sqlite3.Connection, session: str, value: dict[str, Any], *, synthesized: bool = False
    ) -> TaskState:
        text, now = encode(value), self._now()
        db.execute("insert or replace into state values (?, ?, ?, ?)", (session, now, synthesized, text))
        if not synthesized:
            db.execute("insert into state_version (session, saved, value) values (?, ?, ?)", (session, now, text))
        return TaskState(session, value, synthesized, now)

    def _replace(
        self, db: sqlite3.Connection, session: str, value: dict[str, Any], operation: str = ""
    ) -> tuple[TaskState, Snapshot | None]:
        found = _load(db, session)
        if found is not None and not found.synthesized and same(found.value, value):
            return found, None
        undo = None
        if found is not None and not found.synthesized:
            undo = self._keep(db, session, "", "pre_restore", found.value, operation=operation)
        return self._put(db, session, value), undo

    def _persist(self, db: sqlite3.Connection, found: TaskState, checkpoint: str = "") -> None:
        newest = _snapshots(db, found.session, 1)
        if not found.synthesized and not (newest and same(newest[0].value, found.value)):
            self._keep(db, found.session, "", "auto", found.value, checkpoint)

    def _keep(
        self,
        db: sqlite3.Connection,
        session: str,
        name: str,
        kind: str,
        value: dict[str, Any],
        checkpoint: str = "",
        operation: str = "",
    ) -> Snapshot:
        """A snapshot in the place of one of the same name; without a name it gets one of its time."""
        now = self._now()
        name = name or _free_name(db, session, RESERVED[kind], now)
        db.execute("delete from snapshot where session = ? and name = ?", (session, name))
        db.execute(
            "insert into snapshot (session, name, kind, taken, value, checkpoint, operation)"
            " values (?, ?, ?, ?, ?, ?, ?)",
            (session, name, kind, now, encode(value), checkpoint, operation),
        )
        # the newest ones stay, and the newest way back in any case
        db.execute(
            "delete from snapshot where session = ?1"
            " and id not in (select id from snapshot where session = ?1 order by id desc limit ?2)"
            " and id not in (select coalesce(max(id), 0) from snapshot where session = ?1 and kind = 'pre_restore')",
            (session, self._config().history_limit),
        )
        return Snapshot(name, kind, now, value, checkpoint, operation)


def _register(db: sqlite3.Connection, session: str, project: bytes) -> None:
    """A session belongs to the project in which it was first seen."""
    db.execute("insert or ignore into project (path) values (?)", (project,))
    db.execute(
        "insert or ignore into session (id, project) select ?, id from project where path = ?", (session, project)
    )
    db.execute("insert or ignore into session_runtime (session) values (?)", (session,))


def _load(db: sqlite3.Connection, session: str) -> TaskState | None:
    found = db.execute("select value, synthesized, updated from state where session = ?", (session,)).fetchone()
    return None if found is None else TaskState(session, msgspec.json.decode(found[0]), bool(found[1]), found[2])


def _snapshots(db: sqlite3.Connection, session: str, limit: int = -1) -> list[Snapshot]:
    query = "select name, kind, taken, value, checkpoint, operation from snapshot where session = ? order by id desc"
    query += " limit ?"
    return [
        Snapshot(name, kind, taken, msgspec.json.decode(value), checkpoint, operation)
        for name, kind, taken, value, checkpoint, operation in db.execute(query, (session, limit))
    ]


def _named(snapshots: list[Snapshot], name: str) -> Snapshot:
    for snapshot in snapshots:
        if snapshot.name == name:
            return snapshot
    there = [snapshot.name for snapshot in snapshots]
    raise NotFoundError(
        f'this session has no snapshot "{name[:120]}"',
        hint=f"there are: {', '.join(there[:8])}" if there else "mulligan state save --snapshot NAME makes one",
        nearest=there,
    )


def _free_name(db: sqlite3.Connection, session: str, prefix: str, now: int) -> str:
    seconds, rest = divmod(now, NANOSECONDS)
    name = f"{prefix}{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%S}.{rest // 1_000_000:03d}Z"
    taken = {str(found) for (found,) in db.execute("select name from snapshot where session = ?", (session,))}
    return next(each for each in (name, *(f"{name}-{n}" for n in range(2, len(taken) + 3))) if each not in taken)
