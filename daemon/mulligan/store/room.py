"""How much room the store has: its budget, what it takes, and when that is too much.

Any thread. What is on disk is added up again at most so often; a few directories hold some tens of files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mulligan.clock import NANOSECONDS
from mulligan.store.segments import SEGMENT_LIMIT

#: Why the content of a file is not in the store.
NO_ROOM = "no room in the budget"
_LOOK = NANOSECONDS // 4
#: A collection is due beyond this part of the budget, and goes on until this part is reached.
_DUE, _ENOUGH = 0.85, 0.75
#: So long room that is being made is waited for, before a content is left out.
_WAIT_SECONDS = 1.0
#: Segments and the reserve take at most this part of the budget, so that little room is needed to rewrite one.
_SHARE = 16
_LEAST_SEGMENT, _MOST_RESERVE = 1 << 20, 8 << 20


class Room:
    """The room of one store. `measure` gives the bytes on disk, `now` the time, `written` what the log wrote so far."""

    def __init__(self, measure: Callable[[], int], now: Callable[[], int], written: Callable[[], int]) -> None:
        self._measure, self._now, self._written = measure, now, written
        self._lock = threading.Lock()
        self._made = threading.Condition()
        self._makers = 0
        self._waits = True
        self._used, self._looked = 0, -_LOOK
        self._written_then = 0
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
        """What the store takes on disk: as it was in the last quarter of a second, and what the log wrote since."""
        with self._lock:
            now = self._now()
            if fresh or now - self._looked >= _LOOK:
                self._written_then = self._written()
                self._used, self._looked = self._measure(), now
            return self._used + self._written() - self._written_then

    @property
    def left(self) -> int:
        """What may be stored still; negative if there is no room.

        Contents stop a segment below the budget: what is said of them, and copies that a collection makes, need some.
        """
        return self.budget - self.segment_limit - self.used() if self.budget else 1 << 62

    def wait(self, needed: int) -> bool:
        """Whether there is more room than needed, now or once it was made by somebody who is at it.

        Who waited in vain does not wait again before some was made: whoever makes it may need the same thread.
        """
        with self._made:
            if self._waits:
                self._waits = self._made.wait_for(lambda: not self._makers or self.left > needed, _WAIT_SECONDS)
        return self.left > needed

    @contextmanager
    def making(self) -> Iterator[None]:
        """While room is made, whoever needs some waits."""
        with self._made:
            self._makers += 1
        try:
            yield
        finally:
            with self._made:
                self._makers -= 1
            self.was_made()

    def was_made(self) -> None:
        """Something was freed."""
        self.used(fresh=True)
        with self._made:
            self._waits = True
            self._made.notify_all()

    @property
    def is_due(self) -> bool:
        """Whether something is to be collected."""
        return bool(self.budget) and self.used() > self.budget * _DUE

    def excess(self) -> int:
        """How many bytes are to go until there is enough room; 0 if there is."""
        return max(0, self.used(fresh=True) - int(self.budget * _ENOUGH)) if self.budget else 0
