"""Listing: what is in a directory now, by directory descriptors, never through a link, without what is ignored."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from mulligan.descent import open_directory, open_root
from mulligan.model import Kind, RelPath, Stat
from mulligan.watch.ignore import IgnoreRules

_KINDS = {stat.S_IFDIR: Kind.DIR, stat.S_IFREG: Kind.FILE, stat.S_IFLNK: Kind.LINK}


@dataclass(slots=True)
class Found:
    """An entry of a listing; `stat.seen` is 0: the caller knows when it looked."""

    path: bytes
    stat: Stat
    kind: Kind


def list_directory(root: bytes, directory: RelPath, rules: IgnoreRules) -> Iterator[Found]:
    """The entries of one directory that are not ignored; one that vanishes meanwhile is left out. Raises OSError."""
    root_fd = open_root(root)
    try:
        fd = open_directory(root_fd, directory)
    finally:
        os.close(root_fd)
    prefix = directory + b"/" if directory else b""
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                path = prefix + os.fsencode(entry.name)
                is_dir = entry.is_dir(follow_symlinks=False)
                if rules.judge(RelPath(path), is_dir):
                    continue
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                mode = found.st_mode
                yield Found(
                    path,
                    Stat(found.st_dev, found.st_ino, found.st_size, mode, found.st_mtime_ns, found.st_ctime_ns),
                    _KINDS.get(stat.S_IFMT(mode), Kind.SPECIAL),
                )
    finally:
        os.close(fd)


def root_identity(root: bytes) -> tuple[int, int] | None:
    """(device, inode) of a root, or None if no directory stands there."""
    try:
        found = os.stat(root)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None
