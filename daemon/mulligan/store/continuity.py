"""Whether the batches in the segments follow each other without a gap; contents are passed over."""

from __future__ import annotations

import os
from collections.abc import Iterator

from mulligan.errors import MulliganError
from mulligan.faults import point
from mulligan.store.catalogue import Catalogue
from mulligan.store.replay import decode, first_batch, log_segments
from mulligan.store.segments import (
    RECORD_HEADER_SIZE,
    SEGMENT_HEADER_SIZE,
    RecordKind,
    read_record,
    segment_path,
    unpack_header,
)
from mulligan.store.snapshot import snapshots

#: A look takes seconds at most, and collections come minutes after each other.
_LOOKS = 5


def broken_log(directory: str, catalogue: Catalogue) -> list[str]:
    """What keeps the log, from the oldest snapshot to the catalogue's watermark, from being folded again, in words.

    A collection may take snapshots and segments away meanwhile: then all is looked at anew.
    """
    for _ in range(_LOOKS):
        # in one look: the log goes on meanwhile
        last, end, known = catalogue.watermark()
        kept = snapshots(directory)
        point("verify.snapshots_listed")
        oldest = min((batch for batch in kept if batch <= known), default=0)
        try:
            found = list(_broken(directory, oldest, known, (last, end)))
        except FileNotFoundError:
            continue
        if not found or kept == snapshots(directory):
            return found
    return ["the log changes faster than it can be looked at"]


def is_whole(directory: str, batch: int) -> bool:
    """Whether the log can be folded from its first batch to a given one."""
    return next(_broken(directory, 0, batch, (0, 0)), "") == ""


def _broken(directory: str, number: int, known: int, until: tuple[int, int]) -> Iterator[str]:
    last, end = until
    logs, unreadable = log_segments(directory)
    yield from (words for segment, words in unreadable.items() if not 0 < last < segment)
    point("verify.segments_listed")
    heads = {n: first for n in logs if (first := first_batch(directory, n))}
    for segment in logs:
        again = min((first for n, first in heads.items() if n > segment), default=0)
        if 0 < last < segment or 0 < again <= number + 1:
            continue  # behind the end, or all that counts in it is known
        try:
            fd = os.open(segment_path(directory, segment), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise  # it was there a moment ago
        except OSError as error:
            yield str(error)
            continue
        try:
            for batch in _batches(fd, end if segment == last else os.fstat(fd).st_size):
                if again and batch >= again:
                    break
                if batch > number + 1:
                    yield f"segment {segment}: batch {number + 1} is missing before batch {batch}"
                number = max(number, batch)
        except (MulliganError, OSError) as error:
            yield f"segment {segment}: {error}"
        finally:
            os.close(fd)
    if number < known:
        yield f"the log ends at batch {number}, the catalogue at {known}"


def _batches(fd: int, end: int) -> Iterator[int]:
    """The numbers of the batches before `end`; contents are passed over. Ends at the first record that is none."""
    offset = SEGMENT_HEADER_SIZE
    while offset < end:
        header = unpack_header(os.pread(fd, RECORD_HEADER_SIZE, offset))
        if header is None:
            return
        if header.kind == RecordKind.BATCH:
            found = read_record(fd, offset)
            if found is None:
                return
            yield decode(found).number
        offset += RECORD_HEADER_SIZE + header.stored
