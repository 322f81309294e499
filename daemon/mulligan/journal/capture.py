"""Capturing: what stands at a dirty path becomes a row, if it differs from the path's last one.

A `Capture` belongs to one project's worker thread. It gathers rows and contents and commits them in batches; a row is
acknowledged only when `flush` has returned. No lock is held while a file is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass

import msgspec

from mulligan import clock
from mulligan.descent import open_root, parent_of
from mulligan.errors import MulliganError
from mulligan.journal.reading import Reading, read_descriptor, read_entry, stat_of, unchanged
from mulligan.journal.reading_child import Setup
from mulligan.model import ABSENT, Entry, Flag, Kind, Row, Stat
from mulligan.store import encoding
from mulligan.store.catalogue import Live
from mulligan.store.log import Placed, Receipt
from mulligan.store.records import AnyFact, RowsFact, StatsFact
from mulligan.store.store import Store

#: An event this much later than the change it tells of stands for the change's own time.
_LATE = 10 * clock.MILLISECOND
#: No reader of events is late by so much; a file system on which a rename sets no ctime makes it seem so.
_STALL = 5 * clock.NANOSECONDS
_ROWS_LIMIT, _BYTES_LIMIT = 1000, 4 << 20
#: Rows of one batch of a scan: small, because the interpreter and the log are shared with everybody.
_BULK_ROWS = 250
#: Batches of a scan that may be on their way to the disk while it goes on; a path is looked at once in a scan.
_BATCHES_AHEAD = 2
#: Bytes of latest versions that are kept in memory.
_RECENT_LIMIT = 4 << 20
_OLDER = 4


@dataclass(frozen=True, slots=True)
class Arrival:
    """When the events of a path arrived: the first since its last capture, and the last (journal time).

    `own`: they told of the path itself, not of a directory above it.
    """

    first: int
    last: int
    own: bool = False


@dataclass(slots=True)
class Limits:
    """What is left out, and listed instead."""

    max_file_bytes: int


class Capture:
    """Turns paths into rows of one project.

    `bulk` is true while a scan runs: its batches let others pass. `quiet_since` is the last moment at which no event
    was waiting: an entry whose change time is older was moved in.
    """

    def __init__(self, store: Store, project: int, root: bytes, limits: Limits) -> None:
        self._store, self.project, self.root, self._limits = store, project, root, limits
        self._rows: list[Row] = []
        self._stats: list[Stat] = []
        self._touched: list[tuple[bytes, Stat]] = []
        self._contents: list[encoding.Encoded | Placed] = []
        self._pending: dict[bytes, int] = {}
        self._row_index: dict[bytes, int] = {}
        self._bytes = 0
        self._recent: dict[bytes, bytes] = {}
        self._recent_bytes = 0
        # submitted batches that are not acknowledged yet: the rows, and their paths
        self._under_way: list[tuple[Future[Receipt], list[Row], dict[bytes, int]]] = []
        self._linked: dict[tuple[int, int], Arrival] = {}
        self._root_fd = -1
        self.quiet_since = 0
        self.bulk = False
        self.torn: set[bytes] = set()
        self.last_seq = 0
        self.captured = 0
        self.on_rows: Callable[[list[Row]], None] = lambda _rows: None

    def open(self) -> None:
        """Take a descriptor of the root for one operation: none is held between operations (it would block umount)."""
        if self._root_fd < 0:
            self._root_fd = open_root(self.root)

    def close(self) -> None:
        """Give the root's descriptor back."""
        if self._root_fd >= 0:
            os.close(self._root_fd)
            self._root_fd = -1

    @property
    def root_fd(self) -> int:
        """The open root."""
        return self._root_fd

    def child_setup(self) -> Setup:
        """What a reading child has to know."""
        store = self._store
        return Setup(self.root, store.pool, store.catalogue_path, self._limits.max_file_bytes, store.clock.correction)

    def is_unchanged(self, live: Live) -> bool:
        """Whether lstat proves that a path is what the journal says."""
        try:
            with parent_of(self._root_fd, live.path) as (fd, name):
                return unchanged(live.stat, stat_of(os.lstat(name, dir_fd=fd), 0))
        except OSError:
            return False

    def is_directory(self, path: bytes) -> bool:
        """Whether a directory stands at a path now."""
        try:
            with parent_of(self._root_fd, path) as (fd, name):
                return stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode)
        except OSError:
            return False

    def path(self, path: bytes, arrival: Arrival | None, flags: int = 0) -> Entry:
        """Look at one path; `arrival` is None if a scan found it. Returns what stands there."""
        if self._is_pending(path):
            self.flush()  # its last row must be known before the next is judged
        live = self._store.catalogue().live(self.project, path)
        reading = read_entry(self._root_fd, path, self._store.clock.now, self._limits.max_file_bytes, self._store_block)
        self.judge(path, live, reading, arrival, flags)
        return reading.entry

    def directory(self, path: bytes, live: Live | None, found: Stat, arrival: Arrival | None, flags: int = 0) -> None:
        """A directory was listed with this stat, whose `seen` is a moment before it: that is all there is to read."""
        if self._is_pending(path):
            self.path(path, arrival, flags)
            return
        self.judge(path, live, Reading(Entry(Kind.DIR, stat.S_IMODE(found.mode)), found), arrival, flags)

    def settle_below(self, directory: bytes) -> None:
        """Have the rows of everything below a directory in the catalogue."""
        below = directory + b"/"
        if any(path.startswith(below) for paths in self._pending_paths() for path in paths):
            self.flush()

    def _is_pending(self, path: bytes) -> bool:
        return any(path in paths for paths in self._pending_paths())

    def _pending_paths(self) -> Iterator[dict[bytes, int]]:
        """The paths of rows that the catalogue does not have yet."""
        yield self._row_index
        for _, _, paths in self._under_way:
            yield paths

    def judge(self, path: bytes, live: Live | None, reading: Reading, arrival: Arrival | None, flags: int = 0) -> None:
        """Make a row of a reading, if it says something new."""
        entry = reading.entry
        if reading.torn:
            flags |= Flag.TORN
            self.torn.add(path)
        else:
            self.torn.discard(path)
        if live is None and entry.kind == Kind.ABSENT:
            return  # came and went unseen
        if live is not None and live.entry == entry and not (live.flags & 3) and not reading.torn:
            if entry.there and not unchanged(live.stat, reading.stat):
                self._touched.append((path, reading.stat))
            return
        if live is not None and live.entry == entry and (live.flags & 3) == (flags & 3):
            return
        since, at = self._times(live, reading, arrival)
        if arrival is None:
            flags |= Flag.SCANNED
        elif reading.links > 1:
            self._linked[reading.stat.dev, reading.stat.ino] = arrival
        self._store_content(live, reading)
        self.add(Row(path, entry, since, at, flags), reading.stat)

    def other_names(self) -> None:
        """Look at the other names of files that were changed through one: events tell of that one alone."""
        linked, self._linked = self._linked, {}
        if not linked:
            return
        for path, inode in self._store.catalogue().names(self.project, list(linked)):
            self.path(path, linked[inode])
        self._linked = {}

    def add(self, row: Row, stat: Stat) -> None:
        """Queue a finished row."""
        self._row_index[row.path] = len(self._rows)
        self._rows.append(row)
        self._stats.append(stat)
        if len(self._rows) >= (_BULK_ROWS if self.bulk else _ROWS_LIMIT) or self._bytes >= _BYTES_LIMIT:
            self._submit()
            while len(self._under_way) > _BATCHES_AHEAD:
                self._acknowledge(self._under_way.pop(0))

    def absent(self, live: Live, arrival: Arrival | None, flags: int = 0) -> None:
        """A known path is seen to be missing."""
        if live.entry.kind == Kind.ABSENT:
            return
        self.judge(live.path, live, Reading(ABSENT, Stat(seen=self._store.clock.now())), arrival, flags)

    def unknown(self, live: Live, reason: str) -> None:
        """A known path left the scope: what it is from now on is not known, and nothing is deleted for it."""
        if live.entry.kind in (Kind.UNKNOWN, Kind.ABSENT):
            return
        now = self._store.clock.now()
        self.add(Row(live.path, Entry(Kind.UNKNOWN, reason=reason), now, max(now, live.at + 1)), Stat(seen=now))

    def _times(self, live: Live | None, reading: Reading, arrival: Arrival | None) -> tuple[int, int]:
        """(since, at) of a new row."""
        now = self._store.clock.now()
        changed = self._store.clock.from_wall(reading.stat.ctime) if reading.stat.ctime else 0
        if arrival is None:
            at = changed if changed and reading.entry.kind != Kind.ABSENT else now
            since = live.stat.seen if live is not None else at
        else:
            at, since = arrival.last, arrival.first
            # a rename sets the ctime of what is renamed, not of what lies in it
            moved_in = changed < self.quiet_since and not (arrival.own and at - changed < _STALL)
            if changed and at - changed > _LATE and not moved_in:
                at = changed
        at = min(at, now)
        if live is not None:
            at = max(at, live.at + 1)
        return min(since, at), at

    def _store_content(self, live: Live | None, reading: Reading) -> None:
        entry = reading.entry
        if reading.placed is not None:
            self._contents += reading.placed
            return
        if entry.kind != Kind.FILE or entry.hash in self._pending:
            return
        known = self._store.catalogue().place(entry.hash) is not None
        if known and self._store.contents.holds(entry.hash):
            return
        if reading.blocks is not None:
            self._queue(encoding.block_list(entry.hash, entry.size, reading.blocks))
        elif reading.data is not None:
            # what is stored again because it is damaged stands on its own: it may be the base of its base
            base = None if known else self._base(live, entry.size)
            self._queue(encoding.encode(reading.data, entry.hash, base))
            self._remember(entry.hash, reading.data)

    def _base(self, live: Live | None, size: int) -> encoding.Base | None:
        if live is None:
            return None
        catalogue = self._store.catalogue()
        # A file that is written anew is seen empty or half first: an older version is the better base.
        for digest in (live.entry.hash, *catalogue.older_contents(self.project, live.path, _OLDER)):
            place = catalogue.place(digest)
            if place is None or not encoding.wants_delta(size, place.size, place.depth):
                continue
            data = self._recent.get(digest)
            if data is not None:
                return encoding.Base(place.id, place.hash, data, place.depth)
            if (base := self._store.contents.base(digest)) is not None:
                return base
        return None

    def _remember(self, digest: bytes, data: bytes) -> None:
        """Keep a version for the delta of the next one: what is edited is edited again."""
        if digest in self._recent:
            return
        self._recent[digest] = data
        self._recent_bytes += len(data)
        while self._recent_bytes > _RECENT_LIMIT:
            self._recent_bytes -= len(self._recent.pop(next(iter(self._recent))))

    def _store_block(self, digest: bytes, block: bytes) -> None:
        if digest not in self._pending and not self._store.contents.holds(digest):
            self._queue(encoding.encode(block, digest))
        if self._bytes >= _BYTES_LIMIT:
            self._submit()

    def _queue(self, encoded: encoding.Encoded) -> None:
        self._pending[encoded.hash] = len(self._contents)
        self._contents.append(encoded)
        self._bytes += len(encoded.payload)

    def store_version(self, path: bytes, fd: int | None, found: Entry) -> Entry:
        """Store a version that a restore took out of the tree, durably; returns it as stored, or unknown with a reason.

        `fd` reads a regular file from its start; other kinds are all in `found`.
        """
        del path
        if fd is None:
            return found
        try:
            reading = read_descriptor(fd, self._store.clock.now, self._store_block)
            self._store_content(None, reading)
            self.flush()
        except (OSError, MulliganError) as error:
            return Entry(Kind.UNKNOWN, reason=str(error))
        return reading.entry

    def mark(self, path: bytes, flag: Flag) -> None:
        """Flag the queued row of a path, if there is one."""
        index = self._row_index.get(path)
        if index is not None:
            row = self._rows[index]
            self._rows[index] = msgspec.structs.replace(row, flags=row.flags | flag)

    def flush(self) -> None:
        """Commit what is queued; when this returns it is durable. Raises StoreFullError, ReadOnlyError, OSError."""
        self._submit()
        while self._under_way:
            self._acknowledge(self._under_way.pop(0))

    def _submit(self) -> None:
        facts: list[AnyFact] = []
        rows, paths = self._rows, self._row_index
        if rows:
            facts.append(RowsFact(self.project, rows, self._stats))
        if self._touched:
            facts.append(StatsFact(self.project, self._touched))
        contents = self._contents
        self._rows, self._stats, self._touched, self._contents = [], [], [], []
        self._pending, self._row_index, self._bytes = {}, {}, 0
        if facts or contents:
            self._under_way.append((self._store.log.submit(facts, contents, bulk=self.bulk), rows, paths))

    def _acknowledge(self, batch: tuple[Future[Receipt], list[Row], dict[bytes, int]]) -> None:
        future, rows, _ = batch
        receipt = future.result()
        if rows:
            self.captured += len(rows)
            self.last_seq = receipt.first_seq + len(rows) - 1
            numbered = [msgspec.structs.replace(row, seq=receipt.first_seq + n) for n, row in enumerate(rows)]
            self.on_rows(numbered)


def needs_reading(live: Live | None, stat: Stat) -> bool:
    """Whether a scan has to read an entry, or its stat proves that it is what the journal says."""
    if live is None or not live.entry.there or live.flags & 3:
        return True
    return not unchanged(live.stat, stat)


def missing(known: Iterable[Live], found: set[bytes]) -> list[Live]:
    """The known entries of a directory that a listing did not find."""
    return [live for live in known if live.entry.kind != Kind.ABSENT and live.path.rpartition(b"/")[2] not in found]
