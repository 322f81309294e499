"""Which stored texts may hold a text: an index of trigrams in a database of its own beside the catalogue.

It holds nothing that the store does not hold: it can be thrown away, and is when it does not fit the catalogue or is
damaged; the next build makes it again. Each unique text is indexed once, without positions, which takes about a quarter
of its room; what the index names is read and judged by whoever asks. When its budget is used up it takes in no
more, and says so.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from mulligan.errors import IntegrityError
from mulligan.journal.diff import BINARY_PROBE
from mulligan.model import Kind
from mulligan.store.catalogue import Catalogue
from mulligan.store.contents import Contents

log = logging.getLogger(__name__)
NAME = "search.db"
#: The index takes at most this part of the store's budget, and no more than this many bytes.
_SHARE, _MOST = 8, 1 << 30
#: Larger texts are not searched (bytes).
TEXT_LIMIT = 1 << 20
#: Whoever builds keeps others waiting for one step; a question does not wait that long.
_WAIT_SECONDS = 0.2
_VERSION = 1
_SCHEMA = """
create table meta (key text primary key, value int not null) without rowid;
create table text (id integer primary key, hash blob not null unique);
create table at_path (text int not null, path int not null, primary key (text, path)) without rowid;
create virtual table trigram using fts5(body, content = '', columnsize = 0, detail = none, tokenize = 'trigram');
"""


@dataclass(frozen=True, slots=True)
class State:
    """How far it is: rows of the journal that it has not looked at, bytes on disk, whether its budget is used up."""

    pending: int
    size: int
    full: bool


def budget_of(store_budget: int) -> int:
    """The part of a store's budget that is the index's (bytes)."""
    return min(_MOST, store_budget // _SHARE)


def lacks() -> str:
    """Why this Python's SQLite cannot keep the index; "" if it can."""
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.execute("create virtual table t using fts5(body, tokenize = 'trigram')")
    except sqlite3.Error as error:
        return f"SQLite {sqlite3.sqlite_version} has no FTS5 with trigrams ({error})"
    return ""


