"""Reading the files of an SQLite database as one: the database, its write-ahead log, its rollback journal.

Read one after another they may be of different moments, and such files are no database together. So each is looked at
again after all were read, and what moved meanwhile is read again. SQLite makes every state that its files had at one
moment whole when it opens them, so nothing has to be known of what is in them, and no lock is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from mulligan.journal.capture import Capture
from mulligan.journal.reading import Reading
from mulligan.store.catalogue import Live

#: An index into the log that SQLite makes anew; never captured.
SHARED_MEMORY = b"-shm"
#: Only what moved is read again, so an attempt after the first costs a log of some kilobytes most times.
_ATTEMPTS = 6
#: Bytes that may be read again: a large database that is written all the time is flagged sooner.
_AGAIN = 32 << 20


def read_together(
    capture: Capture,
    known: Sequence[tuple[bytes, Live | None]],
    heard: Callable[[], Collection[bytes] | None],
) -> tuple[dict[bytes, Reading], bool]:
    """Read files so that there is a moment at which all of them were what was read; False if there was none.

    A file that its `Live` proves unchanged is not read; None reads it. `heard` gives the paths that events told of
    since it was called last, before any of them was read; None if events cannot tell, and then only a change time
    that is old enough proves that nobody wrote. Attempts and bytes are bounded: who writes without a pause is not
    waited for.
    """
    readings = {path: capture.known(path, live) or capture.read(path) for path, live in known}
    again = 0
    for _ in range(_ATTEMPTS):
        events = heard()
        moved = [
            path
            for path, reading in readings.items()
            if reading.torn or (events and path in events) or not capture.stands(path, reading, told=events is not None)
        ]
        if not moved:
            return readings, True
        again += sum(readings[path].entry.size for path in moved)
        if again > _AGAIN:
            break
        for path in moved:
            readings[path] = capture.read(path)
    return readings, False
