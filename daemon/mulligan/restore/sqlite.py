"""Whether an SQLite database is in use: to replace it under a program that has it open would damage it."""

from __future__ import annotations

import fcntl
import os
import struct
import sys

from mulligan.restore.tree import Tree, open_file

_MAGIC = b"SQLite format 3\0"
#: SQLite's lock bytes: pending, reserved and the range of the readers. A connection in WAL mode holds one of them.
_LOCKS_AT, _LOCKS_LENGTH = 0x40000000, 512


def in_use(tree: Tree, path: bytes) -> bool:
    """Whether another process holds a lock on a database; false for what is not one or cannot be opened."""
    try:
        directory, name = tree.parent(path)
    except OSError:
        return False
    try:
        fd = open_file(directory, name)
    except OSError:
        return False
    finally:
        tree.release(directory)
    try:
        return os.pread(fd, len(_MAGIC), 0) == _MAGIC and _locked(fd)
    except OSError:
        return False
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    if sys.platform == "darwin":
        layout = struct.Struct("qqihh")
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, layout.pack(_LOCKS_AT, _LOCKS_LENGTH, 0, fcntl.F_WRLCK, os.SEEK_SET))
        return bool(layout.unpack(answer)[3] != fcntl.F_UNLCK)
    layout = struct.Struct("hhqqi4x")
    answer = fcntl.fcntl(fd, fcntl.F_GETLK, layout.pack(fcntl.F_WRLCK, os.SEEK_SET, _LOCKS_AT, _LOCKS_LENGTH, 0))
    return bool(layout.unpack(answer)[0] != fcntl.F_UNLCK)
