"""One daemon per data directory: an advisory lock that the kernel drops when the process dies."""

from __future__ import annotations

import fcntl
import os

from mulligan.errors import LockedError


class DirectoryLock:
    """Holds `<directory>/lock` until `release`. Raises LockedError (exit 75) if another process has it."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, "lock")
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise LockedError(
                f"another mulligand (pid {holder or 'unknown'}) holds {directory}",
                hint="see it with: mulligan status",
            ) from error
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the lock up. The file stays: unlinking it would let two processes lock two inodes. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
