"""Proof that a checkpoint can be restored: its whole tree is restored beside the store, read back and compared.

For any thread. Nothing of a project is touched, and nothing stays of what was made.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from mulligan.clock import to_rfc3339
from mulligan.errors import BusyError, IntegrityError, MulliganError
from mulligan.model import ABSENT, Checkpoint, Entry, Kind
from mulligan.restore.apply import apply
from mulligan.restore.plan import Change, Plan, make_plan
from mulligan.restore.staging_children import StagingChildren
from mulligan.restore.tree import Nearby, Tree, look
from mulligan.store.atomic import make_private_directory
from mulligan.store.digest import ZERO_DIGEST, add_digest, entry_digest
from mulligan.store.state import StateDatabase
from mulligan.store.store import Store

_OPEN = 0o700
_running = threading.Lock()


class _Log:
    """Nobody recovers a drill: what an interrupted one left is removed by the next."""

    def begin(self, _plan: Plan) -> None:
        """Nothing to say."""

    def staged(self) -> None:
        """Nothing to say."""


def drill(store: Store, made: Checkpoint) -> str:
    """Why a checkpoint cannot be restored as it was, in words; "" if it can.

    Raises MulliganError if there is no room to try it, and BusyError beside another drill.
    """
    if not _running.acquire(blocking=False):
        raise BusyError("a drill is at work already", hint="try again when it has ended")
    try:
        _clear(store)  # a killed one may have left something
        make_private_directory(_place(store))
        return _drill(store, made, os.fsencode(_place(store)))
    finally:
        _clear(store)
        _running.release()


def drill_all(
    store: Store, state: StateDatabase, chosen: Sequence[Checkpoint], progress: Callable[[int, int], None]
) -> tuple[dict[str, Any], list[str]]:
    """Try some checkpoints, one after another, and remember how many can be restored; besides, why each cannot."""
    reasons = []
    for number, made in enumerate(chosen):
        progress(number, len(chosen))
        reasons.append(drill(store, made))
    last = {"time": to_rfc3339(store.clock.now()), "restorable": reasons.count(""), "total": len(reasons)}
    state.keep_drill(last)
    return last, reasons


def _place(store: Store) -> str:
    return os.path.join(store.directory, "drill")


def _clear(store: Store) -> None:
    for directory, _, _ in os.walk(_place(store)):
        os.chmod(directory, _OPEN)
    shutil.rmtree(_place(store), ignore_errors=True)


def _drill(store: Store, made: Checkpoint, place: bytes) -> str:
    tree = store.catalogue().tree(made.project, made.cut)
    changes = [Change(path, row.entry, ABSENT) for path, row in tree.items() if row.entry.there]
    size = sum(change.target.size for change in changes if change.target is not None)
    space = os.statvfs(place)
    if size * 2 > space.f_bavail * space.f_frsize:
        raise MulliganError(f"a drill of {size} bytes does not fit beside the store", hint="free some space")

    root, staging = os.path.join(place, b"tree"), os.path.join(place, b"staging")
    for directory in (root, staging):
        os.mkdir(directory, _OPEN)
    try:
        outcome = apply(
            root, make_plan(changes), store.contents, operation="drill", staging=staging, log=_Log(), capture=_refuse,
            stager=StagingChildren(store.pool, store.catalogue_path),
        )  # fmt: skip
    except IntegrityError as error:
        return error.message
    if not outcome.complete:
        differs = [(path, "it is not what was written") for path in outcome.differs]
        path, reason = [*outcome.skipped, *outcome.kept, *differs][0]
        return f"{os.fsdecode(path)}: {reason}"
    digest = _digest(root, {path: row.entry for path, row in tree.items()})
    return "" if digest == made.tree else "its tree is not the one that was recorded"


def _refuse(path: bytes, fd: int | None, found: Entry) -> Entry:
    del fd, found
    raise AssertionError(f"something stood at {path!r} in a directory that was just made")


def _digest(root: bytes, recorded: dict[bytes, Entry]) -> str:
    """The digest of a tree on disk, every byte of it read. A link's mode says nothing: it is as it was recorded."""
    total = 0
    with Tree(root) as tree, Nearby(tree) as nearby:
        for above, directories, files in os.walk(root):
            for name in directories + files:
                place = os.path.join(above, name)
                mode = os.lstat(place).st_mode
                if not stat.S_ISLNK(mode) and mode & _OPEN != _OPEN:
                    os.chmod(place, _OPEN)  # its owner may not look at it else
                path = os.path.relpath(place, root)
                entry, known = look(*nearby.parent(path)), recorded.get(path, ABSENT)
                exact = known.mode if entry.kind == known.kind == Kind.LINK else stat.S_IMODE(mode)
                entry = msgspec.structs.replace(entry, mode=exact)
                total += entry_digest(path, entry)
    return add_digest(ZERO_DIGEST, total).hex()
