"""Start of a store: read the log from the watermark on, cut a torn tail, fold what the catalogue lacks."""

from __future__ import annotations

import logging
import os
import sqlite3
from dataclasses import dataclass

import msgspec

from mulligan.errors import IntegrityError, NewerFormatError
from mulligan.store import encoding, records
from mulligan.store.atomic import make_private_directory, write_file
from mulligan.store.fold import fold
from mulligan.store.schema import PRAGMAS, SCHEMA, SCHEMA_VERSION
from mulligan.store.segments import (
    SEGMENT_HEADER_SIZE,
    Found,
    RecordKind,
    SegmentKind,
    read_segment_kind,
    scan,
    segment_numbers,
    segment_path,
    valid_records_behind,
)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Replayed:
    """Where the log ends, and what was found on the way."""

    segment: int = 0
    end: int = 0
    batches: int = 0
    cut_bytes: int = 0
    damage: str = ""


def open_catalogue(path: str) -> sqlite3.Connection:
    """The write connection; tables are made in a new file. Raises NewerFormatError, IntegrityError."""
    if not os.path.exists(path):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        (version,) = connection.execute("pragma user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise NewerFormatError(
                f"{path} has schema {version}; this mulligan knows {SCHEMA_VERSION}",
                hint="install the mulligan that wrote it, or a newer one",
            )
        connection.executescript(PRAGMAS)
        if version == 0:
            connection.executescript(f"begin immediate; {SCHEMA} pragma user_version = {SCHEMA_VERSION}; commit;")
    except sqlite3.DatabaseError as error:
        connection.close()
        raise IntegrityError(
            f"{path} cannot be read: {error}", hint="move it aside; it is made again from the log"
        ) from error
    except NewerFormatError:
        connection.close()
        raise
    return connection


def decode(found: Found) -> records.Batch:
    """The batch of a record. Raises IntegrityError if it was written by something else."""
    try:
        payload = encoding.decompress(found.header.encoding, found.payload, found.header.size)
        return records.decode_batch(payload)
    except msgspec.MsgspecError as error:
        raise IntegrityError(f"the batch at offset {found.offset} cannot be read: {error}") from error


def replay(directory: str, connection: sqlite3.Connection, quarantine: str) -> Replayed:
    """Fold every batch behind the watermark, in order.

    Only the last group of the last log segment may be torn: it was never acknowledged, is copied to `quarantine` and is
    cut by the caller's reopening at `end`. Anything else that is broken is `damage`, and the store is to be read only.
    """
    meta = dict(connection.execute("select key, value from meta where key in ('batch', 'segment', 'offset')"))
    result = Replayed(meta.get("segment", 0), meta.get("offset", 0))
    number = meta.get("batch", 0)
    logs = [n for n in segment_numbers(directory) if read_segment_kind(directory, n) == SegmentKind.LOG]
    if result.segment and result.segment not in logs:
        result.damage = f"segment {result.segment} is missing: the catalogue knows batches that the log does not hold"
        return result
    for segment in [n for n in logs if n >= result.segment]:
        start = result.end if segment == result.segment else SEGMENT_HEADER_SIZE
        fd = os.open(segment_path(directory, segment), os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            if size < start:
                result.damage = f"segment {segment} ends at {size}, before the catalogue's watermark {start}"
                return result
            result.segment, result.end = segment, start
            position = start
            for found in scan(fd, start):
                position = found.end
                if found.header.kind != RecordKind.BATCH:
                    continue
                batch = decode(found)
                if batch.number != number + 1:
                    result.damage = f"batch {number + 1} is missing: batch {batch.number} follows {number}"
                    return result
                fold(connection, batch, segment, found.end)
                number, result.end = batch.number, found.end
                result.batches += 1
            if result.end < size:
                _tail(fd, segment, position, result, quarantine)
                if result.damage:
                    return result
        finally:
            os.close(fd)
    return result


def _tail(fd: int, segment: int, position: int, result: Replayed, quarantine: str) -> None:
    """Judge what lies behind the last whole batch."""
    for found in valid_records_behind(fd, position):
        if found.header.kind == RecordKind.BATCH and decode(found).start > position:
            result.damage = f"segment {segment} is damaged at offset {position}, and later batches follow"
            return
    tail = os.pread(fd, os.fstat(fd).st_size - result.end, result.end)
    result.cut_bytes += len(tail)
    make_private_directory(quarantine)
    write_file(os.path.join(quarantine, f"{segment:06d}-{result.end}.tail"), tail)
    log.warning("segment %d: %d bytes of an unfinished batch were set aside", segment, len(tail))
