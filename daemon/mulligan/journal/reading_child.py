"""The child process that reads, hashes and compresses for a scan: `python -m mulligan.journal.reading_child`.

It is started by exec, niced, and answers on standard output what it is asked on standard input: a request names a
directory and names in it, the answer says what each is and where its content was stored. Contents go to segments of the
child's own and are durable before the answer that names them, so a kill loses only what was not answered.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import msgspec

from mulligan.child import frame, read_frame, standard_output
from mulligan.clock import Clock
from mulligan.descent import open_directory, open_root
from mulligan.journal.reading import Reading, read_named, vanished
from mulligan.journal.reading_segments import Answers, ReadingSegments
from mulligan.model import Entry, Kind, Stat
from mulligan.store import encoding
from mulligan.store.catalogue import Catalogue, connect
from mulligan.store.contents import Contents
from mulligan.store.placed import Placed
from mulligan.store.room import NO_ROOM
from mulligan.store.segments import SEGMENT_LIMIT

_NICENESS = 5
#: Files that are read before it is asked what of them is stored: a query for each takes longer than reading it.
_TOGETHER, _TOGETHER_BYTES = 100, 1 << 20

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


class Item(msgspec.Struct, array_like=True):
    """What one name was, and the contents that were stored for it."""

    entry: Entry
    stat: Stat
    torn: bool
    contents: list[Placed]


class Answer(msgspec.Struct, array_like=True):
    """What the names of a request were, in their order."""

    number: int
    items: list[Item]


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the requests end."""
    first = read_frame(requests)
    if first is None:
        return
    setup = msgspec.msgpack.decode(first, type=Setup)
    catalogue = Catalogue(connect(setup.catalogue))
    contents = Contents(setup.pool, lambda: catalogue)
    root_fd = open_root(setup.root)
    try:
        with Answers(answers) as durable:
            segments = ReadingSegments(
                setup.pool,
                catalogue,
                contents,
                durable,
                limit=setup.segment_limit,
                room=setup.room,
                no_room=setup.no_room,
            )
            reader = _Reader(root_fd, setup, segments)
            while (data := read_frame(requests)) is not None:
                request = msgspec.msgpack.decode(data, type=Request)
                items = reader.items(request.groups)
                segments.answer(frame(msgspec.msgpack.encode(Answer(request.number, items))))
            segments.close()
    finally:
        os.close(root_fd)
        contents.close()
        catalogue.close()


class _Read(NamedTuple):
    """A name that was read: its blocks that were stored on the way, and why others were not, if any were not."""

    reading: Reading
    blocks: list[Placed]
    refused: str = ""


class _Reader:
    """Reads some files, then asks for all of them at once whether their contents are stored already."""

    def __init__(self, root_fd: int, setup: Setup, segments: ReadingSegments) -> None:
        self._root_fd, self._setup, self._segments = root_fd, setup, segments
        self._now = Clock(correction=setup.correction).look

    def items(self, groups: list[tuple[bytes, list[bytes]]]) -> list[Item]:
        """What the names are, in their order; their contents are stored."""
        items: list[Item] = []
        read: list[_Read] = []
        size = 0
        for one in self._each(groups):
            read.append(one)
            size += len(one.reading.data or b"")
            if len(read) >= _TOGETHER or size >= _TOGETHER_BYTES:
                items += self._store(read)
                read, size = [], 0
        return items + self._store(read)

    def _each(self, groups: list[tuple[bytes, list[bytes]]]) -> Iterator[_Read]:
        for directory, names in groups:
            try:
                fd = open_directory(self._root_fd, directory)
            except OSError as error:
                gone = _Read(vanished(error, self._now()), [])
                yield from [gone] * len(names)
                continue
            try:
                for name in names:
                    yield self._read(fd, name)
            finally:
                os.close(fd)

    def _read(self, fd: int, name: bytes) -> _Read:
        blocks: list[Placed] = []
        refused = ""

        def keep_block(digest: bytes, block: bytes) -> None:
            nonlocal refused
            self._segments.look_up([digest])
            if self._segments.wants(digest):
                refused = refused or self._refusal(digest, block)
                if not refused:
                    blocks.append(self._segments.store(encoding.encode(block, digest)))

        reading = read_named(fd, name, self._now, self._setup.max_file_bytes, keep_block)
        return _Read(reading, blocks, refused)

    def _refusal(self, digest: bytes, data: bytes | None) -> str:
        return self._segments.refuses(digest, len(data or b""))

    def _store(self, read: list[_Read]) -> list[Item]:
        self._segments.look_up([one.reading.entry.hash for one in read if one.reading.entry.kind == Kind.FILE])
        return [self._item(*one) for one in read]

    def _item(self, reading: Reading, stored: list[Placed], refused: str) -> Item:
        entry = reading.entry
        if entry.kind == Kind.FILE and self._segments.wants(entry.hash):
            if refused := refused or self._refusal(entry.hash, reading.data):
                return Item(Entry(Kind.UNKNOWN, reason=refused), reading.stat, False, stored)
            if reading.blocks is not None:
                stored.append(self._segments.store(encoding.block_list(entry.hash, entry.size, reading.blocks)))
            elif reading.data is not None:
                stored.append(self._segments.store(encoding.encode(reading.data, entry.hash)))
        return Item(entry, reading.stat, reading.torn, stored)


def main() -> int:
    """Serve the parent; it ends the child by closing the requests."""
    os.nice(_NICENESS)
    os.umask(0o077)
    with standard_output() as answers:
        serve(sys.stdin.buffer, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
