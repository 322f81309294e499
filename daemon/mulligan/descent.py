"""Opening things below a root by directory descriptors, never through a symbolic link.

A path is walked name by name from the root with O_NOFOLLOW, so a directory that was swapped for a link, at any moment,
ends in an error and not outside of the tree.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from mulligan.model import RelPath

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_root(root: bytes) -> int:
    """A descriptor of the root; a link in the root's own path is the user's way to name it. Raises OSError."""
    return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def open_directory(root_fd: int, directory: bytes) -> int:
    """A new descriptor of a directory below the root ("" is the root itself). Raises OSError (ELOOP for a link)."""
    if not directory:
        return os.dup(root_fd)
    first, *others = directory.split(b"/")
    fd = os.open(first, _DIRECTORY, dir_fd=root_fd)
    for name in others:
        try:
            below = os.open(name, _DIRECTORY, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    return fd


@contextmanager
def parent_of(root_fd: int, path: RelPath | bytes) -> Iterator[tuple[int, bytes]]:
    """(descriptor of the directory that holds a path, the path's last name). Raises OSError."""
    directory, _, name = path.rpartition(b"/")
    fd = open_directory(root_fd, directory)
    try:
        yield fd, name
    finally:
        os.close(fd)
