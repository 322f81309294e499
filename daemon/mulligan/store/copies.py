"""Other places of a content in the segments: records nobody names, and its own if the header is gone."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator

import zstandard

from mulligan.store.catalogue import Place
from mulligan.store.encoding import Encoding
from mulligan.store.segments import (
    RECORD_HEADER_SIZE,
    SEGMENT_HEADER_SIZE,
    Found,
    RecordHeader,
    RecordKind,
    read_record,
    segment_numbers,
    segment_path,
    unpack_header,
    valid_records_behind,
)


def copies(directory: str, wanted: Container[bytes]) -> Iterator[Found]:
    """Every whole record of some contents, in any segment. What is broken in between is passed over.

    Checksums alone are checked: whoever takes it holds the bytes against the hash.
    """
    for number in segment_numbers(directory):
        try:
            fd = os.open(segment_path(directory, number), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            yield from _copies(fd, wanted)
        except OSError:
            continue
        finally:
            os.close(fd)


def _copies(fd: int, wanted: Container[bytes]) -> Iterator[Found]:
    offset, size = SEGMENT_HEADER_SIZE, os.fstat(fd).st_size
    while offset < size:
        header = unpack_header(os.pread(fd, RECORD_HEADER_SIZE, offset))
        found = None
        if header is None:
            found = next(valid_records_behind(fd, offset), None)
            if found is None:
                return
        elif header.kind == RecordKind.CONTENT and header.hash in wanted:
            found = read_record(fd, offset)
        if found is not None and found.header.kind == RecordKind.CONTENT and found.header.hash in wanted:
            yield found
        offset = found.end if found is not None else offset + RECORD_HEADER_SIZE + (header.stored if header else 0)


def without_header(directory: str, place: Place, base: bytes) -> Found | None:
    """The payload at a place, read as the catalogue describes it: for a record of which only the header is broken."""
    try:
        with open(segment_path(directory, place.segment), "rb") as file:
            payload = os.pread(file.fileno(), place.stored, place.offset + RECORD_HEADER_SIZE)
    except OSError:
        return None
    if len(payload) != place.stored:
        return None
    if place.encoding in (Encoding.ZSTD, Encoding.DELTA):
        try:  # no checksum has passed it yet: a broken frame may ask for any amount of memory
            if zstandard.frame_content_size(payload) != place.size:
                return None
        except zstandard.ZstdError:
            return None
    header = RecordHeader(
        RecordKind.CONTENT, place.encoding, place.depth, place.stored, place.size, place.hash, base, 0
    )
    return Found(header, place.offset, payload)
