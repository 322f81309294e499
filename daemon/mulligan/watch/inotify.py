"""Watching by inotify: a thread that reads, parses and notes, and an exact barrier.

The kernel queues an event inside the system call that causes it. So reading the bytes that are queued at a moment
gives every change made before it: no cookie is written anywhere, and "until it is empty" need never be waited for.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import select
import termios
import threading
from collections.abc import Callable

from mulligan.watch import inotify_reader as raw
from mulligan.watch.inotify_reader import Reader, open_reader
from mulligan.watch.observer import Changes
from mulligan.watch.tree import WatchTree

__all__ = ["InotifyObserver", "open_reader"]

_MASK = (
    raw.IN_MODIFY | raw.IN_ATTRIB | raw.IN_CLOSE_WRITE | raw.IN_MOVED_FROM | raw.IN_MOVED_TO | raw.IN_CREATE
    | raw.IN_DELETE | raw.IN_ONLYDIR | raw.IN_DONT_FOLLOW | raw.IN_EXCL_UNLINK
)  # fmt: skip
_ROOT_MASK = (_MASK & ~raw.IN_DONT_FOLLOW) | raw.IN_DELETE_SELF | raw.IN_MOVE_SELF
_FINISHED = raw.IN_CLOSE_WRITE | raw.IN_MOVED_FROM | raw.IN_MOVED_TO | raw.IN_DELETE | raw.IN_ATTRIB
_STRUCTURE = raw.IN_CREATE | raw.IN_MOVED_FROM | raw.IN_MOVED_TO | raw.IN_DELETE
_ROOT_GONE = raw.IN_DELETE_SELF | raw.IN_MOVE_SELF | raw.IN_UNMOUNT
#: An event with the longest name takes 272 bytes; a read gives whole events only.
_BUFFER = 1 << 17
_MIN_BUFFER = 4096


class InotifyObserver:
    """One inotify instance for one root. `reader` is consumed: `stop` closes it."""

    def __init__(self, root: bytes, now: Callable[[], int], reader: Reader) -> None:
        self._root, self._now, self._reader = root, now, reader
        self._tree = WatchTree()
        self._lock = threading.Lock()
        self._changes = Changes()
        self._quit_read, self._quit_write = os.pipe()
        self._thread = threading.Thread(target=self._read, name="inotify", daemon=True)
        self._wake: Callable[[], None] = lambda: None
        self.root_gone = False
        self.limit_reached = ""

    @property
    def watched(self) -> int:
        """Directories that are watched."""
        return len(self._tree)

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to read."""
        self._wake = wake
        self._thread.start()

    def stop(self) -> None:
        """End the thread, then close everything."""
        os.write(self._quit_write, b"!")
        if self._thread.is_alive():
            self._thread.join()
        self._reader.close()
        os.close(self._quit_read)
        os.close(self._quit_write)

    def watch(self, directory: bytes) -> bool:
        """Watch one directory; False if it is gone, no directory, or there are no more watches."""
        path = self._root + b"/" + directory if directory else self._root
        with self._lock:
            try:
                descriptor = self._reader.add(path, _MASK if directory else _ROOT_MASK)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    self.limit_reached = (
                        f"no more inotify watches after {len(self._tree)} directories: the rest is found by scanning;"
                        " raise fs.inotify.max_user_watches"
                    )
                return False
            self._tree.add(directory, descriptor)
        return True

    def is_watched(self, directory: bytes) -> bool:
        """Whether a directory is watched under this name."""
        return directory in self._tree

    def forget(self, directory: bytes) -> None:
        """Stop watching a directory and everything below it."""
        with self._lock:
            self._drop(directory)

    def _drop(self, directory: bytes) -> None:
        for descriptor in self._tree.drop(directory):
            self._reader.remove(descriptor)

    def barrier(self, timeout_seconds: float) -> bool:
        """Read what is queued at this moment; exact."""
        with self._lock:
            size = array.array("i", [0])
            fcntl.ioctl(self._reader.fd, termios.FIONREAD, size)
            left = size[0]
            while left > 0:
                got = self._take(max(min(left, _BUFFER), _MIN_BUFFER))
                if got == 0:
                    break
                left -= got
        return True

    def drain(self) -> Changes:
        """Take what was gathered."""
        with self._lock:
            changes, self._changes = self._changes, Changes()
        return changes

    def _read(self) -> None:
        poller = select.poll()
        poller.register(self._reader.fd, select.POLLIN)
        poller.register(self._quit_read, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poller.poll()]
            if self._quit_read in ready:
                return
            with self._lock:
                self._take(_BUFFER)
            self._wake()

    def _take(self, size: int) -> int:
        """Read and note; the lock is held. Returns the bytes read."""
        try:
            data = os.read(self._reader.fd, size)
        except BlockingIOError:
            return 0
        now = self._now()
        for descriptor, mask, _, name in self._reader.parse(data):
            self._note(descriptor, mask, name, now)
        return len(data)

    def _note(self, descriptor: int, mask: int, name: bytes, now: int) -> None:
        if mask & raw.IN_Q_OVERFLOW:
            self._changes.overflow = True
            return
        directory = self._tree.directory(descriptor)
        if directory is None:
            return
        if not directory and mask & _ROOT_GONE:
            self.root_gone = True
        if mask & raw.IN_IGNORED:
            self._tree.remove_descriptor(descriptor)
            return
        if not name:
            return
        path = directory + b"/" + name if directory else name
        self._changes.touch(path, now, finished=bool(mask & _FINISHED))
        if mask & raw.IN_ISDIR and mask & _STRUCTURE:
            # Whatever stood below this name may be elsewhere now: its watches would speak under a wrong name.
            self._drop(path)
            self._changes.directories.add(path)
