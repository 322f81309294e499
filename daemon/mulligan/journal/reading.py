"""Reading one entry from disk: what it is, its bytes, and whether they can be of one version."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

from mulligan.clock import MILLISECOND
from mulligan.descent import parent_of
from mulligan.model import ABSENT, Entry, Kind, Stat
from mulligan.store import encoding
from mulligan.store.placed import Placed

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SPECIAL = {stat.S_IFSOCK: "socket", stat.S_IFIFO: "fifo", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
#: No clock of a file system is coarser; two changes within it may leave the same change time.
GRAIN = 20 * MILLISECOND
_ENDLESS_GROWTH = 64  # blocks behind the size of fstat after which a growing file is left for the next look


@dataclass(slots=True)
class Reading:
    """An entry as it was read.

    `data` are a small file's bytes, `blocks` a large one's hashes; a child that has stored them already says where in
    `placed`. `torn`: the file changed meanwhile. `links`: how many names it has.
    """

    entry: Entry
    stat: Stat
    data: bytes | None = None
    blocks: list[bytes] | None = None
    torn: bool = False
    placed: list[Placed] | None = None
    links: int = 1


def stat_of(found: os.stat_result, seen: int) -> Stat:
    """The parts of a stat result that prove an entry unchanged."""
    return Stat(found.st_dev, found.st_ino, found.st_size, found.st_mode, found.st_mtime_ns, found.st_ctime_ns, seen)


def unchanged(before: Stat, after: Stat, correction: int) -> bool:
    """Whether two stats prove the same content: all equal, and `settled`."""
    return same_stat(before, after) and settled(before, correction)


def settled(found: Stat, correction: int) -> bool:
    """Whether the change time is 20 ms older than the look, so that every later change has a later one.

    `correction` is what journal time, in which looks are, is ahead of the wall clock, in which change times are. It
    only grows, so today's also holds for older looks; at worst a file is read once more.
    """
    return found.ctime + correction + GRAIN <= found.seen


def same_stat(before: Stat, after: Stat) -> bool:
    """Whether two stats are equal in all but the time of the look."""
    return (before.dev, before.ino, before.size, before.mode, before.mtime, before.ctime) == (
        after.dev,
        after.ino,
        after.size,
        after.mode,
        after.mtime,
        after.ctime,
    )


def read_entry(
    root_fd: int,
    path: bytes,
    now: Callable[[], int],
    limit: int,
    store_block: Callable[[bytes, bytes], None],
) -> Reading:
    """Read what stands at a path, through no link. `now` is `Clock.look`.

    Files over `limit` bytes and unreadable ones are unknown with a reason; special files are never opened. Blocks of a
    large file go to `store_block(hash, bytes)` as they are read.
    """
    seen = now()
    try:
        with parent_of(root_fd, path) as (fd, name):
            return read_named(fd, name, now, limit, store_block)
    except OSError as error:
        return vanished(error, seen)


def read_named(
    fd: int, name: bytes, now: Callable[[], int], limit: int, store_block: Callable[[bytes, bytes], None]
) -> Reading:
    """As `read_entry`, for a name in an open directory."""
    seen = now()
    try:
        return _read(fd, name, os.lstat(name, dir_fd=fd), now, limit, store_block)
    except OSError as error:
        return vanished(error, seen)


def vanished(error: OSError, seen: int) -> Reading:
    """What an error on the way to an entry means: nothing is there, or it cannot be read."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        return Reading(ABSENT, Stat(seen=seen))
    return Reading(unreadable(error), Stat(seen=seen))


def unreadable(error: OSError) -> Entry:
    """The unknown entry of something that is there and cannot be read."""
    return Entry(Kind.UNKNOWN, reason=f"unreadable: {os.strerror(error.errno or 0).lower()}")


def is_unreadable(entry: Entry) -> bool:
    """Whether an entry is one of `unreadable`."""
    return entry.kind == Kind.UNKNOWN and entry.reason.startswith("unreadable: ")


