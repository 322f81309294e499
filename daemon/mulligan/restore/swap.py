"""Putting one staged entry into the tree, and looking at what came out.

Nothing is overwritten: what stood at a path is exchanged into the stage and looked at there. If it is not what the
step expects it goes back, and whatever came in between goes back in its turn: the newest version always ends in the
tree, an older one that nobody had seen is stored before it goes.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Protocol

import msgspec

from mulligan.model import ABSENT, Entry, Kind
from mulligan.restore import exchange
from mulligan.restore.plan import UNKNOWN, Step, same
from mulligan.restore.stage import Stage, discard, stage_name, step_number
from mulligan.restore.tree import (
    Inode,
    Seen,
    Tree,
    inode_of,
    is_empty,
    kind_of,
    look,
    open_file,
    proves,
    set_mode,
    settled,
    status,
    why,
)

_TRIES = 100


class Capture(Protocol):
    """Stores a version that the journal does not know, durably, before it is thrown away."""

    def __call__(self, path: bytes, fd: int | None, found: Entry) -> Entry:
        """The entry as stored; `fd` reads a regular file, other kinds are all in `found`.

        An entry of kind UNKNOWN means that it could not be stored: then the version is not thrown away.
        """


class NotTakenError(Exception):
    """A step was not taken and the path is as it was; the reason is for the report."""

    def __init__(self, reason: str, *, kept: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.kept = reason, kept


class Swapper:
    """Swaps between one tree and one stage; keeps account of every version that came out."""

    def __init__(self, tree: Tree, stage: Stage, capture: Capture, *, force: bool) -> None:
        self.tree, self.stage, self.capture, self.force = tree, stage, capture, force
        self.staged: dict[int, Seen] = {}
        self.displaced: dict[int, Seen] = {}
        self.created: set[int] = set()
        self.captured: list[tuple[bytes, Entry]] = []
        self._root = os.geteuid() == 0

    def put(self, index: int, step: Step, before: os.stat_result | None, directory: int, name: bytes) -> Entry:
        """Put the staged entry at its path; gives what stood there. Raises NotTakenError, OSError."""
        mine = stage_name(index)
        self._adopt_owner(index, step, before, directory)
        if before is None:
            try:
                exchange.move(self.stage.fd, mine, directory, name)
            except FileExistsError:
                if not self.force and step.expected.kind != Kind.UNKNOWN:
                    raise NotTakenError("something appeared there meanwhile") from None
            else:
                self.created.add(index)
                return ABSENT
        try:
            self.stage.swap(mine, directory, name)
        except FileNotFoundError:
            raise NotTakenError("vanished meanwhile") from None
        return self._judge(index, step, before, directory, name)

    def take(self, index: int, step: Step, before: os.stat_result, directory: int, name: bytes) -> Entry:
        """Move what stands at a path into the stage; gives what it was. Raises NotTakenError, OSError."""
        exchange.move(directory, name, self.stage.fd, stage_name(index))
        return self._judge(index, step, before, directory, name)

    def _judge(self, index: int, step: Step, before: os.stat_result | None, directory: int, name: bytes) -> Entry:
        """Look at what came out; accept it, store it, or give it back."""
        mine = stage_name(index)
        found = os.stat(mine, dir_fd=self.stage.fd, follow_symlinks=False)
        if before is not None and _is_expected(step, before, found):
            entry = step.expected
        else:
            entry = look(self.stage.fd, mine)
        if entry.kind == Kind.DIR and not is_empty(self.stage.fd, mine):
            self.give_back(index, directory, name)
            raise NotTakenError("holds entries that are not known", kept=True)
        if entry is step.expected or same(entry, step.expected) or is_opened(entry, step.expected):
            self.displaced[index] = Seen(inode_of(found), step.expected)
            return step.expected
        if not self.force and step.expected.kind != Kind.UNKNOWN:
            self.give_back(index, directory, name)
            raise NotTakenError("changed since the plan was made")
        stored = self._store(step.path, mine, entry)
        if stored.kind == Kind.UNKNOWN:
            self.give_back(index, directory, name)
            raise NotTakenError(f"cannot be captured ({stored.reason})", kept=True)
        self.displaced[index] = Seen(inode_of(found), stored)
        return stored

    def give_back(self, index: int, directory: int, name: bytes) -> None:
        """Put what came out back in its place. Raises OSError.

        A newer version that stands there by now stays, or comes back if the exchange took it out.
        """
        mine, ours = stage_name(index), self.staged.get(index)
        if ours is None or status(directory, name) is None:
            # Taken out, or removed by somebody after our swap: a free name is only filled after a deletion of ours.
            if ours is None:
                with contextlib.suppress(FileExistsError):
                    exchange.move(self.stage.fd, mine, directory, name)
            return
        for _ in range(_TRIES):
            held = os.stat(mine, dir_fd=self.stage.fd, follow_symlinks=False)
            theirs = Seen(inode_of(held), look(self.stage.fd, mine))
            try:
                self.stage.swap(mine, directory, name)
            except FileNotFoundError:
                return
            if ours.unchanged(self.stage.fd, mine):
                return
            ours = theirs

    def undo(self, index: int, step: Step) -> None:
        """Take one step back that was taken; what cannot go back stays where it is. Raises OSError."""
        directory, name = self.tree.parent(step.path)
        try:
            if index not in self.created:
                self.give_back(index, directory, name)
                return
            mine = stage_name(index)
            exchange.move(directory, name, self.stage.fd, mine)
            if not self.staged[index].unchanged(self.stage.fd, mine):
                with contextlib.suppress(FileExistsError):
                    exchange.move(self.stage.fd, mine, directory, name)
        finally:
            self.tree.release(directory)

    def moved(self, index: int) -> bool:
        """Whether a step moved anything."""
        return index in self.created or index in self.displaced

    def _store(self, path: bytes, mine: bytes, entry: Entry) -> Entry:
        stored = store(self.stage.fd, mine, path, entry, self.capture)
        if stored.kind != Kind.UNKNOWN:
            self.captured.append((path, stored))
        return stored

    def clean(self, steps: list[Step]) -> list[tuple[bytes, str]]:
        """Empty the stage; a version that changed since it was looked at is stored first.

        Gives the paths of versions that could not be stored; their files stay in the stage.
        """
        left = []
        for mine in self.stage.names():
            if (index := step_number(mine)) is None:
                continue
            step = steps[index]
            try:
                reason = self._drop(index, step, mine)
            except OSError as error:
                reason = f"what it replaced could not be cleared away: {why(error)}"
            if reason:
                left.append((step.path, reason))
        return left

    def _drop(self, index: int, step: Step, mine: bytes) -> str:
        for seen in (self.displaced.get(index), self.staged.get(index)):
            if seen is not None and settled(seen.stat) and _is_same_inode(self.stage.fd, mine, seen.stat):
                discard(self.stage.fd, mine)
                return ""
        known = [step.expected, step.target]
        if index in self.displaced:
            known.append(self.displaced[index].entry)
        return drop(self.stage.fd, mine, step.path, known, self.capture, self.captured)

    def _adopt_owner(self, index: int, step: Step, before: os.stat_result | None, directory: int) -> None:
        """Give a staged entry the owner of what it replaces; a daemon run by root gives new ones their directory's."""
        wanted = before if before is not None else os.fstat(directory) if self._root else None
        if wanted is None:
            return
        seen = self.staged[index]
        if (wanted.st_uid, wanted.st_gid) == (seen.stat.st_uid, seen.stat.st_gid):
            return
        mine = stage_name(index)
        try:
            os.chown(mine, wanted.st_uid, wanted.st_gid, dir_fd=self.stage.fd, follow_symlinks=False)
        except PermissionError:
            return
        if step.target.kind == Kind.FILE:
            set_mode(self.stage.fd, mine, step.target.mode)
        found = os.stat(mine, dir_fd=self.stage.fd, follow_symlinks=False)
        self.staged[index] = Seen(inode_of(found), seen.entry)


