"""The stage: a private directory in which every new file is complete before the tree is touched.

Staging is the verification as well: a content that cannot be read back whole from the store never gets here. The stage
lies in the store's own directory where a rename from there into the tree works, so that nothing in the tree sees it;
else it is one directory of mode 0700 in the root. Files are named by the number of their step, and lie in buckets: two
processes that make files in one directory keep each other waiting. New directories lie there as they are to be.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from mulligan import faults
from mulligan.errors import IntegrityError, MulliganError, UsageError
from mulligan.model import Kind
from mulligan.restore import exchange
from mulligan.restore.plan import Step
from mulligan.restore.reflink import Origin
from mulligan.restore.tree import Seen, Tree, inode_of, kind_of, names, sync_file

#: Above this a content is read in pieces (bytes).
LARGE = 4 << 20
#: From this many files on, one syncfs is cheaper than an fsync for each.
MANY = 64
#: Steps whose files lie in one directory; those of the first bucket lie in the stage itself.
BUCKET = 1000
_BUCKETS, _SUBTREES = b"b", b"t"
_OPERATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

#: What follows the number of a file that is being made, and of one that could not be stored and stays.
NEW, LEFT = b".new", b".left"

#: A step with its number in the plan and the name in the stage for what it needs.
Job = tuple[int, Step, bytes]


class Contents(Protocol):
    """The store as far as a restore needs it; both raise IntegrityError for bytes that are not what their hash says."""

    def read(self, hash: bytes) -> bytes:
        """The whole content, verified."""

    def chunks(self, hash: bytes) -> Iterator[bytes]:
        """The content in pieces; the verification of the whole is complete only when the iterator ends."""


class Staged(msgspec.Struct):
    """What was staged by step number, and the paths whose content the store cannot give."""

    seen: dict[int, Seen]
    damaged: list[tuple[int, str]]


class Stage(msgspec.Struct, frozen=True):
    """An open stage. `exchanges` tells whether its file system can exchange two names."""

    path: bytes
    fd: int
    exchanges: bool

    def swap(self, name: bytes, directory: int, other: bytes) -> None:
        """Exchange a name of the stage with one of the tree. Raises OSError."""
        call = exchange.exchange if self.exchanges else exchange.exchange_by_moves
        call(self.fd, name, directory, other)

    def make_room(self, steps: int) -> None:
        """Make the buckets for the files of so many steps. Raises OSError."""
        for bucket in range(1, (steps - 1) // BUCKET + 1):
            with contextlib.suppress(FileExistsError):
                os.mkdir(_BUCKETS + b"%d" % bucket, 0o700, dir_fd=self.fd)

    def names(self) -> list[bytes]:
        """The files in it, with their buckets, but for subtrees: those never stood in the tree. Raises OSError."""
        found = []
        for name in names(self.fd):
            if name.startswith(_BUCKETS):
                found += [name + b"/" + each for each in names(self.fd, name)]
            elif not name.startswith(_SUBTREES):
                found.append(name)
        return found

    def remove(self) -> list[bytes]:
        """Close and remove the stage if nothing but directories of ours is in it; gives the names that are left."""
        left = self.names()
        for name in names(self.fd):
            if name.startswith(_SUBTREES):
                shutil.rmtree(name, dir_fd=self.fd)
            elif not left:
                os.rmdir(name, dir_fd=self.fd)
        os.close(self.fd)
        if not left:
            os.rmdir(self.path)
        return left

    def clear(self) -> None:
        """Throw away everything in it; only for a stage whose files never stood in the tree."""
        for name in self.names():
            discard(self.fd, name)


def stage_name(index: int) -> bytes:
    """The name of a step's file in the stage."""
    bucket = index // BUCKET
    return _BUCKETS + b"%d/%d" % (bucket, index) if bucket else b"%d" % index


def subtree_name(index: int) -> bytes:
    """The name in the stage of a new directory with everything in it."""
    return _SUBTREES + b"%d" % index


def in_subtree(name: bytes) -> bool:
    """Whether a name of the stage lies in a new directory that goes into the tree as a whole."""
    return name.startswith(_SUBTREES)


def step_number(name: bytes) -> int | None:
    """The step whose file has a name in the stage; None for a foreign one."""
    number = name.rpartition(b"/")[2].partition(b".")[0]
    return int(number) if number.isdigit() else None


def discard(directory: int, name: bytes) -> None:
    """Remove a file, a link or an empty directory. Raises OSError."""
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if kind_of(found.st_mode) == Kind.DIR:
        os.rmdir(name, dir_fd=directory)
    else:
        os.unlink(name, dir_fd=directory)


