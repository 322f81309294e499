"""Snapshots: what the catalogue holds behind one batch, without the places of contents, in one checked file.

A snapshot with the batches behind it and the records of all segments gives the catalogue again (`rebuild.py`), so the
log before the oldest one is not needed any more. Tables are stored by the names of their columns: a later schema loads
an older one, and rows name contents by their ids. A file counts only under its own name, which it gets when it was
read back as a whole; whoever writes it may be killed at any moment.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import msgspec
import zstandard

from mulligan.errors import IntegrityError, NewerFormatError
from mulligan.faults import point
from mulligan.store.atomic import UNFINISHED, replacing, sync_directory

log = logging.getLogger(__name__)
KEEP = 3
_MAGIC, _VERSION = b"MULLSNAP", 1
_HEADER = struct.Struct("<8sHHIQQ")
_LENGTH = struct.Struct("<I")
_DIGEST = hashlib.sha256().digest_size
_LEVEL = 3
_FRAME = 256 << 10
_NAME = re.compile(r"(\d{12,})\.snap\Z")
#: Where the log goes on is found by the numbers of batches.
_PLACES = ("segment", "offset")


@dataclass(frozen=True, slots=True)
class Header:
    """What a snapshot says of itself: version of the tables, last batch, and that batch's journal time."""

    schema: int
    batch: int
    time: int


def snapshot_path(pool: str, batch: int) -> str:
    """The file of the snapshot behind a batch."""
    return os.path.join(pool, f"{batch:012d}.snap")


def snapshots(pool: str) -> list[int]:
    """The batches behind which there are snapshots, the newest first; whether they are whole says `check`."""
    return sorted((int(match[1]) for name in os.listdir(pool) if (match := _NAME.match(name))), reverse=True)


def newest(pool: str) -> Header | None:
    """The newest snapshot that is whole. Raises NewerFormatError."""
    for batch in snapshots(pool):
        try:
            return check(snapshot_path(pool, batch))
        except (IntegrityError, OSError) as error:
            log.warning("%s", error)
    return None


def remove_unfinished(pool: str) -> None:
    """Remove what a writer left that was killed."""
    for name in os.listdir(pool):
        if _NAME.match(name.removesuffix(UNFINISHED)) and name.endswith(UNFINISHED):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(pool, name))


def prune(pool: str, keep: int = KEEP) -> None:
    """Remove all but the newest snapshots."""
    for batch in snapshots(pool)[keep:]:
        point("snapshot.prune")
        os.unlink(snapshot_path(pool, batch))
    sync_directory(pool)


def write(db: sqlite3.Connection, pool: str) -> int:
    """Write a snapshot of a catalogue, of one moment; returns its batch. In memory is a small part at a time.

    Raises OSError, sqlite3.Error, and IntegrityError if what was written is not what is read back.
    """
    remove_unfinished(pool)
    db.execute("begin")  # one state, whatever is folded meanwhile
    try:
        meta = dict(db.execute("select key, value from meta"))
        (schema,) = db.execute("pragma user_version").fetchone()
        header = Header(schema, meta.get("batch", 0), meta.get("time", 0))
        path = snapshot_path(pool, header.batch)
        with replacing(path) as file:
            _write(db, file, header)
            file.flush()
            point("snapshot.written")
            if check(path + UNFINISHED) != header or not all(_frames(path + UNFINISHED)):
                raise IntegrityError(f"{path} is not what was written")
            point("snapshot.checked")
        point("snapshot.named")
    finally:
        db.execute("rollback")
        remove_unfinished(pool)
    return header.batch


