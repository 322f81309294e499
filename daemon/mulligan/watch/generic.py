"""Watching by watchdog's own observer: FSEvents on macOS, its poller elsewhere.

It reports paths late and gives no barrier, so a barrier asks for a comparison of the whole tree.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer as WatchdogObserver

from mulligan.watch.observer import Changes

_READ_ONLY = {"opened", "closed_no_write"}


class _Handler(FileSystemEventHandler):
    def __init__(self, note: Callable[[FileSystemEvent], None]) -> None:
        self._note = note

    def on_any_event(self, event: FileSystemEvent) -> None:
        self._note(event)


class GenericObserver:
    """One of watchdog's observers for one root; `make` makes it."""

    def __init__(self, root: bytes, now: Callable[[], int], make: Callable[[], Any] = WatchdogObserver) -> None:
        self._root, self._now = root, now
        self._prefix = root.rstrip(b"/") + b"/"
        self._lock = threading.Lock()
        self._changes = Changes()
        self._directories: set[bytes] = set()
        self._wake: Callable[[], None] = lambda: None
        self._observer = make()
        self.root_gone = False
        self.limit_reached = ""

    @property
    def watched(self) -> int:
        """Directories that were listed."""
        return len(self._directories)

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to watch the whole root; what is ignored is passed over by the worker."""
        self._wake = wake
        self._observer.schedule(_Handler(self._note), os.fsdecode(self._root), recursive=True)
        self._observer.start()

    def _note(self, event: FileSystemEvent) -> None:
        if event.event_type in _READ_ONLY:
            return
        now = self._now()
        with self._lock:
            for name in (event.src_path, event.dest_path):
                path = os.fsencode(name)
                if path == self._root and event.event_type in ("deleted", "moved"):
                    self.root_gone = True
                if not path.startswith(self._prefix):
                    continue
                below = path[len(self._prefix) :]
                self._changes.touch(below, now, finished=event.event_type != "modified")
                if event.is_directory and event.event_type != "modified":
                    self._changes.directories.add(below)
        self._wake()

    def watch(self, directory: bytes) -> bool:
        """The whole root is watched already."""
        with self._lock:
            self._directories.add(directory)
        return True

    def is_watched(self, directory: bytes) -> bool:
        """Whether a directory was listed under this name."""
        return directory in self._directories

    def forget(self, directory: bytes) -> None:
        """Forget that a directory and everything below it was listed."""
        below = directory + b"/" if directory else b""
        with self._lock:
            self._directories = {path for path in self._directories if path != directory and not path.startswith(below)}

    def barrier(self, timeout_seconds: float) -> bool:
        """Nothing is sure without a comparison."""
        return False

    def drain(self) -> Changes:
        """Take what was gathered."""
        with self._lock:
            changes, self._changes = self._changes, Changes()
        return changes

    def stop(self) -> None:
        """End watchdog's threads."""
        self._observer.stop()
        if self._observer.is_alive():
            self._observer.join()