def places(root: bytes, staging: bytes | None, operation: str) -> list[bytes]:
    """Where the stage of an operation can lie, the best place first; raises UsageError for an odd id."""
    if not _OPERATION.fullmatch(operation):
        raise UsageError(f"not an operation: {operation!r}")
    inside = os.path.join(root, b".mulligan-%b~" % operation.encode())
    return [os.path.join(staging, operation.encode()), inside] if staging else [inside]


def open_stage(tree: Tree, staging: bytes | None, operation: str, *, again: bool = False) -> Stage:
    """Make the stage of an operation; raises MulliganError with nothing left behind if that is impossible.

    With `again` it may exist already, as an interrupted run left it.
    """
    error: OSError | None = None
    for path in places(tree.root, staging, operation):
        try:
            os.mkdir(path, 0o700)
        except OSError as failure:
            if not (again and isinstance(failure, FileExistsError)):
                error = failure
                continue
        fd = os.open(path, _OPEN)
        if exchange.reachable(fd, tree.fd):
            return Stage(path, fd, exchange.exchanges(fd))
        os.close(fd)
        with contextlib.suppress(OSError):
            os.rmdir(path)
    message = error.strerror if error else "no rename from there works"
    raise MulliganError(f"nowhere to prepare the files for {os.fsdecode(tree.root)}: {message}")


def existing(tree: Tree, staging: bytes | None, operation: str) -> Iterator[Stage]:
    """The stages that an interrupted operation left."""
    for path in places(tree.root, staging, operation):
        try:
            fd = os.open(path, _OPEN)
        except OSError:
            continue
        yield Stage(path, fd, exchange.exchanges(fd))


def stage_files(
    stage_dir: bytes,
    jobs: Iterable[Job],
    contents: Contents,
    *,
    sync: bool = False,
    careful: bool = False,
    origin: bytes = b"",
) -> Staged:
    """Create the files, links and directories that the steps put into the tree, with their final modes.

    It needs nothing but its arguments, so that two processes can share a list. With `sync` each file is durable when
    it returns; with `careful` a file gets its name only when it is whole, for stages in which displaced versions lie as
    well. What stands in the tree `origin` as it is wanted shares its blocks, where that works. Raises OSError (a full
    disk) with part of the files made; damaged contents are listed instead.
    """
    staged = Staged({}, [])
    directory = os.open(stage_dir, _OPEN)
    try:
        with Origin(origin) as tree:
            for index, step, name in jobs:
                faults.point("restore.staging")
                try:
                    if careful:
                        found = _create(directory, name + NEW, step, contents, sync, tree)
                        os.rename(name + NEW, name, src_dir_fd=directory, dst_dir_fd=directory)
                    else:
                        found = _create(directory, name, step, contents, sync, tree)
                except IntegrityError as error:
                    staged.damaged.append((index, error.message))
                else:
                    staged.seen[index] = Seen(inode_of(found), step.target)
        if sync:
            sync_file(directory, b".")
    finally:
        os.close(directory)
    return staged


def _create(directory: int, name: bytes, step: Step, contents: Contents, sync: bool, origin: Origin) -> os.stat_result:
    target = step.target
    if target.kind == Kind.DIR:
        os.mkdir(name, 0o700, dir_fd=directory)
    elif target.kind == Kind.LINK:
        os.symlink(target.target, name, dir_fd=directory)
    else:
        # Read before anything is created: most files are small, and a damaged one leaves nothing to clean.
        small = contents.read(target.hash) if target.size <= LARGE else None
        # Nobody else gets into the stage, and no mode is wider than the final one, which the umask may have cut.
        fd = os.open(name, _CREATE, target.mode, dir_fd=directory)
        try:
            if origin.share(step.path, target, fd):
                pass
            elif small is not None:
                _write(fd, small)
            else:
                for chunk in contents.chunks(target.hash):
                    _write(fd, chunk)
            found = os.fstat(fd)
            if stat.S_IMODE(found.st_mode) != target.mode:
                os.fchmod(fd, target.mode)
                found = os.fstat(fd)
            if sync:
                os.fsync(fd)
            if found.st_size != target.size:
                raise IntegrityError(f"the stored content of {os.fsdecode(step.path)} has not the size of its entry")
            return found
        except IntegrityError:
            os.unlink(name, dir_fd=directory)
            raise
        finally:
            os.close(fd)
    return os.stat(name, dir_fd=directory, follow_symlinks=False)


def _write(fd: int, data: bytes) -> None:
    written = os.write(fd, data) if data else 0
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])
