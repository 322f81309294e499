"""How much room the store has: its budget, what it takes, and when that is too much.

Any thread. What is on disk is added up again at most so often; a few directories hold some tens of files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from mulligan.clock import NANOSECONDS
from mulligan.store.segments import SEGMENT_LIMIT

#: Why the content of a file is not in the store.
NO_ROOM = "no room in the budget"
_LOOK = NANOSECONDS // 4
#: A collection is due beyond this part of the budget, and goes on until this part is reached.
_DUE, _ENOUGH = 0.9, 0.8
#: Segments and the reserve take at most this part of the budget, so that little room is needed to rewrite one.
_SHARE = 16
_LEAST_SEGMENT, _MOST_RESERVE = 1 << 20, 8 << 20


class Room:
    """The room of one store. `measure` gives the bytes on disk, `now` the time."""

    def __init__(self, measure: Callable[[], int], now: Callable[[], int]) -> None:
        self._measure, self._now = measure, now
        self._lock = threading.Lock()
        self._used, self._looked = 0, -_LOOK
        #: In bytes; 0: no limit is known yet.
        self.budget = 0

    @property
    def segment_limit(self) -> int:
        """The size at which segments are left for new ones."""
        return min(SEGMENT_LIMIT, max(_LEAST_SEGMENT, self.budget // _SHARE)) if self.budget else SEGMENT_LIMIT

    @property
    def reserve(self) -> int:
        """The bytes that are laid by for a full disk."""
        return min(_MOST_RESERVE, max(_LEAST_SEGMENT, self.budget // _SHARE)) if self.budget else _MOST_RESERVE

    def used(self, *, fresh: bool = False) -> int:
        """What the store takes on disk, as of the last quarter of a second."""
        with self._lock:
            now = self._now()
            if fresh or now - self._looked >= _LOOK:
                self._used, self._looked = self._measure(), now
            return self._used

    @property
    def left(self) -> int:
        """What may be stored still; negative beyond the budget."""
        return self.budget - self.used() if self.budget else 1 << 62

    @property
    def is_due(self) -> bool:
        """Whether something is to be collected."""
        return bool(self.budget) and self.used() > self.budget * _DUE

    def excess(self) -> int:
        """How many bytes are to go until there is enough room; 0 if there is."""
        return max(0, self.used(fresh=True) - int(self.budget * _ENOUGH)) if self.budget else 0
