"""Copying what is needed out of segments that are mostly dead, so that they can be unlinked.

Runs in a child process, which writes segments of its own; nothing refers to a copy until the log says where it is. A
record is copied as it lies there. Deltas on contents that nothing else needs are encoded anew, so that those can go.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from mulligan.errors import IntegrityError
from mulligan.faults import point
from mulligan.store import encoding
from mulligan.store.catalogue import Catalogue, Place
from mulligan.store.contents import Contents
from mulligan.store.encoding import Base, Encoding
from mulligan.store.records import Moved
from mulligan.store.references import References
from mulligan.store.replay import first_batch
from mulligan.store.segments import (
    RECORD_HEADER_SIZE,
    SEGMENT_HEADER_SIZE,
    RecordKind,
    SegmentKind,
    SegmentWriter,
    pack_record,
    read_record,
    read_segment_kind,
    records_in,
    segment_numbers,
    segment_path,
)

#: A group of deltas is encoded anew in memory; what is larger stays as it is.
_GROUP_BYTES = 32 << 20


@dataclass(slots=True)
class Victim:
    """A segment that may go: what of it is needed, and its size in bytes."""

    number: int
    size: int
    places: list[Place] = field(default_factory=list)

    @property
    def live(self) -> int:
        """The bytes of the records that are needed."""
        return sum(place.stored + RECORD_HEADER_SIZE for place in self.places)


class Copies:
    """Writes records to a segment of its own, made when the first one comes; `moved` says where each is now."""

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._writer: SegmentWriter | None = None
        self.moved: list[Moved] = []
        self.size = 0

    def add(self, place: Place, encoding_: int, payload: bytes, base: Base | Place | None, depth: int) -> None:
        """A content that lay at `place`, encoded in this way."""
        if self._writer is None:
            self._writer = SegmentWriter.create_next(self._pool, SegmentKind.POOL)
        record = pack_record(
            RecordKind.CONTENT, encoding_, payload, place.size, place.hash, base.hash if base else b"", depth
        )
        self.moved.append(
            Moved(place.id, place.segment, place.offset, encoding_, self._writer.number, self._writer.offset,
                  len(payload), base.id if base else 0, depth)
        )  # fmt: skip
        self._writer.append(record)
        self.size += len(record)
        point("collect.copied")

    def finish(self) -> None:
        """Make all copies durable and read them back. Raises IntegrityError."""
        if self._writer is None:
            return
        self._writer.sync()
        self._writer.close()
        point("collect.synced")
        fd = os.open(segment_path(self._pool, self._writer.number), os.O_RDONLY | os.O_CLOEXEC)
        try:
            for one in self.moved:
                if read_record(fd, one.offset) is None:
                    raise IntegrityError(f"segment {one.segment}: what was copied to offset {one.offset} is not there")
        finally:
            os.close(fd)


def rebase(
    contents: Contents, found: References, copies: Copies, limit: int, erased: Collection[bytes] = ()
) -> set[int]:
    """Encode deltas anew that stand on contents of `bases`, root by root where this frees more than it takes.

    Where one of them is to be erased it is done whatever it takes. Returns the bases that nothing stands on any more
    once the copies are where contents lie. Stops at `limit` bytes. Raises IntegrityError if it must be done and cannot.
    """
    freed: set[int] = set()
    for group in _groups(found):
        bases = {place.id for place in group if place.id in found.bases}
        must = any(found.places[base].hash in erased for base in bases)
        is_large = sum(place.size for place in group) > _GROUP_BYTES or copies.size >= limit
        if not bases or (is_large and not must):
            continue
        saved = sum(found.places[base].stored + RECORD_HEADER_SIZE for base in bases)
        try:
            new = list(_encode_anew(contents, found, group))
        except IntegrityError:
            if must:
                raise
            continue  # damaged: `verify` names it
        took = sum(len(payload) - place.stored for place, _, payload, _ in new)
        if must or took < saved:
            for place, how, payload, base in new:
                copies.add(place, how, payload, base, base.depth + 1 if base else 0)
            freed |= bases
    return freed


def _groups(found: References) -> Iterator[list[Place]]:
    """The needed contents by the content without a base that they stand on, rising by id."""
    roots: dict[int, int] = {}
    groups: dict[int, list[Place]] = {}
    for content in sorted(found.live | found.bases):
        base = found.places[content].base
        roots[content] = roots.get(base, base) if base else content
        groups.setdefault(roots[content], []).append(found.places[content])
    yield from groups.values()


def _encode_anew(
    contents: Contents, found: References, group: list[Place]
) -> Iterator[tuple[Place, int, bytes, Base | None]]:
    """The deltas of a group whose base goes, on the nearest content that stays; the first of some stands alone.

    A content that was encoded anew stands in for what went below it, so the next ones find it; its id is smaller.
    """
    instead: dict[int, Place] = {}
    depths: dict[int, int] = {}
    for place in group:
        if place.id in found.bases or not place.base or place.base in found.live:
            continue
        passed, below = [], place.base
        while below in found.bases and below not in instead:
            passed.append(below)
            below = found.places[below].base
        stays = instead.get(below) or (found.places[below] if below in found.live else None)
        data = contents.read(place.hash)
        base = None
        if stays is not None:
            base = Base(stays.id, stays.hash, contents.read(stays.hash), depths.get(stays.id, stays.depth))
        encoded = encoding.encode(data, place.hash, base)
        depths[place.id] = encoded.depth
        instead.update(dict.fromkeys(passed, place))
        yield place, encoded.encoding, encoded.payload, encoded.base


def victims(
    pool: str, catalogue: Catalogue, *, current: int, ratio: float, snapshot: int, holding: Collection[bytes] = ()
) -> list[Victim]:
    """The segments before the log's current one that are worth rewriting, those with the least to copy first.

    Worth it is what has less than this ratio of needed bytes, or holds a record of one of the hashes. A segment of the
    log can go only if a snapshot of the catalogue is as new as its last batch; one of a child that is at work stays.
    """
    segments: dict[int, Victim] = {}
    for number in segment_numbers(pool):
        if number < current:
            segments[number] = Victim(number, os.path.getsize(segment_path(pool, number)))
    for place in catalogue.places():
        if place.segment in segments:
            segments[place.segment].places.append(place)
    wanted = set(holding)
    ends = _ends(pool, [*segments, current], catalogue.meta("batch"))
    found = [
        victim
        for victim in segments.values()
        if victim.number in ends
        and ends[victim.number] <= snapshot
        and (
            victim.live < ratio * (victim.size - SEGMENT_HEADER_SIZE)
            or not victim.places
            or holds(pool, victim.number, wanted)
        )
        and not _in_use(pool, victim.number)
    ]
    return sorted(found, key=lambda victim: (victim.live, victim.number))


def holds(pool: str, number: int, hashes: Set[bytes]) -> bool:
    """Whether a record of one of some contents lies in a segment, named by somebody or not."""
    return bool(hashes) and any(header.hash in hashes for _, header in records_in(pool, number))


def _ends(pool: str, numbers: Iterable[int], last: int) -> dict[int, int]:
    """The last batch of each segment, 0 of those that have none; what cannot be read is left out.

    It is told by the log segment that follows: one that is damaged does not say where it ends.
    """
    ends: dict[int, int] = {}
    following = last + 1
    for number in sorted(numbers, reverse=True):
        try:
            if read_segment_kind(pool, number) == SegmentKind.POOL:
                ends[number] = 0
                continue
            first = first_batch(pool, number)
        except IntegrityError:
            continue
        if following:
            ends[number] = following - 1
        following = first or following
    return ends


def _in_use(pool: str, number: int) -> bool:
    """Whether a process is writing a segment."""
    fd = os.open(segment_path(pool, number), os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def copy(pool: str, chosen: Sequence[Victim], copies: Copies, limit: int) -> tuple[list[int], list[str]]:
    """Copy what is needed of segments, as many as fit in `limit` bytes; returns their numbers and what is damaged.

    If there are some of which nothing is needed, it is these alone: there is more room before anything is copied.
    """
    if empty := [victim.number for victim in chosen if not victim.places]:
        return empty, []
    done: list[int] = []
    damaged: list[str] = []
    for victim in chosen:
        if copies.size and copies.size + victim.live > limit:
            break
        before = len(copies.moved)
        try:
            _copy(pool, victim, copies)
        except IntegrityError as error:
            del copies.moved[before:]  # the copies that were made of it are dead weight
            damaged.append(error.message)
            continue
        done.append(victim.number)
    return done, damaged


def _copy(pool: str, victim: Victim, copies: Copies) -> None:
    fd = os.open(segment_path(pool, victim.number), os.O_RDONLY | os.O_CLOEXEC)
    try:
        for place in sorted(victim.places, key=lambda place: place.offset):
            found = read_record(fd, place.offset)
            if found is None or found.header.hash != place.hash:
                raise IntegrityError(f"segment {victim.number}: the record at offset {place.offset} is damaged")
            base = None
            if found.header.encoding == Encoding.DELTA:
                base = Base(place.base, found.header.base, b"", 0)
            copies.add(place, found.header.encoding, found.payload, base, found.header.depth)
    finally:
        os.close(fd)
