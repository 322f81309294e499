"""Opening the catalogue at a start: one that is lost, of an older version or unreadable is made anew from the pool."""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import closing, suppress

from mulligan.errors import IntegrityError, NewerFormatError
from mulligan.store import snapshot
from mulligan.store.rebuild import keep, last_batch, make_anew, remove, unfinished
from mulligan.store.replay import Replayed, replay
from mulligan.store.schema import PRAGMAS, SCHEMA_VERSION

log = logging.getLogger(__name__)
_OLDER, _DAMAGED = ".older", ".damaged"
#: Not a database, broken within, without the tables that it should have.
_DAMAGE = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR)


def open_catalogue(path: str, pool: str, quarantine: str) -> tuple[sqlite3.Connection, Replayed, list[str]]:
    """The write connection, with every batch of the log folded; how that went, and what somebody should know of it.

    A catalogue of an older version is set aside until the new one knows all that it knew; one that SQLite cannot read
    is set aside for whoever wants to look at it. Raises NewerFormatError, IntegrityError.
    """
    snapshot.remove_unfinished(pool)
    remove(unfinished(path))
    warnings = _set_aside(path)
    connection, replayed = _opened(path, pool, quarantine)
    if os.path.exists(path + _OLDER):
        known = _known(path + _OLDER)
        if last_batch(connection) < known and keep(pool, path + _OLDER):
            connection.close()
            remove(path)
            connection, replayed = _opened(path, pool, quarantine)
        if last_batch(connection) >= known:
            remove(path + _OLDER)
        elif not replayed.damage:
            reached = last_batch(connection)
            replayed.damage = f"a catalogue of an older version knows {known} batches, and the log holds {reached}"
    return connection, replayed, warnings


def _set_aside(path: str) -> list[str]:
    """Move a catalogue away that cannot be used as it is; what is to be said of it."""
    if not os.path.exists(path):
        return []
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            (version,) = connection.execute("pragma user_version").fetchone()
            if version <= SCHEMA_VERSION:
                last_batch(connection)  # an empty file has not even that
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE:
            raise IntegrityError(f"{path} cannot be read: {error}", hint="see the daemon's log") from error
        _move(path, path + _DAMAGED)
        warning = f"{path} could not be read ({error}): it is {path + _DAMAGED} now, and was made anew"
        log.warning("%s", warning)
        return [warning]
    if version > SCHEMA_VERSION:
        raise NewerFormatError(
            f"{path} has schema {version}; this mulligan knows {SCHEMA_VERSION}",
            hint="install the mulligan that wrote it, or a newer one",
        )
    if version < SCHEMA_VERSION:
        log.info("%s has schema %d and is made anew", path, version)
        _move(path, path + _OLDER)
    return []


def _move(path: str, place: str) -> None:
    """Give a catalogue another name; what was there under it is removed."""
    remove(place)
    with suppress(FileNotFoundError):  # there is one if somebody still had it open, or if it cannot be read
        os.replace(path + "-wal", place + "-wal")
    os.replace(path, place)
    remove(path)


def _opened(path: str, pool: str, quarantine: str) -> tuple[sqlite3.Connection, Replayed]:
    folded = 0 if os.path.exists(path) else make_anew(pool, path)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        connection.executescript(PRAGMAS)
        replayed = replay(pool, connection, quarantine)
    except BaseException:
        connection.close()
        raise
    replayed.batches += folded
    return connection, replayed


def give_up_older(path: str) -> bool:
    """Set a catalogue of an older version aside for good, of which not everything could be kept; whether there is one.

    Until then it makes the store read-only at every start.
    """
    if not os.path.exists(path + _OLDER):
        return False
    _move(path + _OLDER, path + _DAMAGED)
    return True


def _known(path: str) -> int:
    """The last batch that a catalogue of an older version knows; 0 if it cannot be read."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            return last_batch(connection)
    except sqlite3.Error as error:
        log.warning("%s cannot be read: %s", path, error)
        return 0
