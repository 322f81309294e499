"""Watching by watchdog's own observers: FSEvents on macOS, and comparing where a file system tells nothing.

Both look at the whole tree below the root, so what lies in a directory that nobody asked to watch is passed over here.
The native observer's barrier is a cookie: a file made in the root, whose event comes after all earlier ones. The
poller's barrier is one more comparison, made at once and by the caller.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import stat
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer as WatchdogObserver
from watchdog.observers.api import BaseObserver
from watchdog.observers.polling import PollingEmitter

from mulligan.model import RelPath
from mulligan.watch.observer import Changes
from mulligan.watch.scan import list_directory

POLL_SECONDS = 5.0
_READ_ONLY = {"opened", "closed_no_write"}
_COOKIE_NUMBERS = itertools.count(1)


class _Handler(FileSystemEventHandler):
    def __init__(self, note: Callable[[FileSystemEvent], None]) -> None:
        self._note = note

    def on_any_event(self, event: FileSystemEvent) -> None:
        self._note(event)


class GenericObserver:
    """One of watchdog's observers for one root; `make` makes it."""

    limit_reached = ""
    exact = False

    def __init__(self, root: bytes, now: Callable[[], int], make: Callable[[], Any] = WatchdogObserver) -> None:
        self._root, self._now = os.path.realpath(root), now
        self._prefix = self._root.rstrip(b"/") + b"/"
        self._lock = threading.Lock()
        self._changes = Changes()
        self._directories: set[bytes] = set()
        self._cookies: dict[bytes, threading.Event] = {}
        self._wake: Callable[[], None] = lambda: None
        self._observer = make()
        self.root_gone = False

    @property
    def watched(self) -> int:
        """Directories whose events are not passed over."""
        return len(self._directories)

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to watch the whole root."""
        self._wake = wake
        try:
            self._observer.schedule(_Handler(self._note), os.fsdecode(self._root), recursive=True)
            self._observer.start()
        except (FileNotFoundError, NotADirectoryError):
            self.root_gone = True

    def watch(self, directory: bytes) -> bool:
        """Let events of a directory count; False if no directory stands there."""
        if not os.path.isdir(self._absolute(directory)) or os.path.islink(self._absolute(directory)):
            return False
        with self._lock:
            self._directories.add(directory)
        return True

    def is_watched(self, directory: bytes) -> bool:
        """Whether events of a directory count."""
        return directory in self._directories

    def forget(self, directory: bytes) -> None:
        """Pass over a directory and everything below it from now on."""
        with self._lock:
            self._drop(directory)

    def barrier(self, timeout_seconds: float) -> bool:
        """Make a cookie in the root and wait for its event; False if it does not come in time."""
        number = next(_COOKIE_NUMBERS)
        name = f".mulligan-cookie-{os.getpid()}-{number}~".encode()
        seen = threading.Event()
        with self._lock:
            self._cookies[name] = seen
        path = self._absolute(name)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            return seen.wait(timeout_seconds)
        except OSError:
            return False
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)
            with self._lock:
                del self._cookies[name]

    def drain(self) -> Changes:
        """Take what was gathered."""
        with self._lock:
            changes, self._changes = self._changes, Changes()
        return changes

    def stop(self) -> None:
        """End watchdog's threads."""
        self._observer.stop()
        if self._observer.is_alive() and self._observer is not threading.current_thread():
            self._observer.join()

    def _absolute(self, path: bytes) -> bytes:
        return self._prefix + path if path else self._root

    def _drop(self, directory: bytes) -> None:
        below = directory + b"/" if directory else b""
        self._directories = {path for path in self._directories if path != directory and not path.startswith(below)}

    def _note(self, event: FileSystemEvent) -> None:
        if event.event_type in _READ_ONLY:
            return
        now = self._now()
        with self._lock:
            for name in (event.src_path, event.dest_path):
                if name:
                    self._note_path(os.fsencode(name), event, now)
            gathered = self._changes.entries or self._changes.directories or self.root_gone
        if gathered:
            self._wake()

    def _note_path(self, absolute: bytes, event: FileSystemEvent, now: int) -> None:
        kind = event.event_type
        if absolute == self._root:
            self.root_gone = self.root_gone or kind in ("deleted", "moved")
            if kind == "modified" and b"" in self._directories:
                self._changes.directories.add(b"")
            return
        if not absolute.startswith(self._prefix):
            return
        path = absolute[len(self._prefix) :]
        if path.startswith(b".mulligan-cookie-"):
            if (cookie := self._cookies.get(path)) is not None:
                cookie.set()
            return
        if path.rpartition(b"/")[0] not in self._directories:
            return
        if not event.is_directory:
            self._changes.touch(path, now, finished=kind != "modified")
        elif kind != "modified":
            self._changes.touch(path, now, finished=True, moved=kind == "moved")
            self._changes.directories.add(path)
            if kind in ("moved", "deleted"):
                self._drop(path)
        elif path in self._directories:
            self._changes.directories.add(path)


