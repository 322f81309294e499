"""Watching by inotify: a thread that reads, parses and notes, and an exact barrier.

The kernel queues an event inside the system call that causes it. So reading the bytes that are queued at a moment
gives every change made before it: no cookie is written anywhere, and "until it is empty" need never be waited for.

What is watched is an inode, under the name that leads to it at that moment: it is opened by descriptors, never through
a link, and asked for its name after the watch stands. One that has been moved meanwhile is not watched, so nothing
outside the root is ever reported.
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

from mulligan.descent import open_directory, open_root
from mulligan.model import RelPath
from mulligan.watch import inotify_reader as raw
from mulligan.watch.inotify_reader import Reader, open_reader
from mulligan.watch.observer import Changes
from mulligan.watch.tree import WatchTree

__all__ = ["InotifyObserver", "open_reader"]

_MASK = (
    raw.IN_MODIFY | raw.IN_ATTRIB | raw.IN_CLOSE_WRITE | raw.IN_MOVED_FROM | raw.IN_MOVED_TO | raw.IN_CREATE
    | raw.IN_DELETE | raw.IN_ONLYDIR | raw.IN_EXCL_UNLINK
)  # fmt: skip
_ROOT_MASK = _MASK | raw.IN_DELETE_SELF | raw.IN_MOVE_SELF
_FINISHED = raw.IN_CLOSE_WRITE | raw.IN_MOVED_FROM | raw.IN_MOVED_TO | raw.IN_DELETE | raw.IN_ATTRIB
_STRUCTURE = raw.IN_CREATE | raw.IN_MOVED_FROM | raw.IN_MOVED_TO | raw.IN_DELETE
#: Another directory may stand at the name now, or none.
_RENAMED = raw.IN_MOVED_FROM | raw.IN_MOVED_TO | raw.IN_DELETE
_ROOT_GONE = raw.IN_DELETE_SELF | raw.IN_MOVE_SELF | raw.IN_UNMOUNT | raw.IN_IGNORED
_ROOT = RelPath(b"")
#: An event with the longest name takes 272 bytes; a read gives whole events only.
_BUFFER = 1 << 17
_MIN_BUFFER = 4096
#: Each watch that is given back queues an event of its own; more at once than the queue holds would be an overflow.
_GIVE_BACK = 1024
_PROC = b"/proc/self/fd/%d"


class InotifyObserver:
    """One inotify instance for one root. `reader` is consumed: `stop` closes it.

    One lock guards everything and is held for no longer than one buffer of events takes. No descriptor of the tree is
    held between calls.
    """

    exact = True

    def __init__(self, root: bytes, now: Callable[[], int], reader: Reader) -> None:
        self._root, self._now, self._reader = root, now, reader
        self._prefix = os.path.realpath(root).rstrip(b"/")
        self._by_descriptor = os.path.isdir("/proc/self/fd")
        self._tree = WatchTree()
        self._retired: set[int] = set()
        self._refused: set[RelPath] = set()
        self._lock = threading.Lock()
        self._changes = Changes()
        self._quit_read, self._quit_write = os.pipe()
        self._thread = threading.Thread(target=self._read, name="inotify", daemon=True)
        self._wake: Callable[[], None] = lambda: None
        self._stopped = False
        self.root_gone = False

    @property
    def watched(self) -> int:
        """Directories that are watched."""
        return len(self._tree)

    @property
    def limit_reached(self) -> str:
        """What to set so that all directories can be watched; "" once they are."""
        if not self._refused:
            return ""
        return (
            f"no more inotify watches: {len(self._tree)} directories are watched, {len(self._refused)} are not and are"
            " found by scanning; raise fs.inotify.max_user_watches"
        )

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to read."""
        self._wake = wake
        self._thread.start()

    def stop(self) -> None:
        """End the thread, then close everything; once."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        os.write(self._quit_write, b"!")
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
        with self._lock:
            self._reader.close()
            os.close(self._quit_read)
            os.close(self._quit_write)

    # watches

    def watch(self, directory: bytes) -> bool:
        """Watch one directory; False if it is gone, no directory, unreadable, or there are no more watches."""
        directory = RelPath(directory)
        try:
            fd = self._open(directory)
        except OSError:
            return False
        try:
            with self._lock:
                return not self._stopped and self._add(directory, fd)
        finally:
            os.close(fd)

    def _open(self, directory: RelPath) -> int:
        fd = open_root(self._root)
        if not directory:
            return fd
        try:
            return open_directory(fd, directory)
        finally:
            os.close(fd)

    def _add(self, directory: RelPath, fd: int) -> bool:
        mask = _MASK if directory else _ROOT_MASK
        if self._by_descriptor:
            path = _PROC % fd
        else:
            path = self._root + b"/" + directory if directory else self._root
            mask |= raw.IN_DONT_FOLLOW if directory else 0
        try:
            descriptor = self._reader.add(path, mask)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                self._refused.add(directory)
            return False
        self._refused.discard(directory)
        # an inode that was given back a moment ago and is watched again has the same descriptor
        self._retired.discard(descriptor)
        self._retired.update(self._tree.bind(descriptor, directory))
        # the lock is held: no event of it is noted before it is known to be in its place
        there = self._stands_at(directory, fd)
        if not there:
            self._tree.unbind(descriptor)
            self._retired.add(descriptor)
        self._give_back()
        return there

    def _stands_at(self, directory: RelPath, fd: int) -> bool:
        """Whether an open directory is the one that its name leads to."""
        try:
            if os.readlink(_PROC % fd) == (self._prefix + b"/" + directory if directory else self._prefix):
                return True
        except OSError:
            pass  # a name longer than the kernel tells, or no /proc
        try:
            other = self._open(directory)
        except OSError:
            return False
        try:
            return os.path.sameopenfile(fd, other)
        finally:
            os.close(other)

    def is_watched(self, directory: bytes) -> bool:
        """Whether a directory is watched under this name."""
        return RelPath(directory) in self._tree

    def forget(self, directory: bytes) -> None:
        """Stop watching a directory and everything below it."""
        with self._lock:
            self._drop(RelPath(directory))
            below = directory + b"/" if directory else b""
            self._refused = {path for path in self._refused if path != directory and not path.startswith(below)}
            if not self._stopped:
                self._give_back()

    def _drop(self, directory: RelPath) -> None:
        self._retired.update(self._tree.drop(directory))

    def _give_back(self) -> None:
        """Give some retired watches back; the events that this queues wake the thread, which goes on."""
        for _ in range(min(len(self._retired), _GIVE_BACK)):
            self._reader.remove(self._retired.pop())

    # events

    def barrier(self, timeout_seconds: float) -> bool:
        """Read what is queued at this moment; exact, and as long as the queue at most: no time-out is needed."""
        with self._lock:
            if self._stopped:
                return False
            size = array.array("i", [0])
            fcntl.ioctl(self._reader.fd, termios.FIONREAD, size)
            left = size[0]
            while left > 0:
                got = self._take(max(min(left, _BUFFER), _MIN_BUFFER))
                if got == 0:
                    break
                left -= got
            self._give_back()
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
        try:
            while self._read_once(poller):
                self._wake()
        finally:
            self._reading_ended()

    def _read_once(self, poller: select.poll) -> bool:
        poller.poll()
        with self._lock:
            if self._stopped:
                return False
            self._take(_BUFFER)
            self._give_back()
        return True

    def _reading_ended(self) -> None:
        """A thread that dies must not leave anybody believing that all is seen."""
        with self._lock:
            if self._stopped:
                return
            self._changes.overflow = True
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
            self._overflowed()
            return
        directory = self._tree.directory(descriptor)
        if directory is None:
            return
        if not name:
            self._note_itself(descriptor, directory, mask)
            return
        path = RelPath(directory + b"/" + name if directory else name)
        moved = bool(mask & raw.IN_MOVED_TO and mask & raw.IN_ISDIR)
        self._changes.touch(path, now, finished=bool(mask & _FINISHED), moved=moved)
        if mask & raw.IN_ISDIR:
            if mask & _RENAMED:
                # Whatever stood below this name may be elsewhere now: its watches would speak under a wrong name.
                self._drop(path)
            if mask & (_STRUCTURE | raw.IN_ATTRIB):
                self._changes.directories.add(path)

    def _note_itself(self, descriptor: int, directory: RelPath, mask: int) -> None:
        """An event of a watched directory itself."""
        if not directory and mask & _ROOT_GONE:
            self.root_gone = True
        if mask & raw.IN_IGNORED:
            # not by us: it was deleted, or its file system was unmounted
            self._tree.unbind(descriptor)
        if mask & (raw.IN_IGNORED | raw.IN_UNMOUNT | raw.IN_ATTRIB):
            self._changes.directories.add(directory)

    def _overflowed(self) -> None:
        """Moves may have been lost, so no name but the root's is sure: watching again restores them one by one."""
        self._changes.overflow = True
        root = self._tree.descriptor(_ROOT)
        self._drop(_ROOT)
        if root is not None:
            self._retired.discard(root)
            self._tree.bind(root, _ROOT)
