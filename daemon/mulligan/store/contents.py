"""Reading contents: every byte that leaves the store was checked against its SHA-256."""

from __future__ import annotations

import hashlib
import os
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Iterator
from typing import TypeVar

from mulligan.errors import IntegrityError
from mulligan.store import encoding
from mulligan.store.catalogue import NAME, Catalogue, Place, connect
from mulligan.store.encoding import Base, Encoding
from mulligan.store.segments import RECORD_HEADER_SIZE, segment_path, unpack_header

T = TypeVar("T")
_OPEN_SEGMENTS = 16


class Contents:
    """The contents of one store, for any thread. `catalogue` gives the calling thread's read connection.

    A content may be collected into another segment while it is read: then it is looked for again. `gone` holds hashes
    that are about to leave the store.
    """

    def __init__(self, directory: str, catalogue: Callable[[], Catalogue]) -> None:
        self.directory, self._catalogue = directory, catalogue
        self._files: OrderedDict[int, int] = OrderedDict()
        self._lock = threading.Lock()
        self._looked_up: dict[bytes, Place] = {}
        self.gone: Container[bytes] = ()

    def close(self) -> None:
        """Close the segments."""
        with self._lock:
            while self._files:
                os.close(self._files.popitem()[1])

    def look_up(self, digests: Collection[bytes]) -> None:
        """Find out at once where some hundred contents lie that are about to be read; forgets those before."""
        self._looked_up = {place.hash: place for place in self._catalogue().places_of(digests)}

    def place(self, digest: bytes) -> Place:
        """Where a content lies. Raises IntegrityError if the catalogue does not know it."""
        found = self._looked_up.get(digest) or self._catalogue().place(digest)
        if found is None:
            raise IntegrityError(
                f"content {digest.hex()[:12]} is not in the store", hint="mulligan verify", hash=digest.hex()
            )
        return found

    def read(self, digest: bytes) -> bytes:
        """The bytes of a content. Raises IntegrityError if they are missing or are not what the hash says."""
        place = self.place(digest)
        if place.encoding == Encoding.BLOCKS:
            return b"".join(self.chunks(digest))
        return self._read(place)

    def chunks(self, digest: bytes) -> Iterator[bytes]:
        """The bytes of a content in pieces; blocks are checked one by one, the whole at the end."""
        place = self.place(digest)
        if place.encoding != Encoding.BLOCKS:
            yield self._read(place)
            return
        whole = hashlib.sha256()
        for block in encoding.block_hashes(self._following(place, self.payload)):
            data = self._read(self.place(block))
            whole.update(data)
            yield data
        if whole.digest() != digest:
            raise self._damaged(place, "its blocks do not add up to its hash")

    def blocks(self, digest: bytes) -> list[bytes]:
        """The hashes of the blocks that a content consists of; none if it is not stored in blocks."""
        place = self.place(digest)
        return (
            list(encoding.block_hashes(self._following(place, self.payload)))
            if place.encoding == Encoding.BLOCKS
            else []
        )

    def part(self, digest: bytes, start: int, end: int) -> bytes:
        """The bytes from one offset to another. Of a content in blocks only those needed are read, each checked."""
        place = self.place(digest)
        if place.encoding != Encoding.BLOCKS:
            return self._read(place)[start:end]
        hashes = list(encoding.block_hashes(self._following(place, self.payload)))
        size = self.place(hashes[0]).size  # all but the last one are as large
        first, last = start // size, -(-end // size)
        data = b"".join(self._read(self.place(block)) for block in hashes[first:last])
        return data[start - first * size : end - first * size]

    def base(self, digest: bytes) -> Base | None:
        """A content as the base of a delta, or None if it is not fit for one, because it is damaged perhaps."""
        place = self._catalogue().place(digest)
        if place is None or place.encoding == Encoding.BLOCKS or place.depth >= encoding.MAX_DEPTH:
            return None
        try:
            return Base(place.id, place.hash, self._read(place), place.depth)
        except IntegrityError:
            return None

    def _read(self, place: Place) -> bytes:
        data = self._decode(place)
        if hashlib.sha256(data).digest() != place.hash:
            raise self._damaged(place, "its bytes are not what its hash says")
        return data

    def _decode(self, place: Place) -> bytes:
        """The bytes of a content, unchecked: a chain is right if its end is."""
        return self._following(place, self._decode_at)

    def _following(self, place: Place, read: Callable[[Place], T]) -> T:
        """Read at a place, or where the content lies now if it was moved since the place was looked up."""
        try:
            return read(place)
        except IntegrityError:
            # by a connection of its own: the thread's may be reading an older state
            catalogue = Catalogue(connect(os.path.join(os.path.dirname(self.directory), NAME)))
            try:
                now = catalogue.place_by_id(place.id)
            finally:
                catalogue.close()
            if now is None or now == place:
                raise
        return read(now)

    def _decode_at(self, place: Place) -> bytes:
        payload = self.payload(place)
        if place.encoding != Encoding.DELTA:
            return encoding.decompress(place.encoding, payload, place.size)
        base = self._catalogue().place_by_id(place.base)
        if base is None or base.id >= place.id:
            raise self._damaged(place, "its base is missing")
        return encoding.apply_delta(payload, self._decode(base), place.size)

    def payload(self, place: Place) -> bytes:
        """What lies at a place, as it lies there. Raises IntegrityError if it is not a whole record of the content."""
        if not place.segment:
            raise self._damaged(place, "no segment holds it")
        try:
            with self._lock:
                fd = self._open(place)
                # under the lock: another thread may push this segment out of the cache and close it
                found = os.pread(fd, RECORD_HEADER_SIZE + place.stored, place.offset)
        except OSError as error:
            raise self._damaged(
                place, f"its segment cannot be read: {os.strerror(error.errno or 0).lower()}"
            ) from error
        header, payload = unpack_header(found), found[RECORD_HEADER_SIZE:]
        if len(payload) != place.stored:
            raise self._damaged(place, "its segment is too short")
        # before it is decoded: a broken frame may ask for any amount of memory
        if header is None or header.hash != place.hash or zlib.crc32(payload) != header.checksum:
            raise self._damaged(place, "its record is damaged")
        return payload

    def _open(self, place: Place) -> int:
        fd = self._files.get(place.segment)
        if fd is None:
            try:
                fd = os.open(segment_path(self.directory, place.segment), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                raise self._damaged(place, "its segment is missing") from None
            self._files[place.segment] = fd
            if len(self._files) > _OPEN_SEGMENTS:
                os.close(self._files.popitem(last=False)[1])
        self._files.move_to_end(place.segment)
        return fd

    def let_go(self, segment: int) -> None:
        """A segment is unlinked: hold its file no longer."""
        with self._lock:
            if (fd := self._files.pop(segment, None)) is not None:
                os.close(fd)

    def check(self, place: Place) -> str:
        """What is wrong with one stored content, in words; "" if nothing is."""
        try:
            if place.encoding == Encoding.BLOCKS:
                for _ in self.chunks(place.hash):
                    pass
            else:
                self._read(place)
        except IntegrityError as error:
            return error.message
        return ""

    def holds(self, digest: bytes) -> bool:
        """Whether a content is stored and its record, with those that it builds on, is whole: else store it again."""
        return self._is_whole(None if digest in self.gone else self._catalogue().place(digest))

    def held(self, digests: Collection[bytes]) -> list[bytes]:
        """Those of some hundred contents that `holds` is true of."""
        places = self._catalogue().places_of(digests)
        return [place.hash for place in places if place.hash not in self.gone and self._is_whole(place)]

    def _is_whole(self, place: Place | None) -> bool:
        catalogue = self._catalogue()
        try:
            while place is not None:
                self.payload(place)
                if place.encoding != Encoding.DELTA:
                    return True
                place = catalogue.place_by_id(place.base)
        except IntegrityError:
            pass
        return False

    def _damaged(self, place: Place, reason: str) -> IntegrityError:
        return IntegrityError(
            f"content {place.hash.hex()[:12]} (segment {place.segment}, offset {place.offset}): {reason}",
            hint="mulligan verify",
            hash=place.hash.hex(),
        )
