"""Which watch descriptor stands for which directory, both ways.

A directory that is moved keeps its descriptor, and a name that is taken by another directory gets another one, so the
newest binding wins on either side. What it displaces is handed back: those watches are the caller's to remove. Nothing
here talks to the kernel, and nothing here is locked.
"""

from __future__ import annotations

from mulligan.model import RelPath

ROOT = RelPath(b"")


def parent_of(path: RelPath) -> RelPath:
    """The directory that holds a path; the root holds itself."""
    return RelPath(path.rpartition(b"/")[0])


class WatchTree:
    """Descriptors and directories, with the subtree of any directory found in time proportional to it."""

    def __init__(self) -> None:
        self._descriptors: dict[RelPath, int] = {}
        self._directories: dict[int, RelPath] = {}
        # Directories that are bound, or lead to a bound one, below each directory.
        self._below: dict[RelPath, set[RelPath]] = {}

    def __len__(self) -> int:
        return len(self._descriptors)

    def __contains__(self, directory: RelPath) -> bool:
        return directory in self._descriptors

    def directory(self, descriptor: int) -> RelPath | None:
        """The directory that a descriptor stands for now."""
        return self._directories.get(descriptor)

    def descriptor(self, directory: RelPath) -> int | None:
        """The descriptor of a directory."""
        return self._descriptors.get(directory)

    def bind(self, descriptor: int, directory: RelPath) -> list[int]:
        """Let a descriptor stand for a directory; returns the descriptors that stand for nothing from now on.

        A descriptor that stood for another directory means that this directory was moved: whatever was bound below its
        old name goes too. The descriptor that the name had before is of a directory that is there no longer.
        """
        old = self._directories.get(descriptor)
        if old == directory:
            return []
        displaced: list[int] = []
        if old is not None:
            displaced = [each for each in self.drop(old) if each != descriptor]
        replaced = self._descriptors.get(directory)
        if replaced is not None:
            displaced.extend(self.drop(directory))
        self._descriptors[directory] = descriptor
        self._directories[descriptor] = directory
        self._link(directory)
        return displaced

    def unbind(self, descriptor: int) -> RelPath | None:
        """Let one descriptor stand for nothing; what is below its directory stays. Returns the directory it had."""
        directory = self._directories.pop(descriptor, None)
        if directory is not None:
            del self._descriptors[directory]
            self._unlink(directory)
        return directory

    def drop(self, directory: RelPath) -> list[int]:
        """Unbind a directory and everything below it; returns their descriptors."""
        dropped: list[int] = []
        waiting = [directory]
        while waiting:
            each = waiting.pop()
            descriptor = self._descriptors.pop(each, None)
            if descriptor is not None:
                del self._directories[descriptor]
                dropped.append(descriptor)
            waiting.extend(self._below.pop(each, ()))
        self._unlink(directory)
        return dropped

    def _link(self, directory: RelPath) -> None:
        while directory:
            parent = parent_of(directory)
            siblings = self._below.get(parent)
            if siblings is None:
                self._below[parent] = {directory}
            elif directory in siblings:
                return
            else:
                siblings.add(directory)
                return
            directory = parent

    def _unlink(self, directory: RelPath) -> None:
        while directory and directory not in self._descriptors and directory not in self._below:
            parent = parent_of(directory)
            siblings = self._below.get(parent)
            if siblings is None:
                return
            siblings.discard(directory)
            if siblings:
                return
            del self._below[parent]
            directory = parent
