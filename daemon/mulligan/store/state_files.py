"""The file of the state database: copied while it is in use, and checked. Nothing here ever writes to it."""

from __future__ import annotations

import os
import secrets
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import quote

from mulligan.errors import IntegrityError, MulliganError, RefusedError
from mulligan.faults import point
from mulligan.store.atomic import UNFINISHED, sync_directory

#: Findings of a check that are told; the rest of a badly damaged file says the same.
_TOLD = 20


@dataclass(frozen=True, slots=True)
class StateCheck:
    """What SQLite says of the file: nothing in either list if it is well."""

    version: int
    integrity: list[str]
    foreign_keys: list[str]


def back_up(database: str, path: str) -> int:
    """Copy the database to a file that does not exist yet; its size. Others go on reading and writing.

    The copy is one committed state, 0600 from its creation on, checked and durable before it has its name. Raises
    RefusedError if there is something of that name, and IntegrityError for a copy that is not whole.
    """
    if os.path.lexists(path):
        raise _taken(path)
    unfinished = f"{path}.{secrets.token_hex(4)}{UNFINISHED}"
    try:
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            _copy(database, unfinished)
            point("state.backup")
            size = os.stat(unfinished).st_size
            _publish(unfinished, path)
        finally:
            if os.path.lexists(unfinished):
                os.unlink(unfinished)
        sync_directory(os.path.dirname(path))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise MulliganError(f"{path} cannot be written: {reason}", hint="give a place that you can write to") from error
    return size


def _copy(database: str, path: str) -> None:
    try:
        with closing(_read_only(database)) as source, closing(sqlite3.connect(path, isolation_level=None)) as copy:
            source.backup(copy)  # in one step, which is one state
            copy.execute("pragma journal_mode = delete")  # so that the copy is one file
            found = [str(line) for (line,) in copy.execute("pragma integrity_check")]
    except sqlite3.DatabaseError as error:
        raise IntegrityError(f"{database} cannot be copied: {error}", hint="mulligan doctor") from error
    if found != ["ok"]:
        raise IntegrityError(
            f"{database} is damaged: {found[0]}", hint="mulligan doctor says more", found=found[:_TOLD]
        )
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _publish(unfinished: str, path: str) -> None:
    """The name appears only if nothing has it; where there are no hard links, as far as can be told."""
    try:
        os.link(unfinished, path)
    except FileExistsError:
        raise _taken(path) from None
    except OSError:
        if os.path.lexists(path):
            raise _taken(path) from None
        os.rename(unfinished, path)


def _taken(path: str) -> RefusedError:
    return RefusedError(f"{path} exists already; nothing was written", hint="give another name")


def check_file(database: str) -> StateCheck:
    """What `integrity_check` and `foreign_key_check` find. Raises nothing: what cannot be read is a finding too."""
    try:
        with closing(_read_only(database)) as db:
            (version,) = db.execute("pragma user_version").fetchone()
            integrity = [str(line) for (line,) in db.execute(f"pragma integrity_check({_TOLD})")]
            broken = db.execute("pragma foreign_key_check").fetchmany(_TOLD)
    except sqlite3.DatabaseError as error:
        return StateCheck(0, [str(error)], [])
    foreign = [f"{table}: row {row} names nothing in {parent}" for table, row, parent, _ in broken]
    return StateCheck(version, [line for line in integrity if line != "ok"], foreign)


def _read_only(database: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(os.fsencode(database))}?mode=ro", uri=True, isolation_level=None, timeout=5)
