"""Start of a store: read the log from the watermark on, cut a torn tail, fold what the catalogue lacks."""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from mulligan.errors import IntegrityError, NewerFormatError
from mulligan.store import encoding, records
from mulligan.store.atomic import make_private_directory, write_file
from mulligan.store.fold import fold
from mulligan.store.log import is_full, release_reserve
from mulligan.store.schema import PRAGMAS, SCHEMA, SCHEMA_VERSION
from mulligan.store.segments import (
    RECORD_HEADER_SIZE,
    SEGMENT_HEADER_SIZE,
    Found,
    RecordKind,
    SegmentKind,
    read_segment_kind,
    scan,
    segment_numbers,
    segment_path,
    unpack_header,
    valid_records_behind,
)

log = logging.getLogger(__name__)
_OLDER = ".older"


@dataclass(slots=True)
class Replayed:
    """Where the log ends, and what was found on the way."""

    segment: int = 0
    end: int = 0
    batches: int = 0
    cut_bytes: int = 0
    damage: str = ""


def open_catalogue(path: str) -> sqlite3.Connection:
    """The write connection; tables are made in a new file. Raises NewerFormatError, IntegrityError.

    A catalogue of an older version is set aside, and a new one is begun: the log gives it everything.
    """
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
        if 0 < version < SCHEMA_VERSION:
            log.info("%s has schema %d and is folded anew", path, version)
            connection.close()  # which takes its write-ahead log in
            os.replace(path, path + _OLDER)
            return open_catalogue(path)
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


def judge_older(path: str, result: Replayed, number: int) -> None:
    """Remove what `open_catalogue` set aside, once the log has given all that it knew; `number`: the last batch folded.

    Otherwise it is kept, and says what is missing: it may be all there is of it.
    """
    if not os.path.exists(path + _OLDER):
        return
    known = 0
    try:
        connection = sqlite3.connect(path + _OLDER)
        try:
            (known,) = connection.execute("select value from meta where key = 'batch'").fetchone() or (0,)
        finally:
            connection.close()
    except sqlite3.Error as error:
        log.warning("%s cannot be read: %s", path + _OLDER, error)
    if number < known and not result.damage:
        result.damage = f"a catalogue of an older version knows {known} batches, and the log holds {number}"
    if not result.damage:
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(path + _OLDER + suffix)


def decode(found: Found) -> records.Batch:
    """The batch of a record. Raises IntegrityError if it was written by something else."""
    try:
        payload = encoding.decompress(found.header.encoding, found.payload, found.header.size)
        return records.decode_batch(payload)
    except (msgspec.MsgspecError, ValueError) as error:
        raise IntegrityError(f"the batch at offset {found.offset} cannot be read: {error}") from error


def replay(directory: str, connection: sqlite3.Connection, quarantine: str) -> Replayed:
    """Fold every batch behind the watermark, in order.

    Only the last group of the last log segment may be torn: it was never acknowledged, is copied to `quarantine` and is
    cut by the caller's reopening at `end`. Anything else that is broken is `damage`, and the store is to be read only.
    Raises NewerFormatError.
    """
    meta = dict(connection.execute("select key, value from meta where key in ('batch', 'segment', 'offset')"))
    result = Replayed(meta.get("segment", 0), meta.get("offset", 0))
    logs, unreadable = _log_segments(directory, result.segment)
    if result.segment and result.segment not in logs:
        result.damage = f"segment {result.segment} is missing: the catalogue knows batches that the log does not hold"
        return result
    replaying = _Replay(directory, connection, quarantine, result, meta.get("batch", 0))
    heads = {n: _first_batch(directory, n) for n in logs if n > result.segment}
    for segment in logs:
        again = min((first for n, first in heads.items() if n > segment and first), default=0)
        replaying.segment(segment, again)
        if result.damage:
            return result
    result.damage = unreadable
    return result


def _log_segments(directory: str, first: int) -> tuple[list[int], str]:
    """The log segments from `first` on, and what is wrong with one that may have been of them."""
    logs, unreadable = [], ""
    for number in segment_numbers(directory):
        if number < first:
            continue
        try:
            if read_segment_kind(directory, number) == SegmentKind.LOG:
                logs.append(number)
        except IntegrityError as error:
            # Its header is durable before anything is written behind it: a shorter one died while it was made.
            if os.path.getsize(segment_path(directory, number)) >= SEGMENT_HEADER_SIZE:
                unreadable = error.message
    return logs, unreadable


