"""New directories that are staged with everything in them and moved into the tree by one rename each.

At 100,000 files that spares the tree as many renames, and whoever watches it as many events. Only what the plan expects
to be absent is staged so: what stands in such a directory of the stage has never stood in the tree.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence

from mulligan.model import Kind
from mulligan.restore import exchange
from mulligan.restore.directories import OPEN_BITS
from mulligan.restore.plan import Step
from mulligan.restore.stage import Stage, stage_name, subtree_name
from mulligan.restore.tree import Tree

_DEFAULT_ACL = "system.posix_acl_default"


class Subtrees:
    """The new directories of one run: where they lie in the stage, and which of them stand in the tree by now."""

    def __init__(self, tree: Tree, stage: Stage) -> None:
        self._tree, self._stage = tree, stage
        #: path to (name in the stage, mode to be made with), parents first
        self._directories: dict[bytes, tuple[bytes, int]] = {}
        self._apart: Collection[bytes] = ()
        #: name in the stage to the steps staged in that directory
        self._inside: dict[bytes, list[int]] = {}
        self._taken: set[int] = set()
        #: Name in the stage to when it was moved, in the file system's time.
        self.moves: dict[bytes, int] = {}

    def find(self, steps: Sequence[Step], apart: Collection[bytes]) -> None:
        """Choose the directories of a plan; paths that are `apart` are put in later, one by one."""
        self._apart = apart
        for index, step in enumerate(steps):
            if step.target.kind != Kind.DIR or step.expected.kind != Kind.ABSENT:
                continue
            if place := self._within(step) or (subtree_name(index) if self._fits(step.path) else b""):
                self._directories[step.path] = place, step.target.mode if is_open(step) else OPEN_BITS

    def _fits(self, path: bytes) -> bool:
        """Whether a directory made in the stage is as one that is made in its place: nothing comes from above."""
        try:
            directory, _ = self._tree.parent(path)
        except OSError:
            return False
        try:
            found = os.fstat(directory)
            if found.st_mode & stat.S_ISGID or _has_default_acl(directory):
                return False
            # run by root, what is new belongs to the owner of the directory
            return os.geteuid() != 0 or (found.st_uid, found.st_gid) == (os.geteuid(), os.getegid())
        finally:
            self._tree.release(directory)

    @property
    def directories(self) -> list[tuple[bytes, int]]:
        """What is to be made in the stage: (name, mode) of each directory, parents first."""
        return list(self._directories.values())

    def make(self) -> None:
        """Make the directories in the stage. Raises OSError."""
        for place, mode in self._directories.values():
            os.mkdir(place, OPEN_BITS, dir_fd=self._stage.fd)
            if mode != OPEN_BITS:
                os.chmod(place, mode, dir_fd=self._stage.fd)

    def place(self, index: int, step: Step) -> bytes:
        """The name in the stage for what a step needs; with a directory that it names it goes into the tree."""
        if place := self._within(step):
            self._inside.setdefault(top(place), []).append(index)
            return place
        return stage_name(index)

    def _within(self, step: Step) -> bytes:
        above, _, name = step.path.rpartition(b"/")
        if above not in self._directories or step.expected.kind != Kind.ABSENT or step.path in self._apart:
            return b""
        return self._directories[above][0] + b"/" + name

    def move(self, step: Step, directory: int, name: bytes) -> bool:
        """Move a directory with everything in it to its place; False if it is not staged so. Raises OSError."""
        place, _ = self._directories.get(step.path, (b"", 0))
        if not place or b"/" in place:
            return False
        exchange.move(self._stage.fd, place, directory, name)
        self.moves[place] = os.stat(name, dir_fd=directory, follow_symlinks=False).st_ctime_ns
        self._taken.update(self._inside.get(place, ()))
        return True

    def taken(self, index: int) -> bool:
        """Whether what was staged for a step went into the tree with a directory above it."""
        return index in self._taken

    def moved(self, step: Step) -> int:
        """When a directory above a step was moved, and the step done by that, in the file system's time; else 0."""
        return self.moves.get(top(self._within(step)), 0)

    def take_out(self, index: int, step: Step) -> bool:
        """Give a file its ordinary name in the stage: the directory that it was staged in cannot be moved.

        False if it was not staged in one. Raises OSError.
        """
        place = self._within(step)
        if not place or self.moved(step):
            return False
        os.rename(place, stage_name(index), src_dir_fd=self._stage.fd, dst_dir_fd=self._stage.fd)
        return True


def top(place: bytes) -> bytes:
    """The directory of the stage that a name lies in, however deep, or the name itself."""
    return place.partition(b"/")[0]


def is_open(step: Step) -> bool:
    """Whether a directory can have its final mode while its owner works in it."""
    return step.target.mode & OPEN_BITS == OPEN_BITS


def _has_default_acl(directory: int) -> bool:
    if not hasattr(os, "getxattr"):
        return False
    try:
        # the descriptor only names the directory
        return bool(os.getxattr(f"/proc/self/fd/{directory}", _DEFAULT_ACL))
    except OSError:
        return False
