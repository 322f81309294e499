"""When the tree of a project is compared as a whole without being asked: a safety net, and what it may cost."""

from __future__ import annotations

from mulligan.clock import NANOSECONDS

#: The idle rescan is the safety net for writes that give no event (mmap); it may cost a second an hour.
_RESCAN_MIN_SECONDS, _RESCAN_SHARE = 300.0, 3600.0
#: Where directories had to stay unwatched, scanning is all there is: it may take a twentieth of the time.
_UNWATCHED_SECONDS, _UNWATCHED_SHARE = 5.0, 20.0
#: What a comparison takes for an entry; a baseline, which also reads, tells nothing of it.
_SCAN_SECONDS = 30e-6


def next_rescan(now: int, took_seconds: float, *, unwatched: bool) -> int:
    """The moment of the next idle rescan if the last one took so long (journal time)."""
    pause = max(_RESCAN_MIN_SECONDS, took_seconds * _RESCAN_SHARE)
    if unwatched:
        pause = max(_UNWATCHED_SECONDS, took_seconds * _UNWATCHED_SHARE)
    return now + int(pause * NANOSECONDS)


def comparison_seconds(entries: int) -> float:
    """What a comparison of so many entries is likely to take."""
    return entries * _SCAN_SECONDS
