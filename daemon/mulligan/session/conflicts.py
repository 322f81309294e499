"""Sessions in each other's way: who changed the same file as somebody else, within a while. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mulligan.clock import NANOSECONDS
from mulligan.session.attribution import NAMED, WINDOW

#: Changes of one file by two sessions are a conflict if no more time lies between them.
SPAN = 900 * NANOSECONDS
#: Only what is certain counts: "one of N" would make two sessions that run commands at a time quarrel over everything.
CERTAIN = (NAMED, WINDOW)
_MOST_TOLD = 4096


class Touch(NamedTuple):
    """A session changed a file."""

    path: bytes
    session: str
    moment: int


class Shared(NamedTuple):
    """A file that two sessions changed, and when the later one did; `sessions` are in the order of their changes."""

    path: bytes
    sessions: tuple[str, str]
    moment: int


def shared_files(touches: Iterable[Touch], span: int = SPAN) -> list[Shared]:
    """The files that two sessions changed within a span, the last time of each pair, the latest first."""
    last: dict[bytes, Touch] = {}
    found: dict[tuple[bytes, frozenset[str]], Shared] = {}
    for touch in sorted(touches, key=lambda touch: touch.moment):
        before = last.get(touch.path)
        if before is not None and before.session != touch.session and touch.moment - before.moment <= span:
            pair = (before.session, touch.session)
            found[touch.path, frozenset(pair)] = Shared(touch.path, pair, touch.moment)
        last[touch.path] = touch
    return sorted(found.values(), key=lambda one: (-one.moment, one.path))


class Radar:
    """Tells of each file and pair of sessions once in a span."""

    def __init__(self, span: int = SPAN) -> None:
        self._span = span
        self._told: dict[tuple[bytes, frozenset[str]], int] = {}

    def news(self, found: Iterable[Shared]) -> list[Shared]:
        """Those that were not told within the span before."""
        fresh = []
        for one in sorted(found, key=lambda one: one.moment):
            key = (one.path, frozenset(one.sessions))
            told = self._told.pop(key, None)
            if told is None or one.moment - told > self._span:
                fresh.append(one)
                told = one.moment
            self._told[key] = told
        while len(self._told) > _MOST_TOLD:
            del self._told[next(iter(self._told))]
        return fresh
