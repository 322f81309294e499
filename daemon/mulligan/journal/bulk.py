"""The files that a scan has to read: a few at once, many by child processes."""

from __future__ import annotations

from mulligan.journal.capture import Capture
from mulligan.journal.looked import Looked
from mulligan.journal.reading import Reading
from mulligan.journal.reading_child import Item
from mulligan.journal.reading_pool import ReadingPool
from mulligan.store.catalogue import Live

#: Starting a child takes as long as reading some hundred files.
_FEW = 400

_Wanted = tuple[bytes, Live | None, int]


class BulkReading:
    """Reads for one scan; what was read is judged by the capture, in any order of paths."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._first: list[_Wanted] = []
        self._pool: ReadingPool[_Wanted] | None = None

    def read(self, path: bytes, live: Live | None, flags: int) -> None:
        """Have a file read; `live` is what the journal says of it."""
        wanted = (path, live, flags)
        if self._pool is None:
            self._first.append(wanted)
            if len(self._first) > _FEW:
                self._pool = ReadingPool(self._capture.child_setup(), self._done)
                for one in self._first:
                    self._pool.read(one[0], one)
                self._first = []
        else:
            self._pool.read(path, wanted)

    def finish(self) -> None:
        """Read what is left and wait for all of it. Raises MulliganError if a child has died."""
        for path, _, flags in self._first:
            self._capture.path(path, None, flags)
        self._first = []
        if self._pool is not None:
            self._pool.finish()
            self._pool = None

    def close(self) -> None:
        """End the children, also after an error."""
        if self._pool is not None:
            self._pool.close()

    def _done(self, wanted: _Wanted, item: Item) -> None:
        path, live, flags = wanted
        reading = Reading(item.entry, item.stat, torn=item.torn, placed=item.contents)
        self._capture.judge(Looked(path, live, reading, None, flags))
