"""Modes of directories during a run: closed ones are opened for its time, and every one gets its final mode at the end.

Only directories that the plan names are opened; another one that cannot be written stays as it is, and the steps below
it say so.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from mulligan.model import Entry, Kind
from mulligan.restore.plan import Step, same
from mulligan.restore.swap import NotTakenError, is_opened
from mulligan.restore.tree import Tree, kind_of, set_mode, status

#: What a directory's owner needs to work in it; new directories have no more than that until the end.
OPEN_BITS = 0o700


def is_mode_only(step: Step) -> bool:
    """Whether a step is about nothing but the mode of a directory."""
    return step.expected.kind == step.target.kind == Kind.DIR


class Directories:
    """The directories that a run opened or made, with the modes that they are to have."""

    def __init__(self, tree: Tree, *, force: bool) -> None:
        self.tree, self.force = tree, force
        self._opened: dict[bytes, int] = {}
        self._final: dict[bytes, Entry] = {}

    def made(self, path: bytes, before: Entry) -> None:
        """A directory was made for a step; its mode is set at the end."""
        self._final[path] = before

    def open(self, steps: Iterable[Step], *, resumed: bool) -> None:
        """Make the directories passable whose modes the plan sets or which it removes; root needs none of that.

        A resumed run finds some with their final modes already.
        """
        if os.geteuid() == 0:
            return
        for step in sorted(steps, key=lambda step: step.path):
            closed = [step.expected, step.target] if resumed else [step.expected]
            modes = [entry.mode for entry in closed if entry.kind == Kind.DIR and entry.mode & OPEN_BITS != OPEN_BITS]
            if modes:
                try:
                    self._open(step.path, modes)
                except OSError:
                    continue  # the steps below it will say why

    def _open(self, path: bytes, modes: list[int]) -> None:
        directory, name = self.tree.parent(path)
        try:
            found = status(directory, name)
            if found is None or kind_of(found.st_mode) != Kind.DIR:
                return
            now = stat.S_IMODE(found.st_mode)
            for mode in modes:
                if now in (mode, mode | OPEN_BITS):
                    set_mode(directory, name, mode | OPEN_BITS, found.st_ino)
                    self._opened[path] = mode
                    return
        finally:
            self.tree.release(directory)

    def pending(self, step: Step) -> bool:
        """Whether a step is booked only when its mode is set."""
        return step.path in self._final

    def unfinished(self, steps: Iterable[Step]) -> list[bytes]:
        """The paths whose modes are to be set, from the leaves up, so that no closed directory is in the way."""
        for step in steps:
            if is_mode_only(step):
                self._final[step.path] = step.expected
        return sorted(self._final.keys() | self._opened.keys(), reverse=True)

    def finish(self, step: Step) -> tuple[Entry, os.stat_result] | None:
        """Set the final mode; gives the entry before and what lstat says now, or None for one that was only opened.

        It is read back at once: afterwards a directory above may be closed. Raises NotTakenError, OSError.
        """
        before = self._final.get(step.path)
        if before is None:
            self.close(step.path)
            return None
        directory, name = self.tree.parent(step.path)
        try:
            found = status(directory, name)
            if found is None or kind_of(found.st_mode) != Kind.DIR:
                raise NotTakenError("changed since the plan was made")
            now = Entry(Kind.DIR, stat.S_IMODE(found.st_mode))
            known = same(now, before) or is_opened(now, before) or same(now, step.target) or is_opened(now, step.target)
            if is_mode_only(step) and not known and not self.force:
                raise NotTakenError("changed since the plan was made")
            if now.mode != step.target.mode:
                set_mode(directory, name, step.target.mode, found.st_ino)
                found = os.stat(name, dir_fd=directory, follow_symlinks=False)
            return before, found
        finally:
            self.tree.release(directory)

    def close(self, path: bytes) -> None:
        """Give a directory that was opened, and is still there, its own mode again. Raises OSError."""
        if path not in self._opened:
            return
        try:
            directory, name = self.tree.parent(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        try:
            found = status(directory, name)
            if found is not None and stat.S_IMODE(found.st_mode) == self._opened[path] | OPEN_BITS:
                set_mode(directory, name, self._opened[path], found.st_ino)
        finally:
            self.tree.release(directory)
