"""The journal of one directory without a daemon: store, capture, reconciler and an observer, driven by the test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mulligan.journal.capture import Capture, Limits
from mulligan.journal.looked import Arrival
from mulligan.journal.reconcile import Reconciler
from mulligan.model import Entry, Flag, Kind, Row
from mulligan.store.catalogue import Live
from mulligan.store.records import ProjectFact
from mulligan.store.store import Store
from mulligan.watch.ignore import IgnoreRules
from mulligan.watch.observer import Changes, Observer
from support.trees import Snapshot, difference, snapshot

MakeObserver = Callable[[bytes, Callable[[], int]], Observer]
KINDS = {Kind.FILE: "file", Kind.DIR: "dir", Kind.LINK: "link"}


class Blind:
    """An observer that sees nothing; everything that it is asked to watch it believes to watch."""

    root_gone = False
    limit_reached = ""
    exact = True

    def __init__(self) -> None:
        self.changes = Changes()
        #: What only a barrier brings to light.
        self.queued = Changes()
        self.directories: set[bytes] = set()

    @property
    def watched(self) -> int:
        return len(self.directories)

    def start(self, wake: Callable[[], None]) -> None:
        """Nothing."""

    def watch(self, directory: bytes) -> bool:
        self.directories.add(directory)
        return True

    def is_watched(self, directory: bytes) -> bool:
        return directory in self.directories

    def forget(self, directory: bytes) -> None:
        self.directories = {each for each in self.directories if not (each + b"/").startswith(directory + b"/")}

    def barrier(self, timeout_seconds: float) -> bool:
        self.changes.entries |= self.queued.entries
        self.changes.directories |= self.queued.directories
        self.queued = Changes()
        return True

    def drain(self) -> Changes:
        changes, self.changes = self.changes, Changes()
        return changes

    def stop(self) -> None:
        """Nothing."""


class Journal:
    """What a project's worker does, one call at a time."""

    def __init__(
        self, base: Path, observer: Observer | MakeObserver | None = None, *, max_file_bytes: int = 1 << 40
    ) -> None:
        self.root = base / "root"
        self.root.mkdir(exist_ok=True)
        self.store = Store(str(base / "store"))
        path = os.fsencode(self.root)
        self.store.log.append([ProjectFact(1, path, "watching", 1, 1, 1, 1)])
        made = Blind() if observer is None else observer
        self.observer: Observer = made(path, self.store.clock.now) if callable(made) else made
        self.capture = Capture(self.store, 1, path, Limits(max_file_bytes))
        self.rows: list[Row] = []
        self.capture.on_rows = self.rows.extend
        self.reconciler = Reconciler(
            self.capture, self.store.catalogue, self.observer, IgnoreRules(path), self.store.clock.now
        )
        self.overflows = 0
        #: Nanoseconds to let pass after each look, for an observer that needs the file system's clock to have moved.
        self.tick = 0
        self.observer.start(lambda: None)

    def close(self) -> None:
        """End the observer and close the store."""
        self.observer.stop()
        self.store.close()

    @contextmanager
    def looking(self) -> Iterator[None]:
        """With the root open."""
        self.capture.open()
        try:
            yield
        finally:
            self.capture.close()

    def baseline(self) -> None:
        """The first look at everything."""
        with self.looking():
            self.reconciler.everything(Flag.FROM_UNKNOWN)
        self.rows.clear()

    def everything(self, flags: int = 0) -> None:
        """Compare the whole tree."""
        with self.looking():
            self.reconciler.everything(flags)

    def sync(self) -> None:
        """As before a checkpoint: whatever happened before the call is captured after it."""
        with self.looking():
            whole = self.observer.barrier(10)
            self.reconciler.take(self.observer.drain())
            while self.reconciler.overflowed or not whole or self.observer.limit_reached:
                self.overflows += self.reconciler.overflowed
                self.reconciler.overflowed, whole = False, True
                self.reconciler.everything()
                self.reconciler.take(self.observer.drain())
                if not self.reconciler.overflowed:
                    break
            self.reconciler.run(everything=True)

    def look(self, path: bytes) -> Entry:
        """Look at one path as if an event had told of it now."""
        now = self.store.clock.now()
        with self.looking():
            found = self.capture.path(path, Arrival(now, now))
            self.capture.flush()
        return found

    def live(self, path: bytes) -> Live:
        """The last row of a path."""
        found = self.store.catalogue().live(1, path)
        assert found is not None, path
        return found

    def stored(self) -> Snapshot:
        """The live tree as the store has it."""
        return {
            live.path: (
                KINDS[live.entry.kind],
                live.entry.mode,
                live.entry.hash or live.entry.target,
            )
            for live in self.store.catalogue().below(1, b"")
            if live.entry.kind in KINDS
        }  # fmt: skip

    def assert_equal(self) -> None:
        """After a barrier the store equals the disk, and gives every byte of it back."""
        self.sync()
        wrong = difference(snapshot(self.root), self.stored())
        assert not wrong, "\n".join(wrong)
        for path, (kind, _, value) in self.stored().items():
            if kind == "file":
                assert self.store.contents.holds(value), path
        end = self.store.clock.now() + self.tick
        while self.store.clock.now() < end:
            os.sched_yield()

    def read(self, path: bytes) -> bytes:
        """The bytes of a file's last version."""
        return self.store.contents.read(self.live(path).entry.hash)
