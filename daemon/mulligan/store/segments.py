"""Segments: append-only files of checksummed records. See FORMAT.md.

A *group* is the records of one commit: contents, then the batch record. It is written and fsynced before the next
group begins, so only the last group of the log can be torn; anything broken before that is damage.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from mulligan.errors import IntegrityError, NewerFormatError
from mulligan.faults import point
from mulligan.store.atomic import sync_directory, write_all

SEGMENT_LIMIT = 64 << 20
_SEGMENT_MAGIC = b"MULLISEG"
FORMAT_VERSION = 1
_SEGMENT_HEADER = struct.Struct("<8sHB5x")
SEGMENT_HEADER_SIZE = _SEGMENT_HEADER.size
RECORD_MAGIC = b"\x8dRec"
_RECORD = struct.Struct("<4sBBHIQ32s32sI")
RECORD_HEADER_SIZE = _RECORD.size + 4
_NAME = re.compile(r"(\d{6,})\.seg\Z")


class SegmentKind(IntEnum):
    """Who writes a segment."""

    LOG = 1  # contents and batches, written by the log alone
    POOL = 2  # contents only, written by a child process


class RecordKind(IntEnum):
    """What a record is."""

    CONTENT = 1
    BATCH = 2


@dataclass(frozen=True, slots=True)
class RecordHeader:
    """The fixed part of a record: `size` is the payload's length when decoded, `stored` as it lies in the file."""

    kind: int
    encoding: int
    depth: int
    stored: int
    size: int
    hash: bytes
    base: bytes
    checksum: int


def pack_record(
    kind: int, encoding: int, payload: bytes, size: int, digest: bytes, base: bytes = b"", depth: int = 0
) -> bytes:
    """A whole record: header, the header's own checksum, payload."""
    head = _RECORD.pack(
        RECORD_MAGIC, kind, encoding, depth, len(payload), size, digest, base.ljust(32, b"\0"), zlib.crc32(payload)
    )
    return b"".join((head, zlib.crc32(head).to_bytes(4, "little"), payload))


def unpack_header(data: bytes) -> RecordHeader | None:
    """The header at the start of `data`, or None if there is no whole one."""
    if len(data) < RECORD_HEADER_SIZE or not data.startswith(RECORD_MAGIC):
        return None
    head = data[: _RECORD.size]
    if zlib.crc32(head) != int.from_bytes(data[_RECORD.size : RECORD_HEADER_SIZE], "little"):
        return None
    _, kind, encoding, depth, stored, size, digest, base, checksum = _RECORD.unpack(head)
    return RecordHeader(kind, encoding, depth, stored, size, digest, base, checksum)


def segment_path(directory: str, number: int) -> str:
    """The file of a segment."""
    return os.path.join(directory, f"{number:06d}.seg")


def segment_numbers(directory: str) -> list[int]:
    """The numbers of all segments in a directory, rising."""
    return sorted(int(match[1]) for name in os.listdir(directory) if (match := _NAME.match(name)))


def read_segment_kind(directory: str, number: int) -> SegmentKind:
    """The kind in a segment's header. Raises NewerFormatError, or IntegrityError if it is not a segment."""
    with open(segment_path(directory, number), "rb") as file:
        data = file.read(SEGMENT_HEADER_SIZE)
    if len(data) < SEGMENT_HEADER_SIZE or not data.startswith(_SEGMENT_MAGIC):
        raise IntegrityError(f"{segment_path(directory, number)} is not a segment", hint="mulligan verify")
    _, version, kind = _SEGMENT_HEADER.unpack(data)
    if version > FORMAT_VERSION:
        raise NewerFormatError(
            f"the store in {directory} has format {version}; this mulligan knows {FORMAT_VERSION}",
            hint="install the mulligan that wrote it, or a newer one",
        )
    try:
        return SegmentKind(kind)
    except ValueError:
        raise IntegrityError(f"{segment_path(directory, number)} is not a segment", hint="mulligan verify") from None


