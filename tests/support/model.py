"""What mulligan should do, in memory: a tree, the trees of checkpoints, and the operation that an undo would take back.

The model knows nothing of rows, events or files; it is compared with the disk and with the daemon's answers.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from support.trees import Snapshot


@dataclass(frozen=True)
class File:
    """A file's bytes and permission bits."""

    data: bytes
    mode: int


@dataclass(frozen=True)
class Dir:
    """A directory's permission bits."""

    mode: int


@dataclass(frozen=True)
class Link:
    """A link's text."""

    target: bytes


Node = File | Dir | Link
Tree = dict[bytes, Node]


def parent(path: bytes) -> bytes:
    """The directory above; b"" is the root."""
    return path.rpartition(b"/")[0]


def below(tree: Tree, path: bytes) -> list[bytes]:
    """The path itself and all below it that exist, parents first."""
    return sorted(other for other in tree if other == path or other.startswith(path + b"/"))


def whole(tree: Tree) -> bool:
    """Whether every entry stands in a directory."""
    return all(not parent(path) or isinstance(tree.get(parent(path)), Dir) for path in tree)


def as_snapshot(tree: Tree) -> Snapshot:
    """The snapshot that the disk should give."""
    found: Snapshot = {}
    for path, node in tree.items():
        match node:
            case File(data, mode):
                found[path] = ("file", mode, hashlib.sha256(data).digest())
            case Dir(mode):
                found[path] = ("dir", mode, b"")
            case Link(target):
                found[path] = ("link", 0, target)
    return found


@dataclass
class Operation:
    """A restore: what it changed, and whether it is undone at the moment."""

    before: Tree
    after: Tree
    undone: bool = False


@dataclass
class Model:
    """The present tree, every checkpoint's tree, moments to which no checkpoint belongs yet, the last operation."""

    tree: Tree = field(default_factory=dict)
    checkpoints: dict[str, Tree] = field(default_factory=dict)
    moments: list[tuple[int, Tree]] = field(default_factory=list)
    #: The project's current checkpoint; None where the contract leaves it open.
    current: str | None = None
    last: Operation | None = None

    def took(self, identity: str) -> None:
        """A checkpoint of the present tree was taken."""
        assert identity not in self.checkpoints, "an id is given once"
        self.checkpoints[identity] = dict(self.tree)

    def restored(self, after: Tree) -> None:
        """The tree was made equal to `after`."""
        self.last = Operation(dict(self.tree), dict(after))
        self.tree = dict(after)

    def reversal(self) -> Tree | None:
        """The tree after an undo (or a redo, if the last operation is undone), None if paths of it have changed since.

        What the operation did not touch stays as it is now.
        """
        if self.last is None:
            return None
        present, aim = self.last.after, self.last.before
        if self.last.undone:
            present, aim = aim, present
        result = dict(self.tree)
        for path in present.keys() | aim.keys():
            if present.get(path) == aim.get(path):
                continue
            if self.tree.get(path) != present.get(path):
                return None
            if path in aim:
                result[path] = aim[path]
            else:
                del result[path]
        return result if whole(result) else None

    def reversed_last(self) -> None:
        """The undo or redo that `reversal` describes has happened."""
        result = self.reversal()
        assert result is not None
        assert self.last is not None
        self.tree = result
        self.last.undone = not self.last.undone

    def with_path_of(self, target: Tree, path: bytes) -> Tree | None:
        """The tree after `path` alone was restored to `target`; None if its parent is no directory now."""
        if parent(path) and not isinstance(self.tree.get(parent(path)), Dir):
            return None
        result = dict(self.tree)
        for gone in below(self.tree, path):
            del result[gone]
        for back in below(target, path):
            result[back] = target[back]
        return result


class Disk:
    """Changes a tree on disk and in the model alike; `touched` gathers the paths, until somebody clears it."""

    def __init__(self, root: Path, model: Model) -> None:
        self.root, self.model = root, model
        self.touched: set[bytes] = set()

    def _place(self, path: bytes) -> bytes:
        return os.path.join(os.fsencode(self.root), path)

    def write(self, path: bytes, data: bytes, mode: int, *, atomic: bool) -> None:
        """A file is written in place, or beside and renamed over; what stands there is no directory."""
        place = self._place(path)
        written = self._place(path[:-1] + b"~") if atomic else place
        if atomic or not isinstance(self.model.tree.get(path), File):
            if os.path.lexists(written):
                os.unlink(written)
            fd = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        else:
            fd = os.open(written, os.O_WRONLY | os.O_TRUNC)
        os.write(fd, data)
        os.fchmod(fd, mode)
        os.close(fd)
        if atomic:
            os.rename(written, place)
        self.model.tree[path] = File(data, mode)
        self.touched.add(path)

    def mkdir(self, path: bytes, mode: int) -> None:
        """A directory where nothing is."""
        os.mkdir(self._place(path))
        os.chmod(self._place(path), mode)
        self.model.tree[path] = Dir(mode)
        self.touched.add(path)

    def symlink(self, path: bytes, target: bytes) -> None:
        """A link where nothing is."""
        os.symlink(target, self._place(path))
        self.model.tree[path] = Link(target)
        self.touched.add(path)

    def chmod(self, path: bytes, mode: int) -> None:
        """Other permissions for a file or a directory."""
        os.chmod(self._place(path), mode)
        self.touched.add(path)
        node = self.model.tree[path]
        self.model.tree[path] = Dir(mode) if isinstance(node, Dir) else File(node.data, mode)  # type: ignore[union-attr]

    def remove(self, path: bytes) -> None:
        """The entry and all below it go."""
        if isinstance(self.model.tree[path], Dir):
            shutil.rmtree(self._place(path))
        else:
            os.unlink(self._place(path))
        for gone in below(self.model.tree, path):
            del self.model.tree[gone]
            self.touched.add(gone)

    def rename(self, path: bytes, to: bytes) -> None:
        """The entry with all below it gets another name, where nothing is."""
        os.rename(self._place(path), self._place(to))
        self.touched.update(below(self.model.tree, path))
        moved = {to + old[len(path) :]: self.model.tree.pop(old) for old in below(self.model.tree, path)}
        self.model.tree.update(moved)
        self.touched.update(moved)
