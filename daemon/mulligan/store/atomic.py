"""The one durable-write routine, and directories that are private from their creation on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

UNFINISHED = ".new"


def make_private_directory(path: str) -> None:
    """Create `path` and its missing parents with mode 0700, whatever the umask; an existing one is left as it is."""
    missing = []
    head = Path(path)
    while not head.exists():
        missing.append(head)
        head = head.parent
    for directory in reversed(missing):
        try:
            # mkdir's mode is cut by the umask only downwards, so 0700 is never wider than that.
            directory.mkdir(mode=0o700)
        except FileExistsError:
            continue


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte; a short write goes on, an error is raised."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


@contextmanager
def replacing(path: str, mode: int = 0o600, directory: int | None = None) -> Iterator[BinaryIO]:
    """Replace a file as a whole by what is written: temporary file, fsync, rename, fsync of the directory.

    With `directory`, a descriptor, `path` is a name in it, and no other directory is touched.

    A crash leaves the old or the new content, never a mixture; a left-over temporary file, of the same name with
    `UNFINISHED` at its end, is overwritten next time. After an exception within, the old content stays.
    """
    temporary = path + UNFINISHED
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(temporary, flags, mode, dir_fd=directory)
    with open(fd, "wb") as file:
        yield file
        file.flush()
        os.fsync(fd)
    os.replace(temporary, path, src_dir_fd=directory, dst_dir_fd=directory)
    if directory is None:
        sync_directory(os.path.dirname(path) or ".")
    else:
        os.fsync(directory)


def write_file(path: str, data: bytes, mode: int = 0o600, directory: int | None = None) -> None:
    """Replace a file as a whole by some bytes, as `replacing` does."""
    with replacing(path, mode, directory) as file:
        file.write(data)