def _first_batch(directory: str, segment: int) -> int:
    """The number of a log segment's first batch, 0 if there is none that can be read."""
    fd = os.open(segment_path(directory, segment), os.O_RDONLY | os.O_CLOEXEC)
    try:
        for found in scan(fd, SEGMENT_HEADER_SIZE):
            if found.header.kind == RecordKind.BATCH:
                return decode(found).number
    except IntegrityError:
        return 0  # the replay of that segment will say so
    finally:
        os.close(fd)
    return 0


@dataclass(slots=True)
class _Replay:
    """A replay under way; `number` is the last batch that is folded."""

    directory: str
    connection: sqlite3.Connection
    quarantine: str
    result: Replayed
    number: int

    def segment(self, segment: int, again: int) -> None:
        """Fold the batches of one segment, but for one that stands `again` in a later segment."""
        result = self.result
        start = result.end if segment == result.segment else SEGMENT_HEADER_SIZE
        fd = os.open(segment_path(self.directory, segment), os.O_RDONLY | os.O_CLOEXEC)
        try:
            if (size := os.fstat(fd).st_size) < start:
                result.damage = f"segment {segment} ends at {size}, before the catalogue's watermark {start}"
                return
            result.segment, result.end = segment, start
            self._batches(fd, again)
        except IntegrityError as error:
            result.damage = error.message
        finally:
            os.close(fd)

    def _batches(self, fd: int, again: int) -> None:
        result, position = self.result, self.result.end
        for found in scan(fd, position):
            position = found.end
            if found.header.kind != RecordKind.BATCH:
                continue
            batch = decode(found)
            if batch.number == again:
                return  # its fsync failed here
            if batch.number != self.number + 1:
                raise IntegrityError(f"batch {self.number + 1} is missing: batch {batch.number} follows {self.number}")
            self._fold(batch, found.end)
            self.number, result.end = batch.number, found.end
            result.batches += 1
        if result.end < os.fstat(fd).st_size:
            self._tail(fd, position)

    def _fold(self, batch: records.Batch, end: int) -> None:
        """Fold one batch; a full disk costs the reserve. Raises IntegrityError if it cannot be folded."""
        try:
            try:
                fold(self.connection, batch, self.result.segment, end)
            except sqlite3.OperationalError as error:
                if not is_full(error) or not release_reserve(self.directory):
                    raise
                fold(self.connection, batch, self.result.segment, end)
        except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:
            raise IntegrityError(f"batch {batch.number} cannot be folded: {error}") from error

    def _tail(self, fd: int, position: int) -> None:
        """Judge what lies behind the last whole batch."""
        result = self.result
        # what lies within the broken record is its content: a stored file may itself hold records, of any store
        header = unpack_header(os.pread(fd, RECORD_HEADER_SIZE, position))
        within = RECORD_HEADER_SIZE + header.stored - 1 if header else 0
        for found in valid_records_behind(fd, position + within):
            if found.header.kind == RecordKind.BATCH and _is_later(found, position, self.number):
                raise IntegrityError(
                    f"segment {result.segment} is damaged at offset {position}, and later batches follow"
                )
        tail = os.pread(fd, os.fstat(fd).st_size - result.end, result.end)
        result.cut_bytes += len(tail)
        try:
            make_private_directory(self.quarantine)
            write_file(os.path.join(self.quarantine, f"{result.segment:06d}-{result.end}.tail"), tail)
        except OSError as error:  # the disk may be full: it was never acknowledged
            log.warning("segment %d: an unfinished batch could not be set aside: %s", result.segment, error)
            return
        log.warning("segment %d: %d bytes of an unfinished batch were set aside", result.segment, len(tail))


def _is_later(found: Found, position: int, number: int) -> bool:
    """Whether a batch's group began behind a break."""
    try:
        batch = decode(found)
    except IntegrityError:
        return False
    return position < batch.start <= found.offset and batch.number > number + 1
