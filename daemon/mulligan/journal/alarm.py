"""The judgement of destruction: how much a call may do away with before somebody is told.

Pure: what a call did away with, and the time, in; an alarm out, once for each call unless it went on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mulligan.clock import NANOSECONDS
from mulligan.journal.losses import How
from mulligan.model import Entry

#: So many files are a burst in a project of any size; fewer if they are a good part of it.
MANY, FEW, PART = 10, 3, 0.5
#: An alarm is shown for so long, or until something is brought back.
SHOWN = 24 * 3600 * NANOSECONDS
_PATHS = 20


class Gone(NamedTuple):
    """A file that a call did away with: what it was before, and how it was lost."""

    path: bytes
    before: Entry
    how: How


class Alarm(NamedTuple):
    """A burst of deletions and truncations inside one call's window; `paths` are the first of them."""

    call: str
    moment: int
    vanished: int
    emptied: int
    size: int
    paths: tuple[bytes, ...]

    @property
    def files(self) -> int:
        """How many files were lost."""
        return self.vanished + self.emptied


class Alarms:
    """The alarms of one project."""

    def __init__(self) -> None:
        self._told: dict[str, Alarm] = {}

    def judge(self, call: str, gone: Sequence[Gone], files: int, now: int) -> Alarm | None:
        """The alarm that a call's losses are worth, if they are and it was not told; `files` were there before it."""
        self.expire(now)
        if len(gone) < MANY and not (len(gone) >= FEW and len(gone) >= files * PART):
            return None
        told = self._told.get(call)
        if told is not None and len(gone) < 2 * told.files:
            return None
        vanished = sum(each.how is How.VANISHED for each in gone)
        size = sum(each.before.size for each in gone)
        paths = tuple(sorted(each.path for each in gone)[:_PATHS])
        self._told[call] = Alarm(call, now, vanished, len(gone) - vanished, size, paths)
        return self._told[call]

    def expire(self, now: int) -> None:
        """Forget what is old."""
        self._told = {call: alarm for call, alarm in self._told.items() if now - alarm.moment < SHOWN}

    def settle(self) -> None:
        """Something was brought back: whoever did it knows."""
        self._told.clear()

    def shown(self, now: int) -> list[Alarm]:
        """The alarms that are to be shown, the latest first."""
        return sorted(
            (alarm for alarm in list(self._told.values()) if now - alarm.moment < SHOWN),
            key=lambda alarm: -alarm.moment,
        )
