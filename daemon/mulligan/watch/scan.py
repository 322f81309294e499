"""Listing: what is in a directory now, by directory descriptors, never through a link, without what is ignored.

A walk holds the descriptors of the directories that it is in, and no more than `_OPEN_LIMIT` of them: a tree may be
deeper than a process may have files open, than a path may be long, and than Python may recurse.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Container, Generator, Iterator

import msgspec

from mulligan.descent import open_directory, open_root
from mulligan.errors import NotFoundError
from mulligan.model import Kind, RelPath, Stat
from mulligan.watch.ignore import IgnoreRules

UNREADABLE, OTHER_MOUNT = "unreadable", "another file system"
_KINDS = {stat.S_IFDIR: Kind.DIR, stat.S_IFREG: Kind.FILE, stat.S_IFLNK: Kind.LINK}
_SPECIAL = {stat.S_IFSOCK: "socket", stat.S_IFIFO: "fifo", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_LIMIT = 64
_NO_STAT = Stat()
#: No directory stands there any more, or a link does.
_GONE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))
#: It says nothing about the directory, everything about us.
_OUR_FAULT = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))


class Found(msgspec.Struct, frozen=True, gc=False):
    """An entry of a listing; `stat.seen` is 0: the caller knows when it looked. It is all 0 if it was not asked for.

    A directory that cannot be listed, or lies on another file system than the one above it, is of kind UNKNOWN with
    its `reason`, and stands for everything below. `reason` also says which special file one is. `links` counts names.
    """

    path: bytes
    stat: Stat
    kind: Kind
    links: int = 1
    reason: str = ""


def _found(path: bytes, seen: os.stat_result) -> Found:
    mode = seen.st_mode
    kind = _KINDS.get(stat.S_IFMT(mode), Kind.SPECIAL)
    reason = _SPECIAL.get(stat.S_IFMT(mode), "special") if kind == Kind.SPECIAL else ""
    entry = Stat(seen.st_dev, seen.st_ino, seen.st_size, mode, seen.st_mtime_ns, seen.st_ctime_ns)
    return Found(path, entry, kind, seen.st_nlink, reason)


def _unknown(found: Found, reason: str) -> Found:
    return Found(found.path, found.stat, Kind.UNKNOWN, found.links, reason)


def _entries(
    fd: int, directory: RelPath, rules: IgnoreRules | None, known: Container[bytes] | None = None
) -> Iterator[Found]:
    """The entries of an open directory. Raises OSError."""
    prefix = directory + b"/" if directory else b""
    with os.scandir(fd) as entries:
        listed = [(entry.name.encode(_ENCODING, _ERRORS), entry) for entry in entries]
        if rules is not None:
            rules.listed(directory, {name for name, _ in listed})
        for name, entry in listed:
            path = RelPath(prefix + name)
            if rules is not None and rules.leaves_out(path, entry.is_dir(follow_symlinks=False)):
                continue
            try:
                if known is not None and name not in known and entry.is_file(follow_symlinks=False):
                    yield Found(path, _NO_STAT, Kind.FILE)
                    continue
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield _found(path, found)


def list_directory(
    root: bytes | int, directory: RelPath, rules: IgnoreRules | None, known: Container[bytes] | None = None
) -> Iterator[Found]:
    """The entries of one directory that are not ignored; one that vanishes meanwhile is left out. Raises OSError.

    `root` may be a descriptor of it, which is left open. Of regular files whose names are not among the `known` no stat
    is taken: whoever reads them takes one anyway.
    """
    root_fd = open_root(root) if isinstance(root, bytes) else root
    try:
        fd = open_directory(root_fd, directory)
    finally:
        if root_fd != root:
            os.close(root_fd)
    try:
        yield from _entries(fd, directory, rules, known)
    finally:
        os.close(fd)


def scan(
    root: bytes,
    directory: RelPath,
    rules: IgnoreRules | None,
    on_directory: Callable[[RelPath], object] | None = None,
) -> Iterator[Found]:
    """A directory (but not the root itself) and everything below it that is not ignored, in no particular order.

    `on_directory` is called with each directory before it is listed: what is created after the call is either listed
    or told of by whoever was made to watch. Nothing is given for a directory that is gone. Raises NotFoundError if the
    root is gone, or another one, when the walk begins or when it has ended: then nothing that was not found is known to
    be absent. Raises OSError if files cannot be opened at all.
    """
    identity = root_identity(root)
    if identity is None:
        raise _root_lost(root)
    walk = _Walk(root, rules, on_directory)
    try:
        yield from walk.run(directory)
    finally:
        walk.close()
    if root_identity(root) != identity:
        raise _root_lost(root)


def _root_lost(root: bytes) -> NotFoundError:
    return NotFoundError(f"{os.fsdecode(root)} is not the directory that it was, or there is none", hint="look at it")


class _Walk:
    """One walk, depth first: the directories from its start to where it is, and those that wait."""

    def __init__(
        self, root: bytes, rules: IgnoreRules | None, on_directory: Callable[[RelPath], object] | None
    ) -> None:
        self._root, self._rules, self._on_directory = root, rules, on_directory
        # (directory, its descriptor or -1 for one that was closed to keep their number small)
        self._chain: list[tuple[bytes, int]] = []
        self._closed = 0

    def run(self, start: RelPath) -> Iterator[Found]:
        first = self._start(start)
        if first is None:
            return
        # (depth in the chain, device of the directory above, the directory as it was found)
        waiting: list[tuple[int, int, Found]] = [(0, first.stat.dev, first)]
        while waiting:
            depth, device, item = waiting.pop()
            self._leave(depth)
            if item.stat.dev != device:
                yield _unknown(item, OTHER_MOUNT)
                continue
            below = yield from self._directory(item)
            if below:
                waiting.extend((len(self._chain), item.stat.dev, each) for each in below)

    def close(self) -> None:
        self._leave(0)

    def _start(self, start: RelPath) -> Found | None:
        try:
            fd = self._open(start)
        except OSError as error:
            if error.errno in _OUR_FAULT:
                raise
            return self._look(start)
        try:
            return _found(start, os.fstat(fd))
        finally:
            os.close(fd)

    def _look(self, path: bytes) -> Found | None:
        """What stands at a path that could not be opened as a directory."""
        parent, _, name = path.rpartition(b"/")
        try:
            fd = self._chain[-1][1] if self._chain else self._open(RelPath(parent))
        except OSError:
            return None
        try:
            return _found(path, os.stat(name or b".", dir_fd=fd, follow_symlinks=False))
        except OSError:
            return None
        finally:
            if not self._chain:
                os.close(fd)

    def _directory(self, item: Found) -> Generator[Found, None, list[Found]]:
        """Give a directory and its entries; returns the directories among these, which wait."""
        directory = RelPath(item.path)
        if self._on_directory is not None:
            self._on_directory(directory)
        fd = -1
        try:
            fd = self._enter(directory)
            found = list(_entries(fd, directory, self._rules))
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            if error.errno in _OUR_FAULT:
                raise
            # something else may stand there since it was listed
            now = self._look(directory) if error.errno in _GONE else item
            if now is not None:
                yield _unknown(now, UNREADABLE) if now.kind == Kind.DIR else now
            return []
        # whoever gives the walk up does so at a yield: by then the descriptor is closed, or the chain's to close
        below = [each for each in found if each.kind == Kind.DIR]
        if below:
            self._chain.append((directory, fd))
            self._keep_few()
        else:
            os.close(fd)
        if directory:
            yield item
        for each in found:
            if each.kind != Kind.DIR:
                yield each
        return below

    # descriptors

    def _open(self, directory: RelPath) -> int:
        fd = open_root(self._root)
        try:
            return open_directory(fd, directory) if directory else os.dup(fd)
        finally:
            os.close(fd)

    def _enter(self, directory: RelPath) -> int:
        if not self._chain:
            return self._open(directory)
        above, fd = self._chain[-1]
        if fd < 0:
            fd = self._open(RelPath(above))
            self._chain[-1] = (above, fd)
            self._closed = min(self._closed, len(self._chain) - 1)
        return os.open(directory.rpartition(b"/")[2], _DIRECTORY, dir_fd=fd)

    def _keep_few(self) -> None:
        while len(self._chain) - self._closed > _OPEN_LIMIT:
            directory, fd = self._chain[self._closed]
            if fd >= 0:
                os.close(fd)
            self._chain[self._closed] = (directory, -1)
            self._closed += 1

    def _leave(self, depth: int) -> None:
        while len(self._chain) > depth:
            _, fd = self._chain.pop()
            if fd >= 0:
                os.close(fd)
        self._closed = min(self._closed, len(self._chain))


def root_identity(root: bytes) -> tuple[int, int] | None:
    """(device, inode) of a root, or None if no directory stands there."""
    try:
        found = os.stat(root)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None
