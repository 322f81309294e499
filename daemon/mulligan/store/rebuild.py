"""Making a catalogue anew: the newest snapshot that is whole, the batches behind it, the places of contents.

It is made in a file beside the catalogue and gets into its place in one step: at a start by a rename, in a running
daemon by one transaction that replaces every page. Nothing that is damaged is changed or thrown away.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress

import msgspec

from mulligan.errors import IntegrityError
from mulligan.faults import point
from mulligan.store import snapshot
from mulligan.store.atomic import UNFINISHED
from mulligan.store.catalogue import connect
from mulligan.store.continuity import is_whole
from mulligan.store.encoding import Encoding
from mulligan.store.replay import Replayed, replay
from mulligan.store.schema import SCHEMA, SCHEMA_VERSION
from mulligan.store.segments import (
    RECORD_HEADER_SIZE,
    SEGMENT_HEADER_SIZE,
    Found,
    RecordKind,
    read_record,
    segment_numbers,
    segment_path,
    unpack_header,
    valid_records_behind,
)

log = logging.getLogger(__name__)
#: Records of which the contents are looked up at once.
_MANY = 500


class Built(msgspec.Struct, frozen=True):
    """What a new catalogue was made from, and what it lacks.

    `batch`: the last one it knows; `snapshot`: the one behind which it began, 0 without a snapshot; `batches`: folded
    behind it; `missing`: contents without a record; `lost`: what could not be read, in words; `error`: why
    there is none.
    """

    batch: int = 0
    snapshot: int = 0
    batches: int = 0
    contents: int = 0
    missing: int = 0
    lost: list[str] = []
    error: str = ""


def unfinished(path: str) -> str:
    """Where a catalogue is made anew."""
    return path + UNFINISHED


def begin(pool: str, path: str) -> tuple[sqlite3.Connection, int, Replayed]:
    """A new catalogue at `path` from all that is whole: the connection, its snapshot's batch, and how far the log went.

    Contents that are known from the snapshot alone have no place yet. Raises NewerFormatError.
    """
    remove(path)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        # it counts when it is complete, so nothing of it needs to survive on the way
        db.executescript("pragma journal_mode = memory; pragma synchronous = off;")
        db.executescript(f"begin; {SCHEMA} pragma user_version = {SCHEMA_VERSION}; commit;")
        batch = _load(pool, db)
        point("rebuild.loaded")
        replayed = replay(pool, db, "")
        point("rebuild.folded")
    except BaseException:
        db.close()
        raise
    return db, batch, replayed


def _load(pool: str, db: sqlite3.Connection) -> int:
    """Load the newest snapshot that is whole, unless it is of older tables and the log holds everything."""
    found = snapshot.newest(pool)
    if found is None or (found.schema < SCHEMA_VERSION and is_whole(pool, found.batch)):
        return 0
    return snapshot.load(snapshot.snapshot_path(pool, found.batch), db).batch


def find_places(pool: str, db: sqlite3.Connection) -> int:
    """Find where the contents lie that have no place (segment 0); how many there are of which there is no record.

    Those keep their ids, which later deltas name, and get a place when they are stored again. A record counts if it is
    whole, and a delta if its base is a content with a smaller id that has a place. The last one is taken that is no
    delta, else the last.
    """
    if db.execute("select 1 from content where segment = 0 limit 1").fetchone() is None:
        return 0
    for statement in (
        "begin",
        "create table whole (content integer primary key, encoding, segment, offset, stored)",
        "create table delta (content, segment, offset, stored, base, depth)",
    ):
        db.execute(statement)
    for number in segment_numbers(pool):
        try:
            _look(pool, number, db)
        except OSError as error:
            log.warning("%s", error)
    db.execute(
        "update content set (encoding, segment, offset, stored, base, depth) ="
        " (select encoding, segment, offset, stored, 0, 0 from whole where content = id)"
        " where segment = 0 and id in (select content from whole)"
    )
    # by rising ids: whether a base has a place is known by then
    deltas = db.execute("select * from delta order by content, segment desc, offset desc")
    db.executemany(
        f"update content set encoding = {int(Encoding.DELTA)}, segment = ?2, offset = ?3, stored = ?4, base = ?5,"
        " depth = ?6 where id = ?1 and segment = 0 and exists (select 1 from content where id = ?5 and segment != 0)",
        deltas,
    )
    (missing,) = db.execute("select count(*) from content where segment = 0").fetchone()
    for statement in ("drop table whole", "drop table delta", "commit"):
        db.execute(statement)
    return int(missing)


def _look(pool: str, segment: int, db: sqlite3.Connection) -> None:
    """Note the records of contents in one segment that have no place."""
    whole: list[tuple[object, ...]] = []
    delta: list[tuple[object, ...]] = []

    def note() -> None:
        db.executemany(
            "insert or replace into whole select id, ?, ?, ?, ? from content where hash = ? and segment = 0", whole
        )
        db.executemany(
            "insert into delta select c.id, ?, ?, ?, b.id, ? from content c join content b on b.hash = ?"
            " where c.hash = ? and c.segment = 0 and b.id < c.id",
            delta,
        )
        whole.clear()
        delta.clear()

    for found in _records(segment_path(pool, segment)):
        header = found.header
        if header.kind != RecordKind.CONTENT:
            continue
        if header.encoding == Encoding.DELTA:
            delta.append((segment, found.offset, header.stored, header.depth, header.base, header.hash))
        else:
            whole.append((header.encoding, segment, found.offset, header.stored, header.hash))
        if len(whole) + len(delta) >= _MANY:
            note()
    note()


def _records(path: str) -> Iterator[Found]:
    """Every record of a segment that is whole, whatever lies between."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        offset = SEGMENT_HEADER_SIZE
        while True:
            found = read_record(fd, offset)
            if found is None:
                header = unpack_header(os.pread(fd, RECORD_HEADER_SIZE, offset))
                within = RECORD_HEADER_SIZE + header.stored - 1 if header else 0
                found = next(valid_records_behind(fd, offset + within), None)
            if found is None:
                return
            yield found
            offset = found.end
    finally:
        os.close(fd)