class SegmentWriter:
    """Appends to one segment; not thread-safe. `offset` is the end of what was written whole."""

    def __init__(self, directory: str, number: int, fd: int, offset: int) -> None:
        self.directory, self.number, self.offset = directory, number, offset
        self._fd = fd

    @classmethod
    def create(cls, directory: str, number: int, kind: SegmentKind) -> SegmentWriter:
        """A new, durable, empty segment. Raises FileExistsError if the number is taken."""
        path = segment_path(directory, number)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)  # as long as it is written, nobody takes it for rubbish
            write_all(fd, _SEGMENT_HEADER.pack(_SEGMENT_MAGIC, FORMAT_VERSION, kind))
            os.fsync(fd)
            sync_directory(directory)
        except OSError:
            os.close(fd)
            os.unlink(path)
            raise
        return cls(directory, number, fd, SEGMENT_HEADER_SIZE)

    @classmethod
    def create_next(cls, directory: str, kind: SegmentKind) -> SegmentWriter:
        """A new segment behind all others; other processes may be doing the same."""
        while True:
            try:
                return cls.create(directory, max(segment_numbers(directory), default=0) + 1, kind)
            except FileExistsError:
                continue

    @classmethod
    def nowhere(cls, directory: str) -> SegmentWriter:
        """The writer of a store that may only be read: it has no file."""
        return cls(directory, 0, -1, 0)

    @classmethod
    def reopen(cls, directory: str, number: int, end: int) -> SegmentWriter:
        """Go on behind `end`; whatever lies there is cut off."""
        fd = os.open(segment_path(directory, number), os.O_WRONLY | os.O_CLOEXEC)
        if os.fstat(fd).st_size > end:
            os.ftruncate(fd, end)
            os.fsync(fd)
        return cls(directory, number, fd, end)

    def append(self, data: bytes) -> None:
        """Write behind `offset`, not yet durable. After an error the file ends at the old `offset` again."""
        try:
            os.lseek(self._fd, self.offset, os.SEEK_SET)
            point("segment.write")
            write_all(self._fd, data)
        except OSError:
            os.ftruncate(self._fd, self.offset)
            raise
        self.offset += len(data)

    def sync(self) -> None:
        """Make everything appended durable. After an error nothing is known of the file's state: do not go on in it."""
        point("segment.sync")
        os.fdatasync(self._fd)

    def cut(self, offset: int) -> None:
        """Take back, durably, what was written behind `offset`. Raises OSError; the file may be cut all the same."""
        os.ftruncate(self._fd, offset)
        self.offset = offset
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@dataclass(frozen=True, slots=True)
class Found:
    """A record met by a scan, with its payload's place and bytes."""

    header: RecordHeader
    offset: int
    payload: bytes

    @property
    def end(self) -> int:
        """The offset behind the record."""
        return self.offset + RECORD_HEADER_SIZE + self.header.stored


def read_record(fd: int, offset: int) -> Found | None:
    """The record at an offset if header and payload agree with their checksums, else None."""
    header = unpack_header(os.pread(fd, RECORD_HEADER_SIZE, offset))
    if header is None:
        return None
    payload = os.pread(fd, header.stored, offset + RECORD_HEADER_SIZE)
    if len(payload) != header.stored or zlib.crc32(payload) != header.checksum:
        return None
    return Found(header, offset, payload)


def scan(fd: int, offset: int) -> Iterator[Found]:
    """The valid records from `offset` on, up to the first that is not."""
    while (found := read_record(fd, offset)) is not None:
        yield found
        offset = found.end


def valid_records_behind(fd: int, offset: int) -> Iterator[Found]:
    """The valid records that begin anywhere behind `offset`: what tells a torn tail from damage in the middle."""
    size = os.fstat(fd).st_size
    position = offset + 1
    window = 1 << 20
    while position < size:
        data = os.pread(fd, window, position)
        index = data.find(RECORD_MAGIC)
        if index < 0:
            position += max(1, len(data) - len(RECORD_MAGIC) + 1)
            continue
        found = read_record(fd, position + index)
        if found is None:
            position += index + 1
        else:
            yield found
            position = found.end


def records_in(directory: str, number: int) -> Iterator[tuple[int, RecordHeader]]:
    """(offset, header) of the records of a segment, their payloads unread, up to the first that is none."""
    fd = os.open(segment_path(directory, number), os.O_RDONLY | os.O_CLOEXEC)
    try:
        offset = SEGMENT_HEADER_SIZE
        while (header := unpack_header(os.pread(fd, RECORD_HEADER_SIZE, offset))) is not None:
            yield offset, header
            offset += RECORD_HEADER_SIZE + header.stored
    finally:
        os.close(fd)
