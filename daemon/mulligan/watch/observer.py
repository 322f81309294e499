"""One interface for all ways to watch a tree, and the choice between them.

An observer gathers names of places where something happened. It concludes nothing: what is true there the worker finds
out on disk. `watch` is called before a directory is listed, so nothing created in between is missed.
"""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Touch:
    """Events of one path: when the first and the last arrived; `finished`: closed, moved, deleted or chmod."""

    first: int
    last: int
    finished: bool


@dataclass(slots=True)
class Changes:
    """What was gathered since the last drain. After an overflow only a comparison of the whole tree tells."""

    entries: dict[bytes, Touch] = field(default_factory=dict)
    directories: set[bytes] = field(default_factory=set)
    overflow: bool = False

    def touch(self, path: bytes, now: int, *, finished: bool) -> None:
        """Note an event of a path."""
        known = self.entries.get(path)
        if known is None:
            self.entries[path] = Touch(now, now, finished)
        else:
            known.last = now
            known.finished = known.finished or finished


class Observer(Protocol):
    """Watches the directories of one root. All methods but `start` may be called from the worker's thread at any time.

    `root_gone` turns true when the root itself was removed, moved or unmounted. `limit_reached` says which limit of
    the system keeps directories unwatched, and what to set; "" if none does.
    """

    root_gone: bool
    limit_reached: str

    @property
    def watched(self) -> int:
        """Directories that are watched."""

    def start(self, wake: Callable[[], None]) -> None:
        """Begin; `wake` is called from another thread when there is something to drain, and must not block."""

    def watch(self, directory: bytes) -> bool:
        """Watch one directory ("" is the root), not what is below it; idempotent. False if it could not be."""

    def is_watched(self, directory: bytes) -> bool:
        """Whether a directory is watched under this name."""

    def forget(self, directory: bytes) -> None:
        """Stop watching a directory and everything below it."""

    def barrier(self, timeout_seconds: float) -> bool:
        """After this, `drain` has every event that was queued before the call; False if that cannot be promised."""

    def drain(self) -> Changes:
        """Take what was gathered."""

    def stop(self) -> None:
        """End; the observer cannot be used again."""


def make_observer(root: bytes, now: Callable[[], int]) -> Observer:
    """The best observer that this system has for a root."""
    if sys.platform != "linux":
        from mulligan.watch.generic import GenericObserver  # noqa: PLC0415 - each platform loads its own

        return GenericObserver(root, now)
    from mulligan.watch.inotify import InotifyObserver, open_reader  # noqa: PLC0415
    from mulligan.watch.polling import PollingObserver  # noqa: PLC0415

    try:
        return InotifyObserver(root, now, open_reader())
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        limit = "no more inotify instances: changes are found by scanning; raise fs.inotify.max_user_instances"
        log.warning("%s", limit)
        return PollingObserver(limit)