def make_anew(pool: str, path: str) -> int:
    """Put a new catalogue where none is, at a start; returns how many batches were folded. Raises NewerFormatError.

    Killed at any moment: there is none, and the next start makes it.
    """
    db, _, replayed = begin(pool, unfinished(path))
    with closing(db):
        find_places(pool, db)
    fd = os.open(unfinished(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    point("rebuild.made")
    remove(path)  # what a lost one left beside it does not get into this one
    os.replace(unfinished(path), path)
    return replayed.batches


def build(pool: str, path: str, known: int) -> Built:
    """Make a new catalogue beside the one at `path`, which knows the batches up to `known`. By a child process.

    If the snapshots and the log do not lead as far, and the catalogue is whole, it gives a snapshot of itself first:
    nothing that it knows is lost for want of a log. All places are taken from the segments, not from what batches say.
    """
    new = unfinished(path)
    db, began, replayed = begin(pool, new)
    if last_batch(db) < known and keep(pool, path):
        db.close()
        db, began, replayed = begin(pool, new)
    with closing(db):
        db.execute("update content set encoding = 0, segment = 0, offset = 0, stored = 0, base = 0, depth = 0")
        missing = find_places(pool, db)
        point("rebuild.placed")
        (contents,) = db.execute("select count(*) from content where segment != 0").fetchone()
        lost = [replayed.damage] if replayed.damage and not replayed.behind else []
        return Built(last_batch(db), began, replayed.batches, contents, missing, lost)


def keep(pool: str, path: str) -> bool:
    """Write a snapshot of a catalogue, if all of it can be read; whether there is one now."""
    try:
        with closing(connect(path)) as db:
            if db.execute("pragma quick_check(1)").fetchone() != ("ok",):
                raise IntegrityError(f"{path} is damaged")
            snapshot.write(db, pool)
    except (sqlite3.Error, IntegrityError) as error:
        log.warning("no snapshot can be made of %s: %s", path, error)
        return False
    return True


def last_batch(db: sqlite3.Connection) -> int:
    """The last batch that a catalogue knows."""
    found = db.execute("select value from meta where key = 'batch'").fetchone()
    return 0 if found is None else int(found[0])


def remove(path: str) -> None:
    """Remove a catalogue and what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)