def store(directory: int, name: bytes, path: bytes, entry: Entry, capture: Capture) -> Entry:
    """Have what stands at a name of the stage captured as a version of a path."""
    if not entry.there:
        return msgspec.structs.replace(UNKNOWN, reason=entry.reason or "special file")
    if entry.kind != Kind.FILE:
        return capture(path, None, entry)
    try:
        fd = open_file(directory, name)
    except OSError as error:
        return msgspec.structs.replace(UNKNOWN, reason=why(error))
    try:
        return capture(path, fd, entry)
    finally:
        os.close(fd)


def drop(
    directory: int,
    name: bytes,
    path: bytes,
    known: list[Entry],
    capture: Capture,
    captured: list[tuple[bytes, Entry]],
) -> str:
    """Remove a file of the stage, captured first unless it is one of the known entries; else the reason why not."""
    entry = look(directory, name)
    if entry.kind == Kind.DIR:
        if is_empty(directory, name):
            discard(directory, name)
            return ""
        return "a directory that was replaced was filled again"
    if not any(same(entry, other) for other in known):
        stored = store(directory, name, path, entry, capture)
        if stored.kind == Kind.UNKNOWN:
            return f"a version could not be captured ({stored.reason})"
        captured.append((path, stored))
    discard(directory, name)
    return ""


def _is_expected(step: Step, before: os.stat_result, found: os.stat_result) -> bool:
    """Whether stat alone proves that what came out is what the journal recorded.

    Before the exchange everything was as recorded, ctime included; after it, the inode has the same size and an mtime
    that a write in between would have moved.
    """
    return (
        step.expected.kind == Kind.FILE
        and proves(step.stat, before)
        and (before.st_ino, before.st_size, before.st_mtime_ns, before.st_mode)
        == (found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)
        and stat.S_IMODE(found.st_mode) == step.expected.mode
        and settled(found)
    )


def _is_same_inode(directory: int, name: bytes, seen: Inode) -> bool:
    now = os.stat(name, dir_fd=directory, follow_symlinks=False)
    return kind_of(now.st_mode) == Kind.FILE and (now.st_ino, now.st_size, now.st_mtime_ns, now.st_mode) == (
        seen.st_ino,
        seen.st_size,
        seen.st_mtime_ns,
        seen.st_mode,
    )


def is_opened(entry: Entry, expected: Entry) -> bool:
    """Whether a directory is the expected one, made passable by this very operation."""
    return entry.kind == expected.kind == Kind.DIR and entry.mode == expected.mode | 0o700
