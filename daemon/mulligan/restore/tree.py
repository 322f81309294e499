"""The project's tree, reached by directory descriptors only, and what stands at a name in it.

Every path is walked afresh from the root, one name at a time, and never through a link: a directory that is swapped
for a link to somewhere else ends the walk with an error. Special files are never opened.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable

import msgspec

from mulligan.errors import NotFoundError, UsageError
from mulligan.model import ABSENT, Entry, Kind, Stat
from mulligan.restore.plan import same

_BLOCK = 1 << 20
_WALK = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_NAMES = frozenset((b"", b".", b".."))
#: Coarse kernel clocks tick every 4 to 10 ms: a file written again within a tick may keep its mtime.
SETTLED_NS = 20_000_000


class Tree:
    """An open root. `identity` is the (device, inode) that it must be; another one raises NotFoundError."""

    def __init__(self, root: bytes, identity: tuple[int, int] | None = None) -> None:
        self.root = root
        try:
            self.fd = os.open(root, _LIST)
        except OSError as error:
            raise NotFoundError(
                f"cannot open {os.fsdecode(root)}: {error.strerror}", hint="is the project mounted and readable?"
            ) from error
        found = os.fstat(self.fd)
        self.identity = found.st_dev, found.st_ino
        if identity is not None and self.identity != identity:
            os.close(self.fd)
            raise NotFoundError(f"{os.fsdecode(root)} is another directory than the one that was captured")

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def parent(self, path: bytes) -> tuple[int, bytes]:
        """A descriptor of the directory above a path (give it to `release`) and the last name. Raises OSError."""
        *names, last = split(path)
        top = fd = self.fd
        for name in names:
            try:
                below = os.open(name, _WALK, dir_fd=fd)
            finally:
                if fd != top:
                    os.close(fd)
            fd = below
        return fd, last

    def release(self, fd: int) -> None:
        """Close what `parent` gave."""
        if fd != self.fd:
            os.close(fd)

    def sync(self, paths: Iterable[bytes], inodes: Iterable[bytes]) -> bool:
        """Make the directories above `paths` and the files or directories `inodes` durable, one by one.

        False if one of them cannot be opened: then only the file system as a whole can be. Raises OSError (EIO).
        """
        try:
            for path in {path.rpartition(b"/")[0]: path for path in paths}.values():
                self._sync(path, here=False)
            for path in inodes:
                self._sync(path, here=True)
        except PermissionError:
            return False
        return True

    def _sync(self, path: bytes, *, here: bool) -> None:
        try:
            above, name = self.parent(path)
        except (FileNotFoundError, NotADirectoryError):
            return  # moved away by somebody else
        try:
            sync_file(above, name if here else b".")
        except FileNotFoundError:
            return
        finally:
            self.release(above)


class Nearby:
    """Parents of paths that come by directories: the last one stays open. For looking; a step walks from the root."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._directory, self._fd = b"", tree.fd

    def __enter__(self) -> Nearby:
        return self

    def __exit__(self, *_: object) -> None:
        self._tree.release(self._fd)

    def parent(self, path: bytes) -> tuple[int, bytes]:
        """A descriptor of the directory above a path, good until the next call, and the last name. Raises OSError."""
        directory, _, name = path.rpartition(b"/")
        if directory != self._directory:
            fd, name = self._tree.parent(path)
            self._tree.release(self._fd)
            self._directory, self._fd = directory, fd
        return self._fd, name


def split(path: bytes) -> list[bytes]:
    """The names of a path; raises UsageError for what is no path below the root."""
    names = path.split(b"/")
    if b"\0" in path or not _NO_NAMES.isdisjoint(names):
        raise UsageError(f"not a path below the project: {os.fsdecode(path)!r}")
    return names


def status(directory: int, name: bytes) -> os.stat_result | None:
    """lstat, or None where nothing stands."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def kind_of(mode: int) -> Kind:
    """The kind that st_mode says."""
    if stat.S_ISREG(mode):
        return Kind.FILE
    if stat.S_ISDIR(mode):
        return Kind.DIR
    return Kind.LINK if stat.S_ISLNK(mode) else Kind.SPECIAL


def open_file(directory: int, name: bytes) -> int:
    """A regular file, opened for reading; anything else raises OSError, and a FIFO never blocks."""
    fd = os.open(name, _READ, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", os.fsdecode(name))
    return fd


def look(directory: int, name: bytes) -> Entry:
    """What stands at a name, read in full; what cannot be read is unknown with the reason."""
    found = status(directory, name)
    if found is None:
        return ABSENT
    kind, mode = kind_of(found.st_mode), stat.S_IMODE(found.st_mode)
    try:
        if kind == Kind.LINK:
            return Entry(kind, 0o777, target=os.readlink(name, dir_fd=directory))
        if kind != Kind.FILE:
            return Entry(kind, mode)
        fd = open_file(directory, name)
    except FileNotFoundError:
        return ABSENT
    except OSError as error:
        return Entry(Kind.UNKNOWN, reason=why(error))
    try:
        return read(fd)
    except OSError as error:
        return Entry(Kind.UNKNOWN, reason=why(error))
    finally:
        os.close(fd)


def read(fd: int) -> Entry:
    """The entry of an open regular file. Raises OSError."""
    digest, size, found = hashlib.sha256(), 0, os.fstat(fd)
    # One byte more than it should have: a short answer is the end of the file, without asking again.
    length = min(found.st_size + 1, _BLOCK)
    while block := os.pread(fd, length, size):
        digest.update(block)
        size += len(block)
        if len(block) < length:
            break
    return Entry(Kind.FILE, stat.S_IMODE(found.st_mode), size, digest.digest())


class Inode(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What lstat says of an inode, as far as it tells one version from another. Names are those of `os.stat_result`."""

    st_dev: int
    st_ino: int
    st_mode: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_uid: int
    st_gid: int