def _read(
    fd: int,
    name: bytes,
    found: os.stat_result,
    now: Callable[[], int],
    limit: int,
    store: Callable[[bytes, bytes], None],
) -> Reading:
    mode, kind = stat.S_IMODE(found.st_mode), stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        return Reading(Entry(Kind.DIR, mode), stat_of(found, now()))
    if kind == stat.S_IFLNK:
        target = os.readlink(name, dir_fd=fd)
        return Reading(Entry(Kind.LINK, target=target), stat_of(found, now()))
    if kind != stat.S_IFREG:
        return Reading(Entry(Kind.SPECIAL, reason=_SPECIAL.get(kind, "special")), stat_of(found, now()))
    if found.st_size > limit:
        return Reading(Entry(Kind.UNKNOWN, reason=f"too large: {found.st_size} bytes"), stat_of(found, now()))
    try:
        file = os.open(name, _FLAGS, dir_fd=fd)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            raise
        return Reading(unreadable(error), stat_of(found, now()))
    try:
        return read_descriptor(file, now, store, found)
    except OSError as error:
        if not stat.S_ISREG(os.fstat(file).st_mode):  # swapped between lstat and open
            return read_descriptor(file, now, store)
        return Reading(unreadable(error), stat_of(found, now()))
    finally:
        os.close(file)


def read_descriptor(
    fd: int,
    now: Callable[[], int],
    store: Callable[[bytes, bytes], None],
    before: os.stat_result | None = None,
) -> Reading:
    """Read an open file whole, from its start; `before` is what lstat said of its path just now. Raises OSError."""
    if before is None:
        before = os.fstat(fd)
    if not stat.S_ISREG(before.st_mode):
        return Reading(
            Entry(Kind.SPECIAL, reason=_SPECIAL.get(stat.S_IFMT(before.st_mode), "special")), stat_of(before, now())
        )
    blocks: list[bytes] | None = None
    data: bytes | None = None
    if before.st_size <= encoding.BLOCK_THRESHOLD:
        data = _read_small(fd, before.st_size)
        size, digest = len(data), hashlib.sha256(data).digest()
    else:
        blocks, size, digest = _read_blocks(fd, before.st_size, store)
    looked = now()
    after = os.fstat(fd)
    if (before.st_ino, before.st_dev) != (after.st_ino, after.st_dev):  # as well
        return read_descriptor(fd, now, store)
    torn = size != after.st_size or (before.st_size, before.st_mtime_ns, before.st_ctime_ns) != (
        after.st_size,
        after.st_mtime_ns,
        after.st_ctime_ns,
    )
    if blocks is None and size > encoding.BLOCK_THRESHOLD:  # grew while it was read: whole lists only
        data = None
        blocks, size, digest = _read_blocks(fd, after.st_size, store)
        torn = True
    entry = Entry(Kind.FILE, stat.S_IMODE(after.st_mode), size, digest)
    return Reading(entry, stat_of(after, looked), data, blocks, torn, links=after.st_nlink)


def _read_small(fd: int, size: int) -> bytes:
    data = os.pread(fd, size + 1, 0)
    if len(data) == size:
        return data
    parts = [data]
    total = len(data)
    while total <= encoding.BLOCK_THRESHOLD:
        more = os.pread(fd, 1 << 20, total)
        if not more:
            break
        parts.append(more)
        total += len(more)
    return b"".join(parts)


def _read_blocks(fd: int, expected: int, store: Callable[[bytes, bytes], None]) -> tuple[list[bytes], int, bytes]:
    length = encoding.block_size(os.pread(fd, 16, 0))
    whole, hashes, size = hashlib.sha256(), [], 0
    while size < expected + _ENDLESS_GROWTH * length:
        block = os.pread(fd, length, size)
        if not block:
            break
        whole.update(block)
        digest = hashlib.sha256(block).digest()
        store(digest, block)
        hashes.append(digest)
        size += len(block)
    return hashes, size, whole.digest()
