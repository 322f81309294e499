"""Sharing the blocks of a file that stands somewhere already, on file systems that can (Btrfs, XFS, bcachefs).

What was shared is read back and held against its hash, so the file may be written to at any moment.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import sys

from mulligan.descent import open_root, parent_of
from mulligan.model import Entry

#: ioctl_ficlone(2).
_FICLONE = 0x40049409
#: Smaller files do not fill a block: nothing would be saved (bytes).
_SMALLEST = 4096
_BLOCK = 1 << 20
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
#: The file system cannot, or the two are not on one.
_NEVER = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EPERM)


class Origin:
    """A tree whose files may have wanted contents at the same paths; without one (b"") nothing is shared."""

    def __init__(self, root: bytes) -> None:
        self._fd = -1
        if root and sys.platform == "linux":
            try:
                self._fd = open_root(root)
            except OSError:
                self._fd = -1

    def __enter__(self) -> Origin:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def share(self, path: bytes, target: Entry, fd: int) -> bool:
        """Fill an empty file with the tree's, if that is the target; else it is left empty. Raises nothing."""
        if self._fd < 0 or target.size < _SMALLEST:
            return False
        try:
            with parent_of(self._fd, path) as (directory, name):
                found = os.open(name, _READ, dir_fd=directory)
        except OSError:
            return False
        try:
            status = os.fstat(found)
            if not stat.S_ISREG(status.st_mode) or status.st_size != target.size or not self._clone(found, fd):
                return False
            if _sha256(fd) == target.hash:
                return True
            os.ftruncate(fd, 0)
        except OSError:
            os.ftruncate(fd, 0)
        finally:
            os.close(found)
        return False

    def _clone(self, source: int, fd: int) -> bool:
        try:
            fcntl.ioctl(fd, _FICLONE, source)
        except OSError as error:
            if error.errno in _NEVER:
                self._close()  # the next one will not work either
            return False
        return True


def _sha256(fd: int) -> bytes:
    digest, offset = hashlib.sha256(), 0
    while block := os.pread(fd, _BLOCK, offset):
        digest.update(block)
        offset += len(block)
    return digest.digest()
