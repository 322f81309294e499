"""Forking a project: the tree of a position laid out in a directory of its own.

Runs in a request's thread and does not touch the project. The directory appears under its name with everything in it,
or not at all; what a crash leaves beside it is cleared away by the next fork to the same place.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from mulligan.errors import BusyError, MulliganError, NotFoundError, RefusedError
from mulligan.faults import point
from mulligan.model import ABSENT, Checkpoint, Cut, Entry, Kind, Metadata
from mulligan.project.checkpoints import IGNORED_REASON, Request, parent_on_branch
from mulligan.project.naming import Position
from mulligan.project.worker import ProjectWorker
from mulligan.restore.apply import apply
from mulligan.restore.plan import Change, Outcome, Plan, make_plan
from mulligan.restore.staging_children import StagingChildren
from mulligan.store.atomic import sync_directory
from mulligan.store.store import Store

#: The names of directories are made of what no shell and no file system minds.
_ODD = re.compile(r"[^\w.+-]+")
_LONGEST_NAME = 60
_SHORT_ID = 8
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class Layout:
    """What a fork's directory is to hold: `plan`; and what it cannot: `missing` as (path, reason), `special` files."""

    plan: Plan
    missing: list[tuple[bytes, str]] = field(default_factory=list)
    special: list[bytes] = field(default_factory=list)

    @property
    def files(self) -> int:
        """Files and links."""
        return len(self.plan.write)


def directory_for(root: bytes, position: Position, into: str, name: str) -> bytes:
    """Where a fork goes: `into`, else beside the project, named by the project and the name or the position.

    Raises RefusedError unless it is free (absent, or an empty directory), NotFoundError without a directory above it.
    """
    if into:
        parent, last = os.path.split(os.path.normpath(os.fsencode(into)))
    else:
        short = position.checkpoint.id[:_SHORT_ID] if position.checkpoint else position.label.replace(":", "-")
        suffix = _ODD.sub("-", name).strip("-.")[:_LONGEST_NAME] or short
        parent, last = os.path.dirname(root), os.path.basename(root) + b"-" + os.fsencode(suffix)
    place = os.path.join(os.path.realpath(parent), last)
    if not os.path.isdir(os.path.dirname(place)):
        raise NotFoundError(f"{os.fsdecode(parent)} is not a directory", hint="make it, or give --into another place")
    if os.path.lexists(place) and not (os.path.isdir(place) and not os.path.islink(place) and not os.listdir(place)):
        raise RefusedError(
            f"{os.fsdecode(place)} exists and is not an empty directory", hint="give --into DIR or -m another name"
        )
    return place


def layout(store: Store, project: int, cut: Cut) -> Layout:
    """What the tree of a cut consists of, and what of it is not known."""
    tree = store.catalogue().tree(project, cut)
    made = Layout(make_plan(Change(path, row.entry, ABSENT) for path, row in tree.items() if row.entry.there))
    for path, row in sorted(tree.items()):
        if row.entry.kind == Kind.SPECIAL:
            made.special.append(path)
        elif row.entry.kind == Kind.UNKNOWN and row.entry.reason != IGNORED_REASON:
            made.missing.append((path, row.entry.reason))
    return made


def lay_out(store: Store, made: Layout, directory: bytes, origin: bytes) -> Outcome:
    """Make the directory with its files: verified, durable, with modes and links, sharing blocks with `origin`.

    Raises as `restore.apply` does, RefusedError if the directory is not free any more, BusyError if another fork
    makes it; nothing is left then.
    """
    parent = os.path.dirname(directory)
    try:
        with _under_way(directory) as beside:
            try:
                outcome = apply(
                    beside,
                    made.plan,
                    store.contents,
                    operation=f"op{secrets.token_hex(8)}",
                    staging=os.fsencode(store.staging),
                    log=_Unlogged(),
                    capture=_nothing_to_capture,
                    now=store.clock.look,
                    stager=StagingChildren(store.pool, store.catalogue_path, origin=origin),
                    origin=origin,
                )
                os.chmod(beside, _mode_of(origin))
                point("fork.laid_out")
                # it takes the place of an empty directory, and of nothing else
                os.rename(beside, directory)
            except BaseException:
                _remove(beside)
                raise
        sync_directory(os.fsdecode(parent))
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise RefusedError(f"{os.fsdecode(directory)} is not empty any more", hint="give --into DIR") from error
        raise MulliganError(
            f"{os.fsdecode(directory)} cannot be made: {os.strerror(error.errno or 0).lower()}", hint="give --into DIR"
        ) from error
    return outcome


def record_branch(worker: ProjectWorker, position: Position, session: str, description: str) -> Checkpoint:
    """A checkpoint of the position's own tree that says where the branch begins. Runs in the project's thread."""
    catalogue, made = worker.store.catalogue(), position.checkpoint
    current = catalogue.current(worker.project_id)
    request = Request(
        "fork",
        session,
        description,
        cut=position.cut,
        moment=position.cut.moment,
        timestamp=worker.now(),
        parent=made.id if made else parent_on_branch(catalogue, current, position.cut.moment),
        metadata=made.metadata if made else Metadata(),
        make_current=False,
    )
    branch = worker.commit_checkpoint(request)
    assert branch is not None  # no condition was given
    return branch


@contextlib.contextmanager
def _under_way(directory: bytes) -> Iterator[bytes]:
    """A private directory beside the one to come, held by a lock. What a dead fork left there is removed first."""
    parent, name = os.path.split(directory)
    beside = os.path.join(parent, b".%b.mulligan-fork~" % name[:200])
    with contextlib.suppress(FileExistsError):
        os.mkdir(beside, 0o700)
    fd = os.open(beside, _OPEN)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(
                f"{os.fsdecode(directory)} is being made already", hint="wait, or give --into DIR"
            ) from None
        for left in os.listdir(beside):
            _remove(os.path.join(beside, left))
        yield beside
    finally:
        os.close(fd)


def _remove(path: bytes) -> None:
    """Remove what only a fork has made, whatever its modes."""
    if not os.path.isdir(path) or os.path.islink(path):
        os.unlink(path)
        return
    os.chmod(path, 0o700)
    for above, names, _ in os.walk(path):
        for name in names:
            if not os.path.islink(os.path.join(above, name)):
                os.chmod(os.path.join(above, name), 0o700)
    shutil.rmtree(path)


def _mode_of(root: bytes) -> int:
    try:
        return stat.S_IMODE(os.stat(root).st_mode)
    except OSError:
        return 0o755


def _nothing_to_capture(path: bytes, fd: int | None, found: Entry) -> Entry:
    raise MulliganError(f"somebody writes to {os.fsdecode(path)} while it is made", hint="try again")


class _Unlogged:
    """A directory that nobody knows of yet needs no record: after a crash it is made again."""

    def begin(self, plan: Plan) -> None:
        """Nothing is recorded."""

    def staged(self) -> None:
        """Nothing is recorded."""
