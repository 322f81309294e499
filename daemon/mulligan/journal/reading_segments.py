"""Where a reading child stores contents: segments of its own, made durable by a thread while the child reads on.

A file's record is three kilobytes, and a wait for the disk takes as long as reading fifty files: records are written
together, and whoever waits for the disk is not whoever reads.
"""

from __future__ import annotations

import os
import queue
import threading
import traceback
from collections.abc import Collection
from typing import BinaryIO

from mulligan.model import PURGED
from mulligan.store.catalogue import Catalogue
from mulligan.store.contents import Contents
from mulligan.store.encoding import Encoded
from mulligan.store.placed import Placed
from mulligan.store.segments import RECORD_HEADER_SIZE, RecordKind, SegmentKind, SegmentWriter, pack_record

_WRITE_BYTES = 1 << 20


class Answers:
    """Says what was stored once it is durable, in the order of the calls, from a thread of its own.

    It ends when the `with` block is left, behind everything that was given. If a write fails, the process ends with
    status 1: what it did not answer is asked again by whoever waits.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        # (segment to be made durable, answer; or None if the segment is to be closed)
        self._queue: queue.SimpleQueue[tuple[SegmentWriter | None, bytes | None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="answers", daemon=True)

    def __enter__(self) -> Answers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.put(None)
        self._thread.join()

    def give(self, data: bytes, writer: SegmentWriter | None) -> None:
        """Write an answer when all that was appended to a segment is durable."""
        self._queue.put((writer, data))

    def leave(self, writer: SegmentWriter) -> None:
        """Make a segment durable and close it."""
        self._queue.put((writer, None))

    def _run(self) -> None:
        try:
            while self._some():
                pass
        except BaseException:  # noqa: BLE001 - the thread's boundary; the other one may wait for a request for ever
            traceback.print_exc()
            os._exit(1)

    def _some(self) -> bool:
        """Take everything that waits, each segment made durable once; whether more may come."""
        given = [self._queue.get()]
        while not self._queue.empty():
            given.append(self._queue.get())
        some = [one for one in given if one is not None]
        for segment in dict.fromkeys(writer for writer, _ in some if writer is not None):
            segment.sync()
        for writer, data in some:
            if data is not None:
                self._stream.write(data)
                self._stream.flush()
            elif writer is not None:
                writer.close()
        return len(some) == len(given)


class ReadingSegments:
    """The segments that one child fills.

    A segment is left at `limit` bytes; `room` bytes are all that may be taken, and `no_room` is said of what is more.
    """

    def __init__(
        self,
        directory: str,
        catalogue: Catalogue,
        contents: Contents,
        answers: Answers,
        *,
        limit: int,
        room: int,
        no_room: str,
    ) -> None:
        self._directory, self._limit, self._room, self._no_room = directory, limit, room, no_room
        self._contents, self._answers = contents, answers
        self._purged = set(catalogue.purged())
        self._writer: SegmentWriter | None = None
        self._stored: set[bytes] = set()
        self._records: list[bytes] = []
        self._waiting = 0

    def look_up(self, digests: Collection[bytes]) -> None:
        """Find out which of a few hundred contents are stored already, so that `wants` can tell."""
        self._stored.update(self._contents.held({digest for digest in digests if digest not in self._stored}))

    def wants(self, digest: bytes) -> bool:
        """Whether a content that was looked up is new, or to be stored again because it is damaged."""
        return digest not in self._stored

    def refuses(self, digest: bytes, size: int) -> str:
        """Why a content that is new may not be stored; "" if it may, although nothing of it could be compressed."""
        if digest in self._purged:  # of what is purged meanwhile the log takes nothing
            return PURGED
        return self._no_room if self._room < size + RECORD_HEADER_SIZE else ""

    def store(self, encoded: Encoded) -> Placed:
        """Append a content that is new; it is written with others. Raises OSError."""
        self._stored.add(encoded.hash)
        writer = self._open()
        record = pack_record(RecordKind.CONTENT, encoded.encoding, encoded.payload, encoded.size, encoded.hash)
        offset = writer.offset + self._waiting
        self._records.append(record)
        self._waiting += len(record)
        self._room -= len(record)
        if self._waiting >= _WRITE_BYTES:
            self._write()
        return Placed(encoded.hash, encoded.size, encoded.encoding, writer.number, offset, len(encoded.payload))

    def _open(self) -> SegmentWriter:
        if self._writer is not None and self._writer.offset + self._waiting >= self._limit:
            self.close()
        if self._writer is None:
            self._writer = SegmentWriter.create_next(self._directory, SegmentKind.POOL)
        return self._writer

    def _write(self) -> None:
        if self._writer is not None and self._records:
            self._writer.append(b"".join(self._records))
            self._records, self._waiting = [], 0

    def answer(self, data: bytes) -> None:
        """Give an answer that names what was stored. Raises OSError."""
        self._write()
        self._answers.give(data, self._writer)

    def close(self) -> None:
        """Write what is left; the segment is closed once it is durable. Raises OSError."""
        self._write()
        if self._writer is not None:
            self._answers.leave(self._writer)
            self._writer = None
