"""Renames that never overwrite: two names exchanged, or one moved to a name that is free; and durability in bulk.

Python offers neither, so the system's own calls are used through ctypes. All names are relative to directory
descriptors. On macOS the same calls have other names; that branch is written from their documentation.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import sys
from collections.abc import Callable

_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_DARWIN = sys.platform == "darwin"
_NOREPLACE, _EXCHANGE = (0x4, 0x2) if _DARWIN else (0x1, 0x2)
#: For C libraries that have no wrapper of renameat2.
_SYSCALL = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "armv7l": 382, "i686": 353, "ppc64le": 357, "s390x": 347}

_Rename = Callable[[int, bytes, int, bytes, int], int]


def _load() -> tuple[_Rename | None, Callable[[int], int] | None]:
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    rename: _Rename | None = None
    function = getattr(libc, "renameatx_np" if _DARWIN else "renameat2", None)
    if function is not None:
        function.argtypes, function.restype = arguments, ctypes.c_int
        rename = function
    elif (number := _SYSCALL.get(platform.machine())) is not None and hasattr(libc, "syscall"):
        function = libc.syscall
        function.argtypes, function.restype = (ctypes.c_long, *arguments), ctypes.c_long

        def rename(old_fd: int, old: bytes, new_fd: int, new: bytes, flags: int) -> int:
            return int(function(number, old_fd, old, new_fd, new, flags))

    sync = getattr(libc, "syncfs", None)
    if sync is not None:
        sync.argtypes, sync.restype = (ctypes.c_int,), ctypes.c_int
    return rename, sync


_rename, _syncfs = _load()


def _call(old_fd: int, old: bytes, new_fd: int, new: bytes, flags: int) -> None:
    if _rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if _rename(old_fd, old, new_fd, new, flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fsdecode(new))


def exchange(old_fd: int, old: bytes, new_fd: int, new: bytes) -> None:
    """Exchange two existing names in one step; both may be of any kind. Raises OSError."""
    _call(old_fd, old, new_fd, new, _EXCHANGE)


def exchange_by_moves(old_fd: int, old: bytes, new_fd: int, new: bytes) -> None:
    """Exchange two names where the file system cannot: the new name is free for a moment.

    What stood there is held as `old` + ".out" in between, so that a crash leaves it in the stage.
    """
    aside = old + b".out"
    move(new_fd, new, old_fd, aside)
    try:
        move(old_fd, old, new_fd, new)
    except OSError:
        with contextlib.suppress(FileExistsError):
            move(old_fd, aside, new_fd, new)
        raise
    os.rename(aside, old, src_dir_fd=old_fd, dst_dir_fd=old_fd)


def move(old_fd: int, old: bytes, new_fd: int, new: bytes) -> None:
    """Move to a name that must be free: raises FileExistsError if it is not, other OSErrors as they come.

    Where the file system cannot promise that, the name is looked at first.
    """
    try:
        _call(old_fd, old, new_fd, new, _NOREPLACE)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        try:
            os.stat(new, dir_fd=new_fd, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(old, new, src_dir_fd=old_fd, dst_dir_fd=new_fd)
        else:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(new)) from None


def reachable(old_fd: int, new_fd: int) -> bool:
    """Whether a rename from one directory into the other can work: same device, and same mount.

    Nothing is touched: the source does not exist, and the kernel compares the mounts before it looks for it.
    """
    if os.fstat(old_fd).st_dev != os.fstat(new_fd).st_dev:
        return False
    name = b".mulligan-nothing~"
    try:
        os.rename(name, name, src_dir_fd=old_fd, dst_dir_fd=new_fd)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def exchanges(directory: int) -> bool:
    """Whether the file system of a directory of ours can exchange names; tried with two files."""
    names = (b"probe.a", b"probe.b")
    for name in names:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory))
    try:
        exchange(directory, names[0], directory, names[1])
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        return False
    finally:
        for name in names:
            os.unlink(name, dir_fd=directory)
    return True


def sync_filesystem(fd: int) -> None:
    """Make everything on the file system of a descriptor durable; the whole machine where that is all there is."""
    if _syncfs is None:
        os.sync()
    elif _syncfs(fd) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
