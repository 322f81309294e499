"""Watching by comparing: an observer that knows nothing and says so, so that the worker scans.

It serves where no events are to be had: no inotify instance is left, or the file system is a network's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from mulligan.watch.observer import Changes

POLL_SECONDS = 2.0


class PollingObserver:
    """Asks for a comparison of the whole tree every `seconds`, and at every barrier."""

    def __init__(self, limit_reached: str = "", seconds: float = POLL_SECONDS) -> None:
        self.root_gone = False
        self.limit_reached = limit_reached
        self._seconds = seconds
        self._due = False
        self._directories: set[bytes] = set()
        self._quit = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="polling", daemon=True)
        self._wake: Callable[[], None] = lambda: None

    @property
    def watched(self) -> int:
        """Directories that are looked at."""
        return len(self._directories)

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to ask."""
        self._wake = wake
        self._thread.start()

    def _tick(self) -> None:
        while not self._quit.wait(self._seconds):
            self._due = True
            self._wake()

    def watch(self, directory: bytes) -> bool:
        """Note a directory."""
        self._directories.add(directory)
        return True

    def is_watched(self, directory: bytes) -> bool:
        """Whether a directory was noted."""
        return directory in self._directories

    def forget(self, directory: bytes) -> None:
        """Forget a directory and everything below it."""
        below = directory + b"/" if directory else b""
        self._directories = {path for path in self._directories if path != directory and not path.startswith(below)}

    def barrier(self, timeout_seconds: float) -> bool:
        """Nothing is known without a comparison."""
        return False

    def drain(self) -> Changes:
        """Nothing but whether a comparison is due."""
        due, self._due = self._due, False
        return Changes(overflow=due)

    def stop(self) -> None:
        """End."""
        self._quit.set()
        if self._thread.is_alive():
            self._thread.join()
