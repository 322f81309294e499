"""Reading the log: fold the batches that a catalogue lacks, judge what is broken, set a torn tail aside."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from mulligan.errors import IntegrityError
from mulligan.store import encoding, records
from mulligan.store.atomic import make_private_directory, write_file
from mulligan.store.fold import fold
from mulligan.store.log import is_full, release_reserve
from mulligan.store.segments import (
    RECORD_HEADER_SIZE,
    SEGMENT_HEADER_SIZE,
    Found,
    RecordKind,
    SegmentKind,
    read_record,
    read_segment_kind,
    scan,
    segment_numbers,
    segment_path,
    unpack_header,
    valid_records_behind,
)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Replayed:
    """Where the log ends, and what was found on the way. `behind`: all that is wrong is that it ends too early."""

    segment: int = 0
    end: int = 0
    batches: int = 0
    cut_bytes: int = 0
    damage: str = ""
    behind: bool = False


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
    Without a place in the watermark, as a snapshot leaves it, the place is found by the numbers of batches; what is
    broken before it does not matter. Without a `quarantine` somebody else may be writing: the end is not judged.
    Raises NewerFormatError.
    """
    meta = dict(connection.execute("select key, value from meta where key in ('batch', 'segment', 'offset')"))
    result, number = Replayed(meta.get("segment", 0), meta.get("offset", 0)), meta.get("batch", 0)
    placed = result.segment > 0
    logs, unreadable = log_segments(directory, result.segment)
    if placed and result.segment not in logs:
        result.damage = f"segment {result.segment} is missing: the catalogue knows batches that the log does not hold"
        result.behind = True
        return result
    replaying = _Replay(directory, connection, quarantine, result, number, number if placed else 0)
    heads = {n: first for n in logs if n > result.segment and (first := first_batch(directory, n))}
    for segment in logs:
        again = min((first for n, first in heads.items() if n > segment), default=0)
        if 0 < again <= number + 1:
            replaying.seen = max(replaying.seen, again - 1)
            continue  # all that counts in it is known
        replaying.segment(segment, again)
        if result.damage:
            return result
        number = replaying.number
    # the batches of one that others follow would be missed
    result.damage = next((words for n, words in unreadable.items() if n > max(heads, default=0)), "")
    if not result.damage and replaying.seen < number:
        result.damage = f"the log ends with batch {replaying.seen}, and the catalogue knows {number}"
        result.behind = True
    if not placed and not result.damage and number:
        place = [(replaying.last[0], "segment"), (replaying.last[1], "offset")]
        connection.executemany("insert or replace into meta (value, key) values (?, ?)", place)
    return result


def log_segments(directory: str, first: int = 0) -> tuple[list[int], dict[int, str]]:
    """The log segments from `first` on, and what is wrong with those that may be of them."""
    logs: list[int] = []
    unreadable: dict[int, str] = {}
    for number in segment_numbers(directory):
        if number < first:
            continue
        try:
            if read_segment_kind(directory, number) == SegmentKind.LOG:
                logs.append(number)
        except FileNotFoundError:
            continue  # its contents lie elsewhere by now
        except OSError as error:
            unreadable[number] = str(error)
        except IntegrityError as error:
            # Its header is durable before anything is written behind it: a shorter one died while it was made.
            if os.path.getsize(segment_path(directory, number)) >= SEGMENT_HEADER_SIZE:
                unreadable[number] = error.message
    return logs, unreadable


def first_batch(directory: str, segment: int) -> int:
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
    """A replay under way: `number` is the last batch that is folded, `seen` the last that was met and counts."""

    directory: str
    connection: sqlite3.Connection
    quarantine: str
    result: Replayed
    number: int
    seen: int
    last: tuple[int, int] = (0, 0)

    def segment(self, segment: int, again: int) -> None:
        """Fold the batches of one segment, up to the one that stands `again` at the beginning of a later segment."""
        result = self.result
        start = result.end if segment == result.segment else SEGMENT_HEADER_SIZE
        fd = os.open(segment_path(self.directory, segment), os.O_RDONLY | os.O_CLOEXEC)
        try:
            if (size := os.fstat(fd).st_size) < start:
                result.damage = f"segment {segment} ends at {size}, before the catalogue's watermark {start}"
                result.behind = True
                return
            result.segment, result.end = segment, start
            self._batches(fd, again)
        except IntegrityError as error:
            result.damage = error.message
        finally:
            os.close(fd)

    def _batches(self, fd: int, again: int) -> None:
        result, position = self.result, self.result.end
        for found in self._records(fd, position):
            position = found.end
            if found.header.kind != RecordKind.BATCH:
                continue
            batch = decode(found)
            if again and batch.number >= again:
                return  # its fsync failed here, or the store was rebuilt from before it
            if batch.number > self.number:
                if batch.number != self.number + 1:
                    missing = f"batch {self.number + 1} is missing: batch {batch.number} follows {self.number}"
                    raise IntegrityError(missing)
                self._fold(batch, found.end)
                self.number = batch.number
                result.batches += 1
            self.seen, result.end = batch.number, found.end
            self.last = (result.segment, result.end)
        if result.end < os.fstat(fd).st_size and self.number + 1 != again:
            self._tail(fd, position)

    def _records(self, fd: int, offset: int) -> Iterator[Found]:
        """The valid records up to a break; one among batches that are known already is passed over."""
        while True:
            found = read_record(fd, offset)
            if found is None and self.seen < self.number:
                found = next((later for later in _behind(fd, offset) if _is_later(later, offset, 0)), None)
            if found is None:
                return
            yield found
            offset = found.end

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
        if not self.quarantine:
            return
        for found in _behind(fd, position):
            if _is_later(found, position, self.number + 1):
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


def _behind(fd: int, position: int) -> Iterator[Found]:
    """The valid records behind a break."""
    # what lies within the broken record is its content: a stored file may itself hold records, of any store
    header = unpack_header(os.pread(fd, RECORD_HEADER_SIZE, position))
    within = RECORD_HEADER_SIZE + header.stored - 1 if header else 0
    return valid_records_behind(fd, position + within)


def _is_later(found: Found, position: int, number: int) -> bool:
    """Whether it is a batch behind a number, whose group began behind a break."""
    if found.header.kind != RecordKind.BATCH:
        return False
    try:
        batch = decode(found)
    except IntegrityError:
        return False
    return position < batch.start <= found.offset and batch.number > number
