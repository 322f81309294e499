"""A small worker for observers under test: what it knows of a tree after it looked where the changes point."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from mulligan.model import Kind, RelPath
from mulligan.watch.observer import Changes, Observer
from mulligan.watch.scan import list_directory

#: Path → (kind, size, link target or content) as it stands on disk.
Tree = dict[bytes, tuple[int, bytes]]


def look(root: bytes, path: bytes) -> tuple[int, bytes] | None:
    """What stands at a path, never through a link in its last name."""
    absolute = os.path.join(root, path)
    try:
        mode = os.lstat(absolute).st_mode & 0o170000
        if mode == 0o100000:
            with open(absolute, "rb") as file:
                return mode, file.read()
        return mode, os.readlink(absolute) if mode == 0o120000 else b""
    except (FileNotFoundError, NotADirectoryError):
        return None


def on_disk(root: bytes) -> Tree:
    """Everything below a root."""
    found: Tree = {}
    for at, directories, files in os.walk(root):
        for name in [*directories, *files]:
            path = os.path.relpath(os.path.join(at, name), root)
            if (seen := look(root, path)) is not None:
                found[path] = seen
    return found


class Keeper:
    """Follows a tree by the rule of the interface: watch first, list after, and go below whatever is not watched."""

    def __init__(self, root: Path, observer: Observer) -> None:
        self.root, self.observer = os.fsencode(root), observer
        self.known: Tree = {}
        self.reported: set[bytes] = set()
        self.overflows = 0

    def compare(self) -> None:
        """Watch and list the whole tree."""
        self.known = {}
        self._directory(b"", everything=True)

    def sync(self) -> None:
        """Everything that happened before the call is known when it returns."""
        assert self.observer.barrier(10)
        changes = self.observer.drain()
        while changes.entries or changes.directories or changes.overflow:
            self.take(changes)
            changes = self.observer.drain()

    def take(self, changes: Changes) -> None:
        """Look where the changes point."""
        self.reported |= changes.entries.keys()
        if changes.overflow:
            self.overflows += 1
            self.compare()
        for directory in changes.directories:
            self._directory(directory)
        for path in changes.entries:
            self._entry(path)

    def _entry(self, path: bytes) -> None:
        seen = look(self.root, path)
        if seen is None:
            self._gone(path)
        else:
            self.known[path] = seen

    def _gone(self, path: bytes) -> None:
        for known in [known for known in self.known if known == path or known.startswith(path + b"/")]:
            del self.known[known]

    def _directory(self, start: bytes, *, everything: bool = False) -> None:
        waiting = [start]
        while waiting:
            directory = waiting.pop()
            self.observer.watch(RelPath(directory))
            try:
                found = {each.path: each for each in list_directory(self.root, RelPath(directory), None)}
            except OSError:
                self._entry(directory)
                continue
            for known in [known for known in self.known if os.path.dirname(known) == directory]:
                if known and known not in found:
                    self._gone(known)
            for path, each in found.items():
                self._entry(path)
                if each.kind == Kind.DIR and (everything or not self.observer.is_watched(RelPath(path))):
                    waiting.append(path)


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> bool:
    """Wait for a condition; False if it does not come true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def elsewhere(program: str, *arguments: str) -> None:
    """Run a Python program in another process."""
    subprocess.run([sys.executable, "-c", program, *arguments], check=True)
