"""Which watch descriptor stands for which directory, both ways. Not thread-safe."""

from __future__ import annotations


class WatchTree:
    """A mapping that a move cannot confuse: a descriptor stands for the directory it was asked for last."""

    def __init__(self) -> None:
        self._directory: dict[int, bytes] = {}
        self._descriptor: dict[bytes, int] = {}
        self._below: dict[bytes, set[bytes]] = {}

    def __len__(self) -> int:
        return len(self._descriptor)

    def __contains__(self, directory: bytes) -> bool:
        return directory in self._descriptor

    def directory(self, descriptor: int) -> bytes | None:
        """The directory of a descriptor."""
        return self._directory.get(descriptor)

    def add(self, directory: bytes, descriptor: int) -> None:
        """Map a directory; the kernel gives one descriptor to one inode, so another name for it is an old one."""
        old = self._directory.get(descriptor)
        if old is not None and old != directory:
            self._unlink(old)
        previous = self._descriptor.get(directory)
        if previous is not None and previous != descriptor:
            self._directory.pop(previous, None)
        self._directory[descriptor] = directory
        self._descriptor[directory] = descriptor
        if directory:
            self._below.setdefault(directory.rpartition(b"/")[0], set()).add(directory)

    def remove_descriptor(self, descriptor: int) -> None:
        """The kernel has dropped a watch."""
        directory = self._directory.pop(descriptor, None)
        if directory is not None and self._descriptor.get(directory) == descriptor:
            self._unlink(directory)

    def drop(self, directory: bytes) -> list[int]:
        """Forget a directory and everything below it; returns the descriptors to give back."""
        dropped = []
        stack = [directory]
        while stack:
            current = stack.pop()
            stack.extend(self._below.pop(current, ()))
            descriptor = self._descriptor.get(current)
            if descriptor is not None:
                self._directory.pop(descriptor, None)
                dropped.append(descriptor)
            self._unlink(current)
        return dropped

    def _unlink(self, directory: bytes) -> None:
        self._descriptor.pop(directory, None)
        parent = directory.rpartition(b"/")[0]
        siblings = self._below.get(parent)
        if siblings is not None and directory:
            siblings.discard(directory)
            if not siblings:
                del self._below[parent]