class SearchIndex:
    """The index of one store. Belongs to one thread; several processes may build, one after another."""

    def __init__(self, directory: str, catalogue: Catalogue, contents: Contents, budget: int) -> None:
        self.path = os.path.join(directory, NAME)
        self._catalogue, self._contents, self._budget = catalogue, contents, budget
        self._db = self._open()
        self._inode = os.stat(self.path).st_ino

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def _open(self) -> sqlite3.Connection:
        """The database, made anew if it is damaged, of another version or of another store. Raises sqlite3.Error."""
        connection = None
        try:
            connection = self._connect()
            if self._fits(connection):
                return connection
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
        if connection is not None:
            connection.close()
        remove(self.path)
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        if not os.path.exists(self.path):
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=_WAIT_SECONDS)
        try:
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = normal")
            if not _version(connection):
                self._make(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _make(self, connection: sqlite3.Connection) -> None:
        """Make the tables; another process may have done it while this one waited for the lock."""
        connection.execute("begin immediate")
        if not _version(connection):
            for statement in _SCHEMA.strip().split(";\n"):
                connection.execute(statement)
            connection.execute("insert into meta values ('store', ?)", (self._catalogue.meta("first_start"),))
            connection.execute(f"pragma user_version = {_VERSION}")
        connection.execute("commit")

    def _fits(self, connection: sqlite3.Connection) -> bool:
        """Whether it was made by this version, of this store, and is not ahead of it."""
        if _version(connection) != _VERSION:
            return False
        found = dict(connection.execute("select key, value from meta"))
        same = found.get("store") == self._catalogue.meta("first_start")
        return same and found.get("row", 0) <= self._catalogue.meta("seq")

    def state(self) -> State:
        """How far it is."""
        size = size_of(self.path)
        return State(max(0, self._catalogue.meta("seq") - self._row()), size, size >= self._budget)

    def _row(self) -> int:
        found = self._db.execute("select value from meta where key = 'row'").fetchone()
        return 0 if found is None else int(found[0])

    def build(self, go_on: Callable[[], bool], rows: int = 100) -> State:
        """Take in rows that were not looked at, so many in a step that is kept, for as long as `go_on` says so.

        Ends early if another process is at it, if the budget is used up, if the disk is full, and if it was thrown
        away.
        """
        try:
            while go_on() and self._is_there() and not self.state().full and self._step(rows):
                pass
        except sqlite3.OperationalError as error:
            log.info("the search index was not built on: %s", error)
        return self.state()

    def _is_there(self) -> bool:
        try:
            return os.stat(self.path).st_ino == self._inode
        except FileNotFoundError:
            return False

    def _step(self, limit: int) -> bool:
        """Look at some rows; whether there were any."""
        self._db.execute("begin immediate")
        try:
            query = "select seq, path, kind, size, hash from row where seq > ? order by seq limit ?"
            rows = self._catalogue.db.execute(query, (self._row(), limit)).fetchall()
            for _, path, kind, size, digest in rows:
                if kind == Kind.FILE and 0 < size <= TEXT_LIMIT and (text := self._text(digest)):
                    self._db.execute("insert or ignore into at_path values (?, ?)", (text, path))
            if rows:
                self._db.execute("insert or replace into meta values ('row', ?)", (rows[-1][0],))
            self._db.execute("commit")
        except BaseException:
            if self._db.in_transaction:  # SQLite has rolled back by itself when the disk is full
                self._db.execute("rollback")
            raise
        return bool(rows)

    def _text(self, digest: bytes) -> int:
        """The number of a text, taken in now if it is new; 0 for what is none or cannot be read."""
        found = self._db.execute("select id from text where hash = ?", (digest,)).fetchone()
        if found is not None:
            return int(found[0])
        try:
            data = self._contents.read(digest)
        except IntegrityError:
            return 0
        if not is_text(data):
            return 0
        number = self._db.execute("insert into text (hash) values (?)", (digest,)).lastrowid
        body = data.decode("utf-8", "replace").replace("\0", " ")
        self._db.execute("insert into trigram (rowid, body) values (?, ?)", (number, body))
        return int(number or 0)

    def candidates(self, trigrams: Sequence[str]) -> dict[int, set[bytes]] | None:
        """Path id → hashes of the texts there that have all these trigrams; None without any: everything may fit."""
        if not trigrams:
            return None
        wanted = " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in trigrams)
        cursor = self._db.execute(
            "select a.path, t.hash from trigram f cross join text t on t.id = f.rowid join at_path a on a.text = t.id"
            " where f.trigram match ?",
            (wanted,),
        )
        found: dict[int, set[bytes]] = {}
        for path, digest in cursor:
            found.setdefault(path, set()).add(digest)
        return found

    def unindexed(self) -> Iterator[tuple[int, bytes]]:
        """(path id, hash) of the texts that the index has not looked at yet, the newest first."""
        cursor = self._catalogue.db.execute(
            "select path, hash from row where seq > ? and kind = 1 and size > 0 and size <= ? order by seq desc",
            (self._row(), TEXT_LIMIT),
        )
        yield from cursor


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma user_version").fetchone()[0])


def is_text(data: bytes) -> bool:
    """Whether a content is searched: it has no zero byte near its beginning, as for a diff."""
    return b"\0" not in data[:BINARY_PROBE]


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the file is no database any more."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def size_of(path: str) -> int:
    """What an index takes on disk (bytes)."""
    return sum(os.path.getsize(path + suffix) for suffix in ("", "-wal") if os.path.exists(path + suffix))


def remove(path: str) -> None:
    """Throw an index away."""
    for suffix in ("", "-wal", "-shm"):
        try:
            os.unlink(path + suffix)
        except FileNotFoundError:
            pass
