"""The state database: settings and task state, things of the user's own that no log can give back.

SQLite in WAL mode with full synchronisation: what was committed survives a crash, and a crash leaves the state before
or after a transaction. A database of a newer version is read and not written, not by a byte.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from mulligan.errors import BusyError, ConfigError, IntegrityError, MulliganError, ReadOnlyError
from mulligan.faults import point
from mulligan.store.atomic import make_private_directory
from mulligan.store.state_schema import STEPS, VERSION

log = logging.getLogger(__name__)
#: Under this scope stands what is known of the store as a whole.
_STORE, _BUDGET, _DRILL, _ERASING = "store", "budget_bytes", "last_drill", "erasing"
_MOST_BUDGET, _LEAST_BUDGET = 10 << 30, 1 << 20
_WAL_TRIES, _WAL_PAUSE_SECONDS = 250, 0.02
_BUSY_SECONDS = 5


class StateDatabase:
    """Settings by scope, and transactions for others; any thread.

    Raises ConfigError when there cannot be one at its place, and IntegrityError when it cannot be read: it is never
    started afresh.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            make_private_directory(os.path.dirname(path))
            os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600))
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            hint = "database_path or MULLIGAN_STATE_DB name another place"
            raise ConfigError(f"{path} cannot be opened: {reason}", hint=hint) from error
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_BUSY_SECONDS)
        try:
            self.newer = self._migrate()
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise IntegrityError(
                f"{path} cannot be read: {error}", hint="move it aside or bring back a backup"
            ) from error

    def _migrate(self) -> bool:
        """Bring the schema up to date in one transaction; True if it is a newer one."""
        (version,) = self._db.execute("pragma user_version").fetchone()
        if version > VERSION:
            return True
        self._use_wal()
        self._db.execute("pragma synchronous = full")
        self._db.execute("pragma foreign_keys = on")
        self._db.execute("begin immediate")
        # another process may have done it while this one waited for the lock
        (version,) = self._db.execute("pragma user_version").fetchone()
        for number, step in enumerate(STEPS[version:], version + 1):
            for statement in step:
                self._db.execute(statement)
            point("state.migrated")
            self._db.execute(f"pragma user_version = {number}")
        self._db.execute("commit")
        return bool(version > VERSION)

    def _use_wal(self) -> None:
        # SQLite does not wait for the lock that this needs, and several processes may open a new database at once
        for _ in range(_WAL_TRIES):
            try:
                self._db.execute("pragma journal_mode = wal")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                time.sleep(_WAL_PAUSE_SECONDS)
            else:
                return
        self._db.execute("pragma journal_mode = wal")

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, for questions alone. Raises IntegrityError and BusyError for what SQLite says."""
        with self._lock, self._explained():
            yield self._db

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The connection within one transaction that has the write lock from its start; other processes wait.

        It is durable when the block has ended, and undone as a whole after an exception. Raises ReadOnlyError,
        BusyError, and MulliganError for a full or failing disk.
        """
        self._require_writable()
        with self._lock, self._explained():
            self._db.execute("begin immediate")
            try:
                yield self._db
                point("state.commit")
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:  # SQLite has rolled back by itself when the disk is full
                    self._db.execute("rollback")
                raise
        point("state.committed")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if (error.sqlite_errorcode or 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise BusyError(f"{self.path} is being written by others", hint="try again") from error
            raise MulliganError(f"{self.path}: {error}", hint="look at the disk, and at: mulligan doctor") from error
        except sqlite3.DatabaseError as error:
            hint = "mulligan doctor checks it; bring back a backup if it is damaged"
            raise IntegrityError(f"{self.path} cannot be read: {error}", hint=hint) from error

    def settings(self, scope: str, subject: str) -> dict[str, object]:
        """What is set for one subject (a project's path, a session's id, "" globally)."""
        with self._lock, self._explained():
            cursor = self._db.execute(
                "select key, value from setting where scope = ? and subject = ?", (scope, subject)
            )
            return {key: msgspec.json.decode(value) for key, value in cursor}

    def _require_writable(self) -> None:
        if self.newer:
            raise ReadOnlyError(
                f"{self.path} was written by a newer mulligan", hint="install that version; reading goes on"
            )

    def set(self, scope: str, subject: str, key: str, value: object) -> None:
        """Set one value; durable when this returns. Raises ReadOnlyError."""
        self._require_writable()
        with self._lock, self._explained():
            self._db.execute(
                "insert or replace into setting values (?, ?, ?, ?)",
                (scope, subject, key, msgspec.json.encode(value).decode()),
            )

    def unset(self, scope: str, subject: str, key: str) -> bool:
        """Forget one value; whether there was one. Raises ReadOnlyError."""
        self._require_writable()
        with self._lock, self._explained():
            query = "delete from setting where scope = ? and subject = ? and key = ?"
            return self._db.execute(query, (scope, subject, key)).rowcount > 0

    def replace(self, scope: str, subject: str, values: dict[str, object]) -> None:
        """Set everything of one subject, in one step. Raises ReadOnlyError."""
        rows = [(scope, subject, key, msgspec.json.encode(value).decode()) for key, value in values.items()]
        with self.writing() as db:
            db.execute("delete from setting where scope = ? and subject = ?", (scope, subject))
            db.executemany("insert into setting values (?, ?, ?, ?)", rows)

    def write_anew(self) -> None:
        """Write the whole file anew, so that nothing that was deleted stays in it. Raises as `writing`."""
        self._require_writable()
        with self._lock, self._explained():
            self._db.execute("vacuum")
            self._db.execute("pragma wal_checkpoint(truncate)").fetchall()

    def keep_drill(self, result: dict[str, Any]) -> None:
        """Remember how the last drill ended. Raises ReadOnlyError."""
        self.set(_STORE, "", _DRILL, result)

    def keep_erasing(self, what: str) -> None:
        """Remember that the segments are to be rid of `purged` contents, or of `everything` dead; "" when they are."""
        if what:
            self.set(_STORE, "", _ERASING, what)
        else:
            self.unset(_STORE, "", _ERASING)

    def erasing(self) -> str:
        """What the segments are still to be rid of; "" if nothing."""
        return str(self.settings(_STORE, "").get(_ERASING) or "")

    def last_drill(self) -> dict[str, Any] | None:
        """How the last drill ended, if there was one."""
        found = self.settings(_STORE, "").get(_DRILL)
        return found if isinstance(found, dict) else None


def default_budget(state: StateDatabase, directory: str) -> int:
    """The smaller of 10 GiB and a tenth of the space that was free when the store was made, at least 1 MiB.

    Reckoned once and kept, for what the store itself takes must not shrink it. Where it cannot be kept, because the
    database is a newer version's or the disk is full, it is reckoned again the next time.
    """
    try:
        kept = state.settings(_STORE, "").get(_BUDGET)
    except MulliganError:
        kept = None
    if isinstance(kept, int):
        return kept
    space = os.statvfs(directory)
    budget = max(_LEAST_BUDGET, min(_MOST_BUDGET, space.f_bavail * space.f_frsize // 10))
    try:
        state.set(_STORE, "", _BUDGET, budget)
    except MulliganError as error:
        log.warning("the default budget of %d bytes could not be kept: %s", budget, error)
    return budget
