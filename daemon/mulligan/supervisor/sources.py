"""Where transcripts come from: the agents' configuration directories, watched for files that grow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from mulligan.clock import NANOSECONDS
from mulligan.transcript.locate import Found, Transcript, distinct, find_transcripts, recognise
from mulligan.watch.observer import Observer, make_observer

_DEPTH = 5
#: Where directories had to stay unwatched, all files are looked at this often.
_UNWATCHED = 5 * NANOSECONDS


class Sources:
    """The transcript files below some directories. A directory that does not exist yet is looked for now and then."""

    def __init__(self, config_dirs: list[str], now: Callable[[], int]) -> None:
        self._config_dirs, self._now = config_dirs, now
        self._observers: dict[str, Observer] = {}
        self._wake: Callable[[], None] = lambda: None
        self._again: set[str] = set()
        self._next_look = 0

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to watch what exists."""
        self._wake = wake
        self._attach()

    def stop(self) -> None:
        """End all observers."""
        for observer in self._observers.values():
            observer.stop()

    def index(self) -> Iterator[Found]:
        """All transcripts there are, by stat alone; they are watched already."""
        return find_transcripts(self._config_dirs)

    def recognise(self, path: str) -> Transcript | None:
        """What a file is, by its name."""
        for config_dir in self._observers:
            if path.startswith(config_dir + "/"):
                return recognise(path, config_dir)
        return None

    def again(self, path: str) -> None:
        """Name a file as changed once more the next time."""
        self._again.add(path)

    def _attach(self) -> list[str]:
        """Watch directories that have come to be; returns the files in them."""
        found: list[str] = []
        for config_dir in distinct(self._config_dirs):
            projects = os.path.join(config_dir, "projects")
            if config_dir in self._observers or not os.path.isdir(projects):
                continue
            observer = make_observer(os.fsencode(projects), self._now)
            self._observers[config_dir] = observer
            observer.start(self._wake)
            found += self._watch(config_dir, b"")
        return found

    def _watch(self, config_dir: str, directory: bytes) -> list[str]:
        """Watch a directory and everything below it, then list: returns the files there."""
        observer = self._observers[config_dir]
        root = os.path.join(config_dir, "projects")
        found, stack = [], [directory]
        while stack:
            current = stack.pop()
            observer.watch(current)
            try:
                with os.scandir(os.path.join(os.fsencode(root), current)) as entries:
                    for entry in entries:
                        path = os.path.join(current, entry.name)
                        if entry.is_dir(follow_symlinks=False):
                            if path.count(b"/") < _DEPTH:
                                stack.append(path)
                        elif entry.name.endswith(b".jsonl"):
                            found.append(os.path.join(root, os.fsdecode(path)))
            except OSError:
                continue
        return found

    def changed(self) -> set[str]:
        """The transcript files that may have changed since the last call."""
        names, self._again = self._again, set()
        names.update(self._attach())
        for config_dir, observer in list(self._observers.items()):
            if observer.root_gone:
                observer.stop()
                del self._observers[config_dir]
                continue
            observer.barrier(0)
            changes = observer.drain()
            if changes.overflow or (observer.limit_reached and self._now() >= self._next_look):
                names.update(self._watch(config_dir, b""))
                self._next_look = self._now() + _UNWATCHED
            for directory in changes.directories:
                names.update(self._watch(config_dir, directory))
            root = os.path.join(config_dir, "projects")
            names.update(os.path.join(root, os.fsdecode(path)) for path in changes.entries if path.endswith(b".jsonl"))
        return names