def inode_of(found: os.stat_result) -> Inode:
    """The parts of a stat result that `Seen` keeps: it is kept for every file of a restore."""
    return Inode(
        found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns,
        found.st_uid, found.st_gid,
    )  # fmt: skip


class Seen(msgspec.Struct, frozen=True, gc=False):
    """An inode as we last saw it, and what it held then."""

    stat: Inode
    entry: Entry

    def unchanged(self, directory: int, name: bytes, now: os.stat_result | None = None, public: int = 0) -> bool:
        """Whether this very inode stands at a name and still holds the same.

        Size and mtime are proof if the mtime is settled: any later write would have moved it. ctime is not asked, the
        rename itself moves that. In doubt the file is read, if its owner may. `now` is what
        lstat says, if the caller has it; `public` is when others could first write to it, by the file system's clock.
        """
        now = now or status(directory, name)
        if now is None or (now.st_dev, now.st_ino, now.st_mode) != (
            self.stat.st_dev,
            self.stat.st_ino,
            self.stat.st_mode,
        ):
            return False
        if self.entry.kind == Kind.DIR:
            return is_empty(directory, name)
        if (now.st_size, now.st_mtime_ns) != (self.stat.st_size, self.stat.st_mtime_ns):
            return False
        if settled(now) or public - now.st_mtime_ns >= SETTLED_NS:
            return True
        entry = look(directory, name)
        return same(entry, self.entry) or entry.kind == Kind.UNKNOWN


def settled(found: os.stat_result | Inode) -> bool:
    """Whether the last write lies so far before the last change of the inode that another one would show."""
    return found.st_ctime_ns - found.st_mtime_ns >= SETTLED_NS


def proves(recorded: Stat | None, found: os.stat_result) -> bool:
    """Whether the journal's stat of an entry says that the file found now is still that entry."""
    return recorded is not None and (
        (recorded.dev, recorded.ino, recorded.size, recorded.mtime, recorded.ctime)
        == (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        and recorded.seen - recorded.ctime >= SETTLED_NS
    )


def recorded(found: os.stat_result, seen: int) -> Stat:
    """A stat for the journal; `seen` is the journal time of the look."""
    return Stat(found.st_dev, found.st_ino, found.st_size, found.st_mode, found.st_mtime_ns, found.st_ctime_ns, seen)


def names(directory: int, name: bytes = b".") -> list[bytes]:
    """The names in a directory, which must not be reached through a link. Raises OSError."""
    fd = os.open(name, _LIST, dir_fd=directory)
    try:
        return [os.fsencode(found) for found in os.listdir(fd)]
    finally:
        os.close(fd)


def is_empty(directory: int, name: bytes) -> bool:
    """Whether a directory holds nothing; false if that cannot be told."""
    try:
        return not names(directory, name)
    except OSError:
        return False


def set_mode(directory: int, name: bytes, mode: int, inode: int = 0) -> None:
    """Set the exact permission bits of a file or directory, never of what a link points to.

    With `inode` it must still be that one. Raises OSError.
    """
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    _settable(found, name, inode)
    try:
        fd = os.open(name, _READ, dir_fd=directory)
    except PermissionError:
        if not hasattr(os, "O_PATH"):
            os.chmod(name, mode, dir_fd=directory, follow_symlinks=False)
            return
        # Its owner may not read it: a descriptor that only names it will do.
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        _settable(os.fstat(fd), name, inode)
        try:
            os.fchmod(fd, mode)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        os.close(fd)


def _settable(found: os.stat_result, name: bytes, inode: int) -> None:
    if kind_of(found.st_mode) not in (Kind.FILE, Kind.DIR) or (inode and found.st_ino != inode):
        raise OSError(errno.EINVAL, "no longer what it was", os.fsdecode(name))


def sync_file(directory: int, name: bytes) -> None:
    """Make one file or directory durable. Raises OSError."""
    fd = os.open(name, _READ, dir_fd=directory)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def why(error: OSError) -> str:
    """The reason for a report: the system's words without its punctuation."""
    return (error.strerror or errno.errorcode.get(error.errno or 0, "failed")).lower()
