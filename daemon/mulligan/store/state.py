"""The state database: settings. Other things of the user's own that no log can give back will live here too.

SQLite in WAL mode with full synchronisation: a committed setting survives a crash. A database of a newer version is
read and not written.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from typing import Any

import msgspec

from mulligan.errors import IntegrityError, ReadOnlyError
from mulligan.store.atomic import make_private_directory

log = logging.getLogger(__name__)
VERSION = 1
#: Under this scope stands what is known of the store as a whole.
_STORE, _BUDGET, _DRILL, _ERASING = "store", "budget_bytes", "last_drill", "erasing"
_MOST_BUDGET, _LEAST_BUDGET = 10 << 30, 1 << 20
_WAL_TRIES, _WAL_PAUSE_SECONDS = 250, 0.02
_SCHEMA = """
create table setting (
    scope text not null, subject text not null, key text not null, value text not null,
    primary key (scope, subject, key)
) without rowid;
"""


class StateDatabase:
    """Settings by scope; any thread. Raises IntegrityError when it cannot be read: it is never started afresh."""

    def __init__(self, path: str) -> None:
        self.path = path
        make_private_directory(os.path.dirname(path))
        self._lock = threading.Lock()
        if not os.path.exists(path):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
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
        self._db.execute("begin immediate")
        # another process may have done it while this one waited for the lock
        (version,) = self._db.execute("pragma user_version").fetchone()
        if version == 0:
            self._db.execute(_SCHEMA)
            self._db.execute(f"pragma user_version = {VERSION}")
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

    def settings(self, scope: str, subject: str) -> dict[str, object]:
        """What is set for one subject (a project's path, a session's id, "" globally)."""
        with self._lock:
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
        with self._lock:
            self._db.execute(
                "insert or replace into setting values (?, ?, ?, ?)",
                (scope, subject, key, msgspec.json.encode(value).decode()),
            )

    def unset(self, scope: str, subject: str, key: str) -> bool:
        """Forget one value; whether there was one. Raises ReadOnlyError."""
        self._require_writable()
        with self._lock:
            query = "delete from setting where scope = ? and subject = ? and key = ?"
            return self._db.execute(query, (scope, subject, key)).rowcount > 0

    def replace(self, scope: str, subject: str, values: dict[str, object]) -> None:
        """Set everything of one subject, in one step. Raises ReadOnlyError."""
        self._require_writable()
        rows = [(scope, subject, key, msgspec.json.encode(value).decode()) for key, value in values.items()]
        with self._lock:
            self._db.execute("begin immediate")
            try:
                self._db.execute("delete from setting where scope = ? and subject = ?", (scope, subject))
                self._db.executemany("insert into setting values (?, ?, ?, ?)", rows)
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:  # SQLite has rolled back by itself when the disk is full
                    self._db.execute("rollback")
                raise

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
    except sqlite3.Error:
        kept = None
    if isinstance(kept, int):
        return kept
    space = os.statvfs(directory)
    budget = max(_LEAST_BUDGET, min(_MOST_BUDGET, space.f_bavail * space.f_frsize // 10))
    try:
        state.set(_STORE, "", _BUDGET, budget)
    except (ReadOnlyError, sqlite3.Error) as error:
        log.warning("the default budget of %d bytes could not be kept: %s", budget, error)
    return budget
