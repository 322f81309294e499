"""Looking at a path when its step is taken: whether it is the target, and the stat that proves it for the journal."""

from __future__ import annotations

import errno
import os
import stat

from mulligan.model import Entry, Kind
from mulligan.restore.directories import OPEN_BITS
from mulligan.restore.plan import Step, same
from mulligan.restore.tree import Nearby, Seen, kind_of, look, status


def read_back(step: Step, nearby: Nearby, seen: Seen | None, public: int) -> tuple[os.stat_result | None, bool]:
    """What lstat says of a step's path, and whether the target stands there. Raises OSError.

    A staged inode (`seen`) that still has its size and mtime is proof of its bytes: they came verified from the store,
    and a write since would have moved the mtime. Everything else is read. `public` is as for `Seen.unchanged`.
    """
    try:
        directory, name = nearby.parent(step.path)
    except OSError as error:
        absent = error.errno in (errno.ENOENT, errno.ENOTDIR)
        return None, absent and step.target.kind == Kind.ABSENT
    found = status(directory, name)
    if found is None or step.target.kind == Kind.ABSENT:
        return found, found is None and step.target.kind == Kind.ABSENT
    if not may_be(step.target, found):
        return found, False
    if step.target.kind == Kind.FILE and seen is not None and seen.unchanged(directory, name, found, public):
        return found, True
    return found, same(look(directory, name), step.target)


def may_be(entry: Entry, found: os.stat_result | None) -> bool:
    """Whether lstat does not contradict an entry."""
    if found is None or entry.kind == Kind.ABSENT:
        return found is None and entry.kind == Kind.ABSENT
    if kind_of(found.st_mode) != entry.kind:
        return False
    mode = stat.S_IMODE(found.st_mode)
    if entry.kind == Kind.DIR:
        return mode in (entry.mode, entry.mode | OPEN_BITS)
    return entry.kind == Kind.LINK or (mode == entry.mode and found.st_size == entry.size)
