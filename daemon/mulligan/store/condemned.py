"""What left the store a moment ago, and must not be built on by what was made before.

A capture sees that a content is stored and says no more than its hash; if that content is collected before the row is
committed, the row would name nothing. So the log holds what is committed against this list. Belongs to the log's
thread, but for `__contains__`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from mulligan.store.encoding import Encoded, Encoding, block_hashes
from mulligan.store.placed import Placed
from mulligan.store.records import AnyFact, OperationFact, RowsFact
from mulligan.store.references import payload_hashes
from mulligan.store.segments import RECORD_HEADER_SIZE, segment_path


class Condemned:
    """Hashes of contents, and numbers of segments, that are gone."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._hashes: set[bytes] = set()
        self._segments: set[int] = set()
        self._purged: set[bytes] = set()

    def __contains__(self, digest: object) -> bool:
        return digest in self._hashes or digest in self._purged

    def __bool__(self) -> bool:
        return bool(self._hashes or self._segments or self._purged)

    def condemn(self, hashes: Iterable[bytes]) -> None:
        """From now on nothing may build on these; those of the time before are let go."""
        self._hashes = set(hashes)

    def purge(self, hashes: Iterable[bytes]) -> None:
        """From now on nothing may have these, not even if it brings them along."""
        self._purged.update(hashes)

    def close_segment(self, number: int) -> None:
        """A segment is about to be unlinked: contents that a child put there are to be read again."""
        self._segments.add(number)

    def names(self, facts: Sequence[AnyFact], contents: Sequence[Encoded | Placed]) -> str:
        """What a submission builds on that is gone, in words; "" if nothing. What it stores itself is there again."""
        stored = {content.hash for content in contents}
        for content in contents:
            if isinstance(content, Placed) and content.segment in self._segments:
                return f"segment {content.segment}"
            if content.hash in self._purged:
                return f"content {content.hash.hex()[:12]}"
        for digest in self._built_on(facts, contents):
            if digest in self._purged or (digest in self._hashes and digest not in stored):
                return f"content {digest.hex()[:12]}"
        for digest in self._planned(facts):  # a plan may well say what stood there before it was purged
            if digest in self._hashes and digest not in stored:
                return f"content {digest.hex()[:12]}"
        self._hashes -= stored
        return ""

    def _built_on(self, facts: Sequence[AnyFact], contents: Sequence[Encoded | Placed]) -> Iterator[bytes]:
        for content in contents:
            if isinstance(content, Encoded) and content.base is not None:
                yield content.base.hash
            if content.encoding == Encoding.BLOCKS:
                yield from block_hashes(self._payload(content))
        for fact in facts:
            if isinstance(fact, RowsFact):
                yield from (row.entry.hash for row in fact.rows)

    @staticmethod
    def _planned(facts: Sequence[AnyFact]) -> Iterator[bytes]:
        for fact in facts:
            if isinstance(fact, OperationFact):
                yield from payload_hashes(fact.payload)

    def _payload(self, content: Encoded | Placed) -> bytes:
        if isinstance(content, Encoded):
            return content.payload
        fd = os.open(segment_path(self._directory, content.segment), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, content.stored, content.offset + RECORD_HEADER_SIZE)
        finally:
            os.close(fd)