class _Hashed:
    """A file that is hashed while it is written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.sha = file, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sha.update(data)
        return self._file.write(data)


def _write(db: sqlite3.Connection, file: BinaryIO, header: Header) -> None:
    out = _Hashed(file)
    out.write(_HEADER.pack(_MAGIC, _VERSION, header.schema, 0, header.batch, header.time))
    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    with compressor.stream_writer(out, closefd=False) as stream:  # type: ignore[arg-type]
        for frame in _tables(db):
            stream.write(_LENGTH.pack(len(frame)))
            stream.write(frame)
        stream.write(_LENGTH.pack(0))
    file.write(out.sha.digest())


def _tables(db: sqlite3.Connection) -> Iterator[bytes | bytearray]:
    """Every table as frames: its name and columns, then its rows, some at a time. Contents come first."""
    encoder = msgspec.msgpack.Encoder()
    found = db.execute("select name, sql from sqlite_master where type = 'table' and name not like 'sqlite_%'")
    for name, sql in sorted(found.fetchall(), key=lambda table: (table[0] != "content", table[0])):
        columns = ["id", "hash", "size"] if name == "content" else _columns(db, name)
        yield encoder.encode((name, columns))
        rows = bytearray(b"\xdd\0\0\0\0")  # an array of which the length is known at its end
        count = 0
        for row in db.execute(f"select {_selected(name, columns)} from {_quoted(name)} as t {_order(name, sql)}"):
            encoder.encode_into(row, rows, -1)
            count += 1
            if len(rows) > _FRAME:
                yield _counted(rows, count)
                rows, count = rows[:5], 0
        if count:
            yield _counted(rows, count)


def _counted(rows: bytearray, count: int) -> bytearray:
    rows[1:5] = count.to_bytes(4, "big")
    return rows


def _selected(table: str, columns: list[str]) -> str:
    return ", ".join(
        f"coalesce((select id from content where hash = t.{_quoted(column)}), t.{_quoted(column)})"
        if _names_content(table, column)
        else f"t.{_quoted(column)}"
        for column in columns
    )


def _order(table: str, sql: str) -> str:
    """Which rows, and in which order: tables without one of their own are read in the order of their numbers."""
    which = f"where key not in {_PLACES}" if table == "meta" else ""
    return which if "without rowid" in sql.lower() else f"{which} order by rowid"


def _names_content(table: str, column: str) -> bool:
    """Whether a column holds the hashes of contents."""
    return column == "hash" and table != "content"


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [name for _, name, *_ in db.execute(f"pragma table_info({_quoted(table)})")]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def check(path: str) -> Header:
    """Read a snapshot as a whole and hold it against its checksum. Raises IntegrityError, NewerFormatError, OSError."""
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        left = os.fstat(file.fileno()).st_size - _DIGEST
        start = file.read(_HEADER.size)
        if left < _HEADER.size or not start.startswith(_MAGIC):
            raise IntegrityError(f"{path} is not a snapshot")
        _, version, schema, _, batch, time = _HEADER.unpack(start)
        sha.update(start)
        left -= len(start)
        while left > 0 and (data := file.read(min(left, 1 << 20))):
            sha.update(data)
            left -= len(data)
        if file.read(_DIGEST) != sha.digest():
            raise IntegrityError(f"{path} is damaged: it is not what its checksum says")
    if version > _VERSION:
        raise NewerFormatError(
            f"{path} has version {version}; this mulligan knows {_VERSION}",
            hint="install the mulligan that wrote it, or a newer one",
        )
    return Header(schema, batch, time)


def _frames(path: str) -> Iterator[list[Any]]:
    """The frames of a whole snapshot, decoded."""
    decoder = msgspec.msgpack.Decoder(list[Any])
    with open(path, "rb") as file:
        file.seek(_HEADER.size)
        with zstandard.ZstdDecompressor().stream_reader(file, closefd=False) as stream:
            while length := _LENGTH.unpack(stream.read(_LENGTH.size))[0]:
                yield decoder.decode(stream.read(length))


def load(path: str, db: sqlite3.Connection) -> Header:
    """Put a snapshot into the empty tables of a catalogue, in one transaction: all but where contents and batches lie.

    Tables and columns that are no more are passed over; new columns have their default, else 0 or nothing. Raises
    IntegrityError, NewerFormatError.
    """
    header = check(path)
    db.execute("begin")
    try:
        statement = ""
        for frame in _frames(path):
            if frame and isinstance(frame[0], str):
                statement = _insertion(db, *frame)
            elif statement:
                db.executemany(statement, frame)
        db.execute("commit")
    except (sqlite3.Error, zstandard.ZstdError, msgspec.MsgspecError, struct.error, ValueError, TypeError) as error:
        if db.in_transaction:
            db.execute("rollback")
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            raise
        raise IntegrityError(f"{path} cannot be loaded: {error}") from error
    return header


def _insertion(db: sqlite3.Connection, table: str, columns: list[str]) -> str:
    """The statement that takes in a row of a snapshot; "" if the table is no more."""
    names, values = [], []
    for _, name, kind, not_null, default, _ in db.execute(f"pragma table_info({_quoted(table)})"):
        if name in columns:
            value = f"?{columns.index(name) + 1}"
            if _names_content(table, name):
                named = f"select hash from content where id = {value}"
                value = f"case typeof({value}) when 'integer' then ({named}) else {value} end"
        elif not_null and default is None:
            value = {"int": "0", "integer": "0", "text": "''", "blob": "x''"}[kind.lower()]
        else:
            continue
        names.append(_quoted(name))
        values.append(value)
    all_bound = f"?{len(columns)} is ?{len(columns)}"  # the last columns may be no more
    into = f"insert into {_quoted(table)} ({', '.join(names)})"
    return f"{into} select {', '.join(values)} where {all_bound}" if names else ""
