"""Reading inotify: by watchdog's own low-level reader, or by a few calls of our own where that one has changed.

watchdog's `InotifyFD` is not public, so everything that we take from it is named here and held by one conformance
suite with the fallback. Neither reader has a thread; descriptors are non-blocking and closed on exec.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from typing import Protocol

IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE = 0x2, 0x4, 0x8
IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x40, 0x80, 0x100, 0x200
IN_DELETE_SELF, IN_MOVE_SELF, IN_UNMOUNT = 0x400, 0x800, 0x2000
IN_Q_OVERFLOW, IN_IGNORED = 0x4000, 0x8000
IN_ONLYDIR, IN_DONT_FOLLOW, IN_EXCL_UNLINK, IN_ISDIR = 0x1000000, 0x2000000, 0x4000000, 0x40000000

_EVENT = struct.Struct("iIII")
RawEvent = tuple[int, int, int, bytes]


class Reader(Protocol):
    """An inotify instance: `fd` to poll and read, watches to add and remove, events to parse."""

    fd: int

    def add(self, path: bytes, mask: int) -> int:
        """A watch descriptor. Raises OSError."""

    def remove(self, descriptor: int) -> None:
        """Give a watch back; one that is gone already is fine."""

    def parse(self, data: bytes) -> Iterator[RawEvent]:
        """(descriptor, mask, cookie, name) of each event in what was read."""

    def close(self) -> None:
        """Close the instance and all its watches."""


class WatchdogReader:
    """watchdog's reader without its thread and its table of callbacks (one object and one dict a directory)."""

    def __init__(self) -> None:
        from watchdog.observers import inotify_c  # noqa: PLC0415 - absent on other systems

        self._add, self._remove = inotify_c.inotify_add_watch, inotify_c.inotify_rm_watch
        self._parse = inotify_c.InotifyFD._parse_event_buffer
        self.fd = inotify_c.InotifyFD._create_inotify_fd()
        os.set_inheritable(self.fd, False)
        os.set_blocking(self.fd, False)

    def add(self, path: bytes, mask: int) -> int:
        """A watch descriptor. Raises OSError."""
        descriptor = self._add(self.fd, path, mask)
        if descriptor < 0:
            raise _error(path)
        return int(descriptor)

    def remove(self, descriptor: int) -> None:
        """Give a watch back."""
        self._remove(self.fd, descriptor)  # type: ignore[arg-type]

    def parse(self, data: bytes) -> Iterator[RawEvent]:
        """The events of a buffer."""
        yield from self._parse(data)

    def close(self) -> None:
        """Close the instance."""
        os.close(self.fd)


class CtypesReader:
    """The three system calls by ctypes."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.inotify_add_watch.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]
        self.fd = int(self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        if self.fd < 0:
            raise _error(b"")

    def add(self, path: bytes, mask: int) -> int:
        """A watch descriptor. Raises OSError."""
        descriptor = int(self._libc.inotify_add_watch(self.fd, path, mask))
        if descriptor < 0:
            raise _error(path)
        return descriptor

    def remove(self, descriptor: int) -> None:
        """Give a watch back."""
        self._libc.inotify_rm_watch(self.fd, descriptor)

    def parse(self, data: bytes) -> Iterator[RawEvent]:
        """The events of a buffer."""
        position = 0
        while position + _EVENT.size <= len(data):
            descriptor, mask, cookie, length = _EVENT.unpack_from(data, position)
            position += _EVENT.size
            yield descriptor, mask, cookie, data[position : position + length].rstrip(b"\0")
            position += length

    def close(self) -> None:
        """Close the instance."""
        os.close(self.fd)


def _error(path: bytes) -> OSError:
    number = ctypes.get_errno() or errno.EIO
    return OSError(number, os.strerror(number), os.fsdecode(path))


def open_reader() -> Reader:
    """watchdog's reader; ours if watchdog's is not what we know. Raises OSError (EMFILE: too many instances)."""
    try:
        return WatchdogReader()
    except (ImportError, AttributeError):
        return CtypesReader()
