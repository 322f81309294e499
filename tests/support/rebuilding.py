"""Stores to lose a catalogue of: every kind of fact, encoding and segment; and what may happen to their segments."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from mulligan.model import Entry
from mulligan.store.encoding import block_list, encode
from mulligan.store.log import Placed
from mulligan.store.records import AnyFact
from mulligan.store.replay import decode
from mulligan.store.segments import RecordKind, SegmentKind, SegmentWriter, pack_record, scan, segment_numbers
from mulligan.store.store import Store
from support.storing import (
    file_entry,
    flip,
    read,
    row,
    rows_fact,
    segment,
    write,
)

TEXT = b"".join(b"line %d of a file that is edited\n" % number for number in range(300))


def put(store: Store, path: bytes, *contents: Any, entry: Entry) -> None:
    """A content, and a row that names it."""
    store.log.append([rows_fact(row(path, entry, store.clock.now()))], contents)


def edit(store: Store, path: bytes, data: bytes, before: bytes) -> bytes:
    """A version as a delta against another one; gives its hash."""
    encoded = encode(data, base=store.contents.base(before))
    assert encoded.base is not None
    put(store, path, encoded, entry=file_entry(data))
    return encoded.hash


def by_child(store: Store, *contents: bytes) -> list[Placed]:
    """Contents in a segment of a child's, named by no batch yet."""
    writer, placed = SegmentWriter.create_next(store.pool, SegmentKind.POOL), []
    for data in contents:
        one = encode(data)
        place = Placed(one.hash, one.size, one.encoding, writer.number, writer.offset, len(one.payload))
        placed.append(place)
        writer.append(pack_record(RecordKind.CONTENT, one.encoding, one.payload, one.size, one.hash))
    writer.sync()
    writer.close()
    return placed


def fill(store: Store, everything: list[list[AnyFact]]) -> dict[bytes, bytes]:
    """Some facts, and every encoding and kind of segment; the files that are to be read."""
    for facts in everything:
        store.log.append(facts)
    write(store, {b"raw": os.urandom(64), b"text": TEXT})
    digest = hashlib.sha256(TEXT).digest()
    data = TEXT
    for number in range(5):
        data = data.replace(b"line %d " % number, b"edited %d " % number)
        digest = edit(store, b"text", data, digest)
    blocks = [os.urandom(1000) for _ in range(3)]
    whole = b"".join(blocks)
    named = [encode(block) for block in blocks]
    listed = block_list(hashlib.sha256(whole).digest(), len(whole), [one.hash for one in named])
    put(store, b"large", *named, listed, entry=file_entry(whole))
    garbage = os.urandom(50)
    placed = by_child(store, b"by a child", garbage)
    put(store, b"child", placed[0], entry=file_entry(b"by a child"))
    return {b"text": data, b"large": whole, b"child": b"by a child"}


def assert_files(store: Store, files: dict[bytes, bytes]) -> None:
    """These files can be read."""
    assert {path: b"".join(store.contents.chunks(file_entry(data).hash)) for path, data in files.items()} == files
    assert {path: read(store, path) for path in files} == files


def snap(store: Store) -> int:
    """A snapshot, by a child process."""
    with store.reorganizing():
        return store.snapshot()


def last_batches(directory: Path) -> list[int]:
    """The numbers of all batches in the log, segment by segment."""
    found = []
    for number in segment_numbers(str(directory / "content_pool")):
        fd = os.open(segment(directory, number), os.O_RDONLY)
        try:
            found += [decode(each).number for each in scan(fd, 16) if each.header.kind == RecordKind.BATCH]
        finally:
            os.close(fd)
    return found


def lose_segment(directory: Path, *numbers: int) -> None:
    """Segments are gone."""
    for number in numbers:
        segment(directory, number).unlink()


def in_segments(store: Store, count: int) -> list[int]:
    """A log of some segments with one batch each behind the first; the numbers of those."""
    limit, store.log.segment_limit = store.log.segment_limit, 1
    for number in range(count):
        write(store, {b"s%d" % number: b"in segment %d\n" % number})
    store.log.segment_limit = limit
    return segment_numbers(store.pool)[1:]


def damage_batch(directory: Path, batch: int) -> None:
    """Flip a byte in the record of one batch."""
    for number in segment_numbers(str(directory / "content_pool")):
        path = segment(directory, number)
        fd = os.open(path, os.O_RDONLY)
        try:
            found = [each for each in scan(fd, 16) if each.header.kind == RecordKind.BATCH]
            wanted = [each.end - 1 for each in found if decode(each).number == batch]
        finally:
            os.close(fd)
        for offset in wanted:
            flip(path, offset)