class _Signature(NamedTuple):
    """What the poller compares: `st_mtime` is the change time, which nobody can set back."""

    st_mode: int
    st_ino: int
    st_dev: int
    st_size: int
    st_mtime: int


def _signature(path: bytes | str) -> _Signature:
    seen = os.lstat(path)
    size = 0 if stat.S_ISDIR(seen.st_mode) else seen.st_size
    return _Signature(seen.st_mode, seen.st_ino, seen.st_dev, size, seen.st_ctime_ns)


class _Emitter(PollingEmitter):
    """watchdog's comparison, told at once in the thread that asks for it, one at a time."""

    def __init__(self, *arguments: Any, polled: PolledObserver, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._polled, self._one_at_a_time = polled, threading.Lock()

    def queue_event(self, event: FileSystemEvent) -> None:
        self._polled.compared(event)

    def queue_events(self, timeout: float) -> None:
        if self.stopped_event.wait(timeout):
            return
        with self._one_at_a_time:
            super().queue_events(0)
            self._polled.comparison_ended()


class PolledObserver(GenericObserver):
    """Compares the watched directories every `seconds`, and at every barrier; for file systems that tell nothing.

    A change that leaves size, change time, inode and mode as they were is not seen, so a barrier is as exact as the
    file system's clock is fine.
    """

    def __init__(self, root: bytes, now: Callable[[], int], seconds: float = POLL_SECONDS) -> None:
        emitter: Any = functools.partial(_Emitter, stat=self._stat, listdir=self._list, polled=self)
        super().__init__(root, now, lambda: BaseObserver(emitter, timeout=seconds))
        # directories as they were when they began to be watched, until the first comparison that has them
        self._fresh: dict[bytes, dict[bytes, _Signature]] = {}
        self._seen: dict[bytes, set[bytes]] = {}
        self._unchanged: set[bytes] = set()

    def watch(self, directory: bytes) -> bool:
        """Compare a directory from now on; it is looked at before this returns."""
        if directory in self._directories:
            return os.path.isdir(self._absolute(directory))
        try:
            found = [each.path for each in list_directory(self._root, RelPath(directory), None)]
        except OSError:
            return False
        fresh = {}
        for path in found:
            with contextlib.suppress(OSError):
                fresh[path] = _signature(self._absolute(path))
        with self._lock:
            self._fresh[directory] = fresh
            self._directories.add(directory)
        return True

    def barrier(self, timeout_seconds: float) -> bool:
        """Compare now; False if the root is gone."""
        for emitter in list(self._observer.emitters):
            emitter.queue_events(0)
            return not self.root_gone
        return False

    def compared(self, event: FileSystemEvent) -> None:
        """Called with each difference of a comparison."""
        path = os.fsencode(event.src_path)
        if event.event_type == "created" and path in self._unchanged:
            return
        self._note(event)

    def comparison_ended(self) -> None:
        """What vanished from a directory between the beginning of its watch and the first comparison is told now."""
        with self._lock:
            first = [(self._fresh.pop(each), names) for each, names in self._seen.items() if each in self._fresh]
            self._seen, self._unchanged = {}, set()
            gone = [path for fresh, names in first for path in fresh.keys() - names]
            now = self._now() if gone else 0
            for path in gone:
                self._changes.touch(path, now, finished=True)
                self._changes.directories.add(path)
        if gone:
            self._wake()

    def _stat(self, path: str) -> Any:
        absolute = os.fsencode(path)
        signature = _signature(absolute)
        relative = absolute[len(self._prefix) :]
        fresh = self._fresh.get(relative.rpartition(b"/")[0]) if relative else None
        if fresh is not None and fresh.get(relative) == signature:
            self._unchanged.add(absolute)
        return signature

    def _list(self, path: str | None) -> Iterator[os.DirEntry[str]]:
        directory = os.fsencode(path or "")[len(self._prefix) :]
        if directory not in self._directories:
            return iter(())
        try:
            with os.scandir(path) as entries:
                found = list(entries)
        except PermissionError:
            return iter(())
        if directory in self._fresh:
            prefix = directory + b"/" if directory else b""
            self._seen[directory] = {prefix + os.fsencode(entry.name) for entry in found}
        return iter(found)
