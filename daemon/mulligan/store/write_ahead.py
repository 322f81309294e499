"""Writing the catalogue's write-ahead log back beside the log's thread: a commit never waits for it.

SQLite would do it in the commit that finds the write-ahead log long: tens of milliseconds for whoever happens to wait,
and a second and more of a first snapshot of 100,000 files.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from contextlib import suppress

log = logging.getLogger(__name__)
#: When the write-ahead log is this many times as long as it should be, nobody writes it back any more.
_TOO_LONG = 16


class WriteBack:
    """A thread with a connection of its own. `limit` is the length (bytes) from which on there is something to do."""

    def __init__(self, path: str, limit: int) -> None:
        self._path, self.limit = path, limit
        self._due = threading.Event()
        self._has_run = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="write-back", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what is being written, then end the thread. Idempotent."""
        self._closing = True
        self._due.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self, db: sqlite3.Connection) -> None:
        """Between commits: have it written back if it is long; by `db` if the thread does not get along.

        SQLite begins it anew only if all of it is written back when a transaction begins. While one follows another the
        thread is always behind by what was committed meanwhile: that little is written back here.
        """
        try:
            size = os.stat(self._path + "-wal").st_size
        except OSError:
            return
        if size <= self.limit:
            return
        if self._has_run or size > self.limit * _TOO_LONG:
            self._has_run = False
            write_back(db)
        else:
            self._due.set()

    def _run(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        try:
            connection.execute("pragma synchronous = normal")
            while True:
                self._due.wait()
                self._due.clear()
                if self._closing:
                    return
                write_back(connection)
                self._has_run = True
        finally:
            connection.close()


def write_back(db: sqlite3.Connection) -> None:
    """Write back what nobody reads from the write-ahead log. A full disk is waited out."""
    try:
        db.execute("pragma wal_checkpoint(passive)").fetchall()
    except sqlite3.Error as error:
        log.warning("the catalogue's write-ahead log could not be written back: %s", error)


def sync_ahead(path: str) -> None:
    """Have a catalogue survive the end of the machine as it is now; SQLite syncs when it writes back. Any thread."""
    with suppress(FileNotFoundError):
        fd = os.open(path + "-wal", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
