"""The store of one user: lock, log, catalogue and contents behind one door."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import msgspec

from mulligan import child
from mulligan.clock import Clock
from mulligan.errors import BusyError, MulliganError, ReadOnlyError
from mulligan.store.atomic import make_private_directory
from mulligan.store.catalogue import NAME, Catalogue, connect
from mulligan.store.contents import Contents
from mulligan.store.lock import DirectoryLock
from mulligan.store.log import Log, make_reserve
from mulligan.store.opening import open_catalogue
from mulligan.store.rebuild import Built
from mulligan.store.records import ClockFact
from mulligan.store.room import Room
from mulligan.store.segments import SegmentKind, SegmentWriter
from mulligan.store.snapshot_child import Made, Wanted
from mulligan.store.swap import swap_in


class _Answer(Protocol):
    """What a child says; `error` why it could do nothing."""

    @property
    def error(self) -> str: ...


T = TypeVar("T", bound=_Answer)


class Store:
    """An open store. `log` writes, `catalogue()` and `contents` read, from any thread.

    Opening takes the lock (LockedError, exit 75), makes a catalogue anew that is lost or unreadable, cuts a torn tail,
    replays the log behind the catalogue's watermark and continues journal time. `first_start` is when this store was
    first opened (journal time). `damage` says why nothing may be written; reading goes on. `warnings` are about this
    start.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        make_private_directory(directory)
        self._lock = DirectoryLock(directory)
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise

    def _open(self) -> None:
        self.pool = os.path.join(self.directory, "content_pool")
        self.staging = os.path.join(self.directory, "staging")
        self.quarantine = os.path.join(self.directory, "quarantine")
        for path in (self.pool, self.staging):
            make_private_directory(path)
        self.catalogue_path = os.path.join(self.directory, NAME)
        connection, self.replayed, self.warnings = open_catalogue(self.catalogue_path, self.pool, self.quarantine)
        self._local = threading.local()
        self._building: dict[object, int] = {}
        self._readers: list[Catalogue] = []
        self._readers_lock = threading.Lock()
        self._reorganizing = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._closing = False
        counters = self.catalogue()
        self.clock = Clock(
            correction=counters.meta("correction"), latest=max(counters.meta("latest"), counters.meta("time"))
        )
        self.room = Room(self.disk_bytes, self.clock.now, lambda: self.log.written)
        self.contents = Contents(self.pool, self.catalogue)
        writer = self._writer()
        self.log = Log(
            self.pool,
            connection,
            writer,
            self.clock,
            batch=counters.meta("batch"),
            seq=counters.meta("seq"),
            content_id=counters.meta("content_id"),
        )
        self.log.condemned.purge(counters.purged())
        self.contents.gone = self.log.condemned
        self.log.damage = self.replayed.damage
        self.log.start()
        if not self.damage:
            make_reserve(self.pool, self.room.reserve)
            if not self.first_start:
                self.log.append([ClockFact(self.clock.correction, self.clock.now())])

    def _writer(self) -> SegmentWriter:
        if self.replayed.damage:
            return SegmentWriter.nowhere(self.pool)
        if self.replayed.segment:
            return SegmentWriter.reopen(self.pool, self.replayed.segment, self.replayed.end)
        return SegmentWriter.create_next(self.pool, SegmentKind.LOG)

    @property
    def damage(self) -> str:
        """Why nothing may be written; "" if all is well."""
        return self.log.damage

    @property
    def first_start(self) -> int:
        """When this store was first opened (journal time); 0 if that is not known."""
        return self.catalogue().meta("first_start")

    def require_writable(self) -> None:
        """Raise ReadOnlyError if nothing may be written."""
        if self.damage:
            raise ReadOnlyError(self.damage, hint="mulligan store rebuild")

    def catalogue(self) -> Catalogue:
        """The calling thread's read connection."""
        found: Catalogue | None = getattr(self._local, "catalogue", None)
        if found is None:
            found = Catalogue(connect(self.catalogue_path))
            self._local.catalogue = found
            with self._readers_lock:
                self._readers.append(found)
        return found

    def set_budget(self, budget: int) -> None:
        """What the store may take on disk (bytes): it decides how large segments and the reserve are."""
        self.room.set_budget(budget)
        self.log.set_sizes(self.room.segment_limit)
        if not self.damage:
            make_reserve(self.pool, self.room.reserve)

    @contextmanager
    def building(self) -> Iterator[None]:
        """While something is made whose contents are stored before what names them: none of these is collected."""
        token = object()
        self._building[token] = self.log.content_id
        try:
            yield
        finally:
            del self._building[token]

    def settled(self) -> int:
        """The last content, by its id, that no work under way can have stored."""
        last = self.log.content_id
        return min([last, *list(self._building.values())])

    def log_clock(self) -> None:
        """Record the clock's correction if it has grown."""
        if self.clock.correction != self.log.correction and not self.damage:
            self.log.append([])  # every batch says it

    def log_end(self) -> None:
        """Record how long this store was watched over: what comes after is a gap."""
        if not self.damage:
            self.log.append([ClockFact(self.clock.correction, self.clock.now())])

    @contextmanager
    def reorganizing(self, seconds: float = 0) -> Iterator[None]:
        """Held by whoever moves contents, writes a snapshot or makes the catalogue anew.

        Somebody else is waited for so long. Raises BusyError.
        """
        if not self._reorganizing.acquire(timeout=seconds):
            raise BusyError("the store is being reorganized already", hint="try again when that has ended")
        try:
            yield
        finally:
            self._reorganizing.release()

    def snapshot(self) -> int:
        """Write a snapshot of the catalogue by a child process, and keep three; returns its batch when it is durable.

        Within `reorganizing`. Raises MulliganError.
        """
        return self.ask("mulligan.store.snapshot_child", self._wanted(), Made).batch

    def rebuild(self) -> Built:
        """Make the catalogue anew from snapshot and segments, and put it in the place of the one in use.

        Work goes on meanwhile, but for a moment at the end. Damage is none any more afterwards: the log goes on behind
        the last batch that could be read, in a new segment. Raises MulliganError; then the old catalogue is in use.
        """
        with self.reorganizing():
            built = self.ask("mulligan.store.rebuild_child", self._wanted(), Built)
            try:
                return swap_in(self, built)
            except (OSError, sqlite3.Error) as error:
                raise MulliganError(f"the catalogue could not be replaced: {error}", hint="try again") from error

    def _wanted(self) -> Wanted:
        return Wanted(self.pool, self.catalogue_path, self.log.batch)

    def ask(self, module: str, question: msgspec.Struct, kind: type[T]) -> T:
        """Have a child process do something, within `reorganizing`. Raises MulliganError, as its `error` says."""

        def started(process: subprocess.Popen[bytes]) -> None:
            self._child = process
            if self._closing:
                process.kill()

        try:
            found = child.ask(module, question, kind, started=started)
        except child.ChildError as error:
            raise MulliganError(f"the process for it {error}; nothing was changed", hint="try again") from error
        finally:
            self._child = None
        if found.error:
            raise MulliganError(found.error, hint="nothing was changed")
        return found

    def disk_bytes(self) -> int:
        """What the store takes on disk, the reserve included."""
        total = 0
        for directory in (self.directory, self.pool):
            with os.scandir(directory) as entries:
                total += sum(entry.stat().st_blocks * 512 for entry in entries if entry.is_file(follow_symlinks=False))
        return total

    def interrupt(self) -> None:
        """Have whoever reorganizes end soon, and nobody begin."""
        self._closing = True
        if (process := self._child) is not None:
            process.kill()

    def close(self) -> None:
        """Commit what was submitted, close everything, give the lock up. Idempotent."""
        self.interrupt()
        with self._reorganizing:
            self.log.stop()
            self.contents.close()
            for reader in self._readers:  # before the writer, whose end then takes the write-ahead log in
                reader.close()
            self.log.close()
            self._lock.release()
