"""The one clock: journal time, which never runs back.

Journal time is the wall clock plus a correction that grows whenever the wall clock is found behind the time that
CLOCK_BOOTTIME says must have passed. It is in integer nanoseconds since the epoch. Nothing else reads the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

NANOSECONDS = 1_000_000_000
MILLISECOND = 1_000_000

#: A moment after every other one: the T of a cut that takes all rows up to its S.
FOREVER = 2**63 - 1


def boottime_ns() -> int:
    """Nanoseconds since the machine started, suspend included where the system can tell."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)


class Clock:
    """Journal time from any thread.

    `now()` is strictly monotonic within a process. After the wall clock was set back, journal time goes on from where
    it was; `correction` says by how much it is ahead and is to be logged, so that the next process goes on as well.
    """

    def __init__(
        self,
        *,
        correction: int = 0,
        latest: int = 0,
        wall: Callable[[], int] = time.time_ns,  # noqa: TID251 - this is the one clock
        boot: Callable[[], int] = boottime_ns,
    ) -> None:
        self._wall, self._boot = wall, boot
        self._lock = threading.Lock()
        self.correction = correction
        self._latest = latest
        self._wall0, self._boot0 = wall(), boot()

    def now(self) -> int:
        """The journal time in nanoseconds; later than every time this clock gave before."""
        with self._lock:
            self._advance()
            return self._latest

    def look(self) -> int:
        """The journal time of a look at a file, in the base of `from_wall`: what is later has a later change time.

        `now()` is ahead of that by up to 100 ms while it waits for a wall clock that was set back by less.
        """
        with self._lock:
            wall = self._advance()
            return min(self._latest, wall + self.correction)

    def _advance(self) -> int:
        """Move on to a later time than every one before; returns what the wall clock says. The lock is held."""
        wall, boot = self._wall(), self._boot()
        expected = self._wall0 + (boot - self._boot0)
        if wall < expected - 100 * MILLISECOND:
            self.correction += expected - wall
        self._wall0, self._boot0 = wall, boot
        time_ns = wall + self.correction
        if time_ns <= self._latest:
            if self._latest - time_ns > 100 * MILLISECOND:
                self.correction += self._latest - time_ns
            time_ns = self._latest + 1
        self._latest = time_ns
        return wall

    def from_wall(self, wall_ns: int) -> int:
        """The journal time of a moment that somebody else read off the wall clock (a ctime, a transcript line)."""
        return wall_ns + self.correction


def to_rfc3339(time_ns: int) -> str:
    """RFC 3339 in UTC with milliseconds."""
    seconds, rest = divmod(time_ns, NANOSECONDS)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{rest // MILLISECOND:03d}Z"


def from_rfc3339(text: str) -> int:
    """Nanoseconds since the epoch of an ISO 8601 time; without a zone it is local time. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.astimezone()
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86400 + delta.seconds) * NANOSECONDS + delta.microseconds * 1000
