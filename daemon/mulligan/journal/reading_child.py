"""The child process that reads, hashes and compresses for a scan: `python -m mulligan.journal.reading_child`.

It is started by exec, niced, and answers on standard output what it is asked on standard input: a request names a
directory and names in it, the answer says what each is and where its content was stored. Contents go to segments of the
child's own, made durable every 4 MiB and before each answer that needs it, so a kill loses only what was not answered.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import BinaryIO

import msgspec

from mulligan.clock import Clock
from mulligan.descent import open_directory, open_root
from mulligan.journal.reading import Reading, read_named, vanished
from mulligan.model import PURGED, Entry, Kind, Stat
from mulligan.store import encoding
from mulligan.store.catalogue import Catalogue, connect
from mulligan.store.contents import Contents
from mulligan.store.encoding import Encoded
from mulligan.store.room import NO_ROOM
from mulligan.store.segments import (
    RECORD_HEADER_SIZE,
    SEGMENT_LIMIT,
    RecordKind,
    SegmentKind,
    SegmentWriter,
    pack_record,
)

_LENGTH = struct.Struct("<I")
_SYNC_BYTES = 4 << 20
_NICENESS = 5


#: So many of them read for one scan.
CHILDREN = 2


class Setup(msgspec.Struct, array_like=True):
    """The first frame: where everything is. `correction` is what journal time is ahead of the wall clock.

    A segment is left at `segment_limit` bytes, and nothing is stored, for this reason, once the child has used up its
    `room`.
    """

    root: bytes
    pool: str
    catalogue: str
    max_file_bytes: int
    correction: int
    segment_limit: int = SEGMENT_LIMIT
    room: int = 1 << 62
    no_room: str = NO_ROOM


class Request(msgspec.Struct, array_like=True):
    """Names to be read, by directory."""

    number: int
    groups: list[tuple[bytes, list[bytes]]]


class Stored(msgspec.Struct, array_like=True):
    """A content that the child has stored."""

    hash: bytes
    size: int
    encoding: int
    segment: int
    offset: int
    stored: int


class Item(msgspec.Struct, array_like=True):
    """What one name was, and the contents that were stored for it."""

    entry: Entry
    stat: Stat
    torn: bool
    contents: list[Stored]


class Answer(msgspec.Struct, array_like=True):
    """What the names of a request were, in their order."""

    number: int
    items: list[Item]


def read_frame(stream: BinaryIO) -> bytes | None:
    """One length-prefixed frame, or None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    return data if len(data) == length else None


def frame(data: bytes) -> bytes:
    """A frame around some bytes."""
    return _LENGTH.pack(len(data)) + data


class _Pool:
    """The child's own segments."""

    def __init__(self, setup: Setup, catalogue: Catalogue, contents: Contents) -> None:
        self._directory, self._limit, self._room = setup.pool, setup.segment_limit, setup.room
        self._no_room = setup.no_room
        self._purged, self._contents = set(catalogue.purged()), contents
        self._writer: SegmentWriter | None = None
        self._seen: set[bytes] = set()
        self._unsynced = 0

    def store(self, encoded: Encoded) -> Stored:
        """Append a content that is new."""
        self._seen.add(encoded.hash)
        writer = self._open()
        offset = writer.offset
        writer.append(pack_record(RecordKind.CONTENT, encoded.encoding, encoded.payload, encoded.size, encoded.hash))
        self._unsynced += len(encoded.payload)
        self._room -= len(encoded.payload) + RECORD_HEADER_SIZE
        if self._unsynced >= _SYNC_BYTES:
            self.sync()
        return Stored(encoded.hash, encoded.size, encoded.encoding, writer.number, offset, len(encoded.payload))

    def wants(self, digest: bytes) -> bool:
        """Whether a content is new, or to be stored again because it is damaged."""
        return digest not in self._seen and not self._contents.holds(digest)

    def refuses(self, digest: bytes, size: int) -> str:
        """Why a content that is new may not be stored; "" if it may, although nothing of it could be compressed."""
        if digest in self._purged:  # of what is purged meanwhile the log takes nothing
            return PURGED
        return self._no_room if self._room < size + RECORD_HEADER_SIZE else ""

    def _open(self) -> SegmentWriter:
        if self._writer is not None and self._writer.offset >= self._limit:
            self.close()
        if self._writer is None:
            self._writer = SegmentWriter.create_next(self._directory, SegmentKind.POOL)
        return self._writer

    def sync(self) -> None:
        """Make everything durable."""
        if self._writer is not None and self._unsynced:
            self._writer.sync()
            self._unsynced = 0

    def close(self) -> None:
        """Make everything durable and close the segment."""
        self.sync()
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the requests end."""
    first = read_frame(requests)
    if first is None:
        return
    setup = msgspec.msgpack.decode(first, type=Setup)
    clock = Clock(correction=setup.correction)
    catalogue = Catalogue(connect(setup.catalogue))
    contents = Contents(setup.pool, lambda: catalogue)
    pool = _Pool(setup, catalogue, contents)
    root_fd = open_root(setup.root)
    try:
        while (data := read_frame(requests)) is not None:
            request = msgspec.msgpack.decode(data, type=Request)
            items: list[Item] = []
            for directory, names in request.groups:
                items += _group(root_fd, directory, names, clock, setup.max_file_bytes, pool)
            pool.sync()
            answers.write(frame(msgspec.msgpack.encode(Answer(request.number, items))))
            answers.flush()
    finally:
        os.close(root_fd)
        pool.close()
        contents.close()
        catalogue.close()


def _group(root_fd: int, directory: bytes, names: list[bytes], clock: Clock, limit: int, pool: _Pool) -> list[Item]:
    try:
        fd = open_directory(root_fd, directory)
    except OSError as error:
        reading = vanished(error, clock.look())
        return [Item(reading.entry, reading.stat, False, []) for _ in names]
    try:
        return [_item(fd, name, clock, limit, pool) for name in names]
    finally:
        os.close(fd)


def _item(fd: int, name: bytes, clock: Clock, limit: int, pool: _Pool) -> Item:
    stored: list[Stored] = []
    refused = ""

    def keep_block(digest: bytes, block: bytes) -> None:
        nonlocal refused
        if pool.wants(digest):
            refused = refused or pool.refuses(digest, len(block))
            if not refused:
                stored.append(pool.store(encoding.encode(block, digest)))

    reading: Reading = read_named(fd, name, clock.look, limit, keep_block)
    entry = reading.entry
    if entry.kind == Kind.FILE and pool.wants(entry.hash):
        if refused := refused or pool.refuses(entry.hash, len(reading.data or b"")):
            return Item(Entry(Kind.UNKNOWN, reason=refused), reading.stat, False, stored)
        if reading.blocks is not None:
            stored.append(pool.store(encoding.block_list(entry.hash, entry.size, reading.blocks)))
        elif reading.data is not None:
            stored.append(pool.store(encoding.encode(reading.data, entry.hash)))
    return Item(entry, reading.stat, reading.torn, stored)


def main() -> int:
    """Serve the parent; it ends the child by closing the requests."""
    os.nice(_NICENESS)
    os.umask(0o077)
    # not sys.stdout: with PYTHONUNBUFFERED a signal may cut what it writes
    with open(sys.stdout.fileno(), "wb", closefd=False) as answers:
        serve(sys.stdin.buffer, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
