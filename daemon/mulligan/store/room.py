"""How much room the store and each project has: a budget, what is taken of it, and when that is too much.

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
NO_PROJECT_ROOM = "no room in the project's budget"
_LOOK = NANOSECONDS // 4
#: A collection is due beyond this part of the budget, and goes on until this part is reached.
_DUE, _ENOUGH = 0.85, 0.75
#: After room could not be made, it is tried again when this part of the budget was used on top.
_GROWN = 0.02
#: So long room that is being made is waited for, before a content is left out.
_WAIT_SECONDS = 1.0
#: Segments and the reserve take at most this part of the budget, so that little room is needed to rewrite one.
_SHARE = 16
_LEAST_SEGMENT, _MOST_RESERVE = 1 << 20, 8 << 20


class Allowance:
    """What one project may take. `measure` gives the bytes that it takes, `written` those that came to it by now.

    Measuring may take a moment: it is done at the first question and when a fresh answer is asked for.
    """

    #: Why something is not stored when there is none left.
    reason = NO_PROJECT_ROOM

    def __init__(self, measure: Callable[[], int], written: Callable[[], int]) -> None:
        self._measure, self._written = measure, written
        self._lock = threading.Lock()
        self._made = threading.Condition()
        self._makers = 0
        self._waits = True
        # what was not stored last for want of room, in bytes
        self._wanted = 0
        self._used: int | None = None
        self._written_then = 0
        #: In bytes; 0: there is no limit, or none is known yet.
        self.budget = 0
        #: Room could not be made when so much was used; trying again before there is more gains nothing.
        self.tried = 0
        #: Why the budget is not kept to; "" if it is.
        self.short = ""

    def set_budget(self, budget: int) -> None:
        """From now on so many bytes may be taken; what could not be gained before may be to be gained now."""
        if budget != self.budget:
            self.budget, self.tried, self.short, self._wanted = budget, 0, "", 0

    def used(self, *, fresh: bool = False) -> int:
        """What is taken: as it was when it was last measured, and what came since."""
        with self._lock:
            if self._used is None or fresh or self._is_old():
                self._written_then = self._written()  # before: what comes meanwhile counts twice rather than never
                self._used = self._measure()
            return self._used + self._written() - self._written_then

    def _is_old(self) -> bool:
        return False

    @property
    def left(self) -> int:
        """What may be stored still; negative if there is no room."""
        return self.budget - self.used() if self.budget else 1 << 62

    def wait(self, needed: int) -> bool:
        """Whether there is the room that is needed, now or once it was made by somebody who is at it.

        Who waited in vain does not wait again before some was made: whoever makes it may need the same thread.
        """
        with self._made:
            if self._waits:
                self._waits = self._made.wait_for(lambda: not self._makers or self.left >= needed, _WAIT_SECONDS)
        if self.left >= needed:
            return True
        if needed <= self.budget * (1 - _ENOUGH):  # there may be as much when room was made
            self._wanted = needed
        return False

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
        if not self.budget:
            return
        self.used(fresh=True)
        with self._made:
            self._waits = True
            self._made.notify_all()

    @property
    def is_due(self) -> bool:
        """Whether room is to be made now; not again while nothing can be gained."""
        return bool(self.budget) and (used := self.used()) > self.tried and self._is_short(used)

    def _is_short(self, used: int) -> bool:
        return used > self.budget * _DUE or used + self._wanted > self.budget

    def excess(self) -> int:
        """How many bytes are to go until there is enough room; 0 if there is."""
        return max(0, self.used(fresh=True) - int(self.budget * _ENOUGH)) if self.budget else 0

    def judge(self) -> int:
        """Note whether what was tried has kept the budget; returns what is used."""
        used = self.used(fresh=True)
        is_short, self._wanted = self._is_short(used), 0
        self.tried = used + int(self.budget * _GROWN) if is_short else 0
        self.short = "the budget is used up by what is kept in any case" if is_short else ""
        return used


class Room(Allowance):
    """The room of one store. `measure` gives the bytes on disk, `now` the time, `written` what the log wrote so far."""

    reason = NO_ROOM

    def __init__(self, measure: Callable[[], int], now: Callable[[], int], written: Callable[[], int]) -> None:
        super().__init__(self._look, written)
        self._sum, self._now = measure, now
        self._looked = -_LOOK

    def _look(self) -> int:
        self._looked = self._now()
        return self._sum()

    def _is_old(self) -> bool:
        """What others than the log write shows a quarter of a second later."""
        return self._now() - self._looked >= _LOOK

    @property
    def segment_limit(self) -> int:
        """The size at which segments are left for new ones."""
        return min(SEGMENT_LIMIT, max(_LEAST_SEGMENT, self.budget // _SHARE)) if self.budget else SEGMENT_LIMIT

    @property
    def reserve(self) -> int:
        """The bytes that are laid by for a full disk."""
        return min(_MOST_RESERVE, max(_LEAST_SEGMENT, self.budget // _SHARE)) if self.budget else _MOST_RESERVE

    @property
    def left(self) -> int:
        """What may be stored still; negative if there is no room.

        Contents stop a segment below the budget: what is said of them, and copies that a collection makes, need some.
        """
        return super().left - self.segment_limit
