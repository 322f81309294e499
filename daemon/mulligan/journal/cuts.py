"""Which of many cuts have a row as the last one of its path. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from mulligan.model import Cut

T = TypeVar("T")


class Cuts(Generic[T]):
    """Cuts, each with what it stands for; asked in O(log of all + those that come near)."""

    def __init__(self, cuts: Iterable[tuple[Cut, T]]) -> None:
        found = list(cuts)
        self._by_seq = sorted(found, key=lambda each: each[0].seq)
        self._by_moment = sorted(found, key=lambda each: each[0].moment)
        self._seqs = [cut.seq for cut, _ in self._by_seq]
        self._moments = [cut.moment for cut, _ in self._by_moment]

    def selecting(self, seq: int, at: int, until_seq: int, until_at: int) -> Iterator[T]:
        """Those that see a row (`seq`, `at`) and not the next one of its path (`until_seq`, `until_at`), each once."""
        first, last = bisect_left(self._seqs, seq), bisect_left(self._seqs, until_seq)
        for cut, what in self._by_seq[first:last]:
            if cut.moment >= at:
                yield what
        # they know the next row, and it became true later; a moment rises with the row within a path
        first, last = bisect_left(self._moments, at), bisect_left(self._moments, until_at)
        for cut, what in self._by_moment[first:last]:
            if cut.seq >= until_seq:
                yield what
