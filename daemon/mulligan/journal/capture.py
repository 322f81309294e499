"""Capturing: what stands at a dirty path becomes a row, if it differs from the path's last one.

A `Capture` belongs to one project's worker thread. It gathers rows and contents and commits them in batches; a row is
acknowledged only when `flush` has returned. No lock is held while a file is read.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import msgspec

from mulligan import clock
from mulligan.descent import open_root, parent_of
from mulligan.errors import MulliganError
from mulligan.journal.looked import Arrival, Looked
from mulligan.journal.reading import GRAIN, Reading, read_descriptor, read_entry, same_stat, settled, stat_of, unchanged
from mulligan.journal.reading_child import CHILDREN, Setup
from mulligan.model import ABSENT, PURGED, Entry, Flag, Kind, Row, Stat
from mulligan.store import encoding
from mulligan.store.catalogue import Live
from mulligan.store.log import Receipt
from mulligan.store.placed import Placed
from mulligan.store.records import AnyFact, RowsFact, StatsFact
from mulligan.store.room import Allowance
from mulligan.store.segments import RECORD_HEADER_SIZE
from mulligan.store.store import Store
from mulligan.store.usage import share_of

#: An event this much later than the change it tells of stands for the change's own time.
_LATE = 10 * clock.MILLISECOND
#: No reader of events is late by so much; a file system on which a rename sets no ctime makes it seem so.
_STALL = 5 * clock.NANOSECONDS
_ROWS_LIMIT, _BYTES_LIMIT = 1000, 4 << 20
#: Rows of one batch of a scan, and while others use the log: they wait for half of one, and for the interpreter. Each
#: batch changes nearly every page of the index by hash, so large ones are half the work.
_BULK_ROWS, _BULK_ROWS_BESIDE = 2400, 60
#: Batches of a scan that may be on their way to the disk while it goes on; a path is looked at once in a scan.
_BATCHES_AHEAD = 2
#: Bytes of latest versions that are kept in memory.
_RECENT_LIMIT = 4 << 20
_OLDER = 4
#: As plain numbers: combining members of an enumeration takes ten times as long, and it is done for every file.
_TORN, _SCANNED = Flag.TORN.value, Flag.SCANNED.value
_DOUBTS = (Flag.TORN | Flag.UNPROVEN).value


@dataclass(slots=True)
class Limits:
    """What is left out, and listed instead."""

    max_file_bytes: int


class Capture:
    """Turns paths into rows of one project.

    `bulk` is true while a scan runs: its batches let others pass. `quiet_since` is the last moment at which a barrier
    found no event waiting: an entry whose change time is older was moved in.
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
        #: Bytes of contents that are queued or submitted, but not acknowledged; and of those that are.
        self._ahead = self._stored = 0
        #: What the project may take of the store.
        self.allowance = Allowance(lambda: share_of(store.catalogue(), store.contents, project), lambda: self._stored)
        self._recent: dict[bytes, bytes] = {}
        self._recent_bytes = 0
        # submitted batches that are not acknowledged yet: the rows, and their paths
        self._under_way: list[tuple[Future[Receipt], list[Row], dict[bytes, int], int]] = []
        self._linked: dict[tuple[int, int], Arrival] = {}
        self._root_fd = -1
        self._held = False
        #: Why a block was not stored, if one ever was not.
        self._refused = ""
        self.quiet_since = 0
        self.bulk = False
        self.torn: set[bytes] = set()
        #: Paths that are in scope because a tool named them; each of their rows says so, and a restart reads it there.
        self.named: set[bytes] = set()
        self.last_seq = 0
        self.captured = 0
        self.on_rows: Callable[[list[Row]], None] = lambda _rows: None

    @property
    def _bytes_limit(self) -> int:
        """The bytes of contents that are committed together; a small budget has small segments."""
        return min(_BYTES_LIMIT, self._store.log.segment_limit)

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
        store.clock.look()  # a wall clock that was set back since is noticed
        scarcer = min(store.room, self.allowance, key=lambda room: room.left)
        return Setup(
            self.root, store.pool, store.catalogue_path, self._limits.max_file_bytes, store.clock.correction,
            store.room.segment_limit, scarcer.left // CHILDREN, scarcer.reason,
        )  # fmt: skip

    def is_unchanged(self, live: Live) -> bool:
        """Whether lstat proves that a path is what the journal says."""
        try:
            with parent_of(self._root_fd, live.path) as (fd, name):
                return self.proves(live, stat_of(os.lstat(name, dir_fd=fd), 0))
        except OSError:
            return False

    def proves(self, live: Live, stat: Stat) -> bool:
        """Whether a stat proves that an entry is the one that the journal has."""
        return unchanged(live.stat, stat, self._store.clock.correction)

    def needs_reading(self, live: Live | None, stat: Stat) -> bool:
        """Whether a scan has to read an entry, or its stat proves that it is what the journal says."""
        return live is None or not live.entry.there or bool(live.flags & _DOUBTS) or not self.proves(live, stat)

    def is_directory(self, path: bytes) -> bool:
        """Whether a directory stands at a path now."""
        return stat.S_ISDIR(self._mode(path))

    def is_file(self, path: bytes) -> bool:
        """Whether a regular file stands at a path now."""
        return stat.S_ISREG(self._mode(path))

    def _mode(self, path: bytes) -> int:
        try:
            with parent_of(self._root_fd, path) as (fd, name):
                return os.lstat(name, dir_fd=fd).st_mode
        except OSError:
            return 0

    def live(self, path: bytes) -> Live | None:
        """What the journal says of a path, with what is queued."""
        if self._is_pending(path):
            self.flush()  # its last row must be known before the next is judged
        return self._store.catalogue().live(self.project, path)

    def read(self, path: bytes) -> Reading:
        """Read what stands at a path; what it needs of a large file is queued."""
        return read_entry(self._root_fd, path, self._store.clock.look, self._limits.max_file_bytes, self._store_block)

    def path(self, path: bytes, arrival: Arrival | None, flags: int = 0) -> Entry:
        """Look at one path; `arrival` is None if a scan found it. Returns what stands there."""
        live = self.live(path)
        reading = self.read(path)
        self.judge(Looked(path, live, reading, arrival, flags))
        return reading.entry

    def directory(self, path: bytes, live: Live | None, found: Stat, arrival: Arrival | None, flags: int = 0) -> None:
        """A directory was listed with this stat, whose `seen` is a moment before it: that is all there is to read."""
        reading = Reading(Entry(Kind.DIR, stat.S_IMODE(found.mode)), found)
        self.judge(Looked(path, live, reading, arrival, flags))

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
        for _, _, paths, _ in self._under_way:
            yield paths

    def known(self, path: bytes, live: Live | None) -> Reading | None:
        """What a path is, if its stat proves it without a reading and nothing is left to be confirmed."""
        if live is None or not live.entry.there or live.flags & _DOUBTS or not self.is_unchanged(live):
            return None
        return Reading(live.entry, live.stat)

    def stands(self, path: bytes, reading: Reading, *, told: bool) -> bool:
        """Whether what was read stood there from then on until now; `told`: events would have told of a write.

        Without them a write within the clock's grain of the one before would not show.
        """
        try:
            with parent_of(self._root_fd, path) as (fd, name):
                found = stat_of(os.lstat(name, dir_fd=fd), 0)
        except OSError:
            return not reading.stat.ino
        return same_stat(reading.stat, found) and (told or settled(reading.stat, self._store.clock.correction))

    def together(self, readings: Sequence[Looked]) -> None:
        """Judge readings that were true at one moment: all their rows bear it, so no cut falls between them."""
        moment = 0
        for each in readings:
            if _is_news(each.live, each.reading, each.flags):
                moment = max(moment, self._times(each.live, each.reading, each.arrival)[1])
            elif each.live is not None:
                moment = max(moment, each.live.at)
        self._held = True  # in one batch: a crash does not part them either
        try:
            for each in readings:
                self.judge(each, moment)
        finally:
            self._held = False
        self._relieve()

    def judge(self, found: Looked, moment: int = 0) -> None:
        """Make a row of a reading, if it says something new; it became true at `moment` at the earliest."""
        path, live, reading, arrival, flags = found.path, found.live, found.reading, found.arrival, found.flags
        if self._is_pending(path):
            live = self.live(path)  # what was given is older
        if reading.entry.kind == Kind.FILE and (live is None or live.entry.hash != reading.entry.hash):
            reading = self._within_bounds(reading)
        entry = reading.entry
        if reading.torn:
            flags |= _TORN
            self.torn.add(path)
        else:
            self.torn.discard(path)
        if not _is_news(live, reading, flags):
            if live is not None and entry.there and not live.flags & _DOUBTS and not self.proves(live, reading.stat):
                self._touched.append((path, reading.stat))
            return
        since, at = self._times(live, reading, arrival)
        at = max(at, moment)
        if arrival is None:
            flags |= _SCANNED
        elif reading.links > 1:
            self._linked[reading.stat.dev, reading.stat.ino] = arrival
        self._store_content(live, reading)
        self.add(Row(path, entry, since, at, flags), reading.stat)

    def name(self, path: bytes) -> None:
        """Let a row of a path say that a tool named it, from now on; that it is not there yet is a row then."""
        self.named.add(path)
        live = self.live(path)
        if live is None or not live.flags & Flag.NAMED:
            now = self._store.clock.now()
            entry, at = (live.entry, max(now, live.at + 1)) if live is not None else (ABSENT, now)
            self.add(Row(path, entry, now, at), live.stat if live is not None else Stat(seen=now))

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
        if row.path in self.named:
            row = msgspec.structs.replace(row, flags=row.flags | Flag.NAMED)
        self._row_index[row.path] = len(self._rows)
        self._rows.append(row)
        self._stats.append(stat)
        self._relieve()

    def _relieve(self) -> None:
        """Submit what is queued, if it is enough."""
        if self._held:
            return
        rows, limit = len(self._rows), _ROWS_LIMIT
        if self.bulk:
            # asked now and then: it takes as long as all the rest
            limit = _BULK_ROWS_BESIDE if rows % _BULK_ROWS_BESIDE == 0 and self._store.log.is_shared else _BULK_ROWS
        if rows >= limit or self._bytes >= self._bytes_limit:
            self._submit()
            while len(self._under_way) > _BATCHES_AHEAD:
                self._acknowledge(self._under_way.pop(0))

    def absent(self, live: Live, arrival: Arrival | None, flags: int = 0) -> None:
        """A known path is seen to be missing."""
        if live.entry.kind == Kind.ABSENT:
            return
        self.judge(Looked(live.path, live, Reading(ABSENT, Stat(seen=self._store.clock.now())), arrival, flags))

    def unknown(self, live: Live, reason: str) -> None:
        """A known path left the scope: what it is from now on is not known, and nothing is deleted for it."""
        if self._is_pending(live.path):
            live = self.live(live.path) or live
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
            old = changed + GRAIN < self.quiet_since and not (arrival.own and at - changed < _STALL)
            if changed and at - changed > _LATE and not (old or arrival.moved):
                at = changed
            elif changed > at and reading.entry.kind != Kind.DIR:
                at = changed  # its event is still to come; what is made in a directory changes that one too
        at = min(at, now)
        if live is not None:
            at = max(at, live.at + 1)
        return min(since, at), at

    def _within_bounds(self, reading: Reading) -> Reading:
        """The reading, or that it is unknown if its content is new and may not be stored."""
        entry = reading.entry
        if reading.placed is not None or entry.hash in self._pending or self._store.contents.holds(entry.hash):
            return reading
        reason = self._refusal(entry.hash, len(reading.data or b""))
        if not reason and self._refused:
            blocks = reading.blocks or []
            reason = self._refused if any(not self._is_stored(block) for block in blocks) else ""
        return Reading(Entry(Kind.UNKNOWN, reason=reason), reading.stat) if reason else reading

    def _refusal(self, digest: bytes, size: int) -> str:
        """Why a content that is new may not be stored; "" if it may, although nothing of it could be compressed."""
        if self._store.catalogue().is_purged(digest):
            return PURGED
        for room, ahead in ((self._store.room, self._bytes), (self.allowance, self._ahead)):
            needed = ahead + size + RECORD_HEADER_SIZE
            if room.left < needed and not room.wait(needed):
                return room.reason
        return ""

    def _is_stored(self, digest: bytes) -> bool:
        return digest in self._pending or self._store.contents.holds(digest)

    def _store_content(self, live: Live | None, reading: Reading) -> None:
        entry = reading.entry
        if reading.placed is not None:
            self._contents += reading.placed
            self._ahead += sum(one.stored + RECORD_HEADER_SIZE for one in reading.placed)
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
            if place is None or not place.segment or not encoding.wants_delta(size, place.size, place.depth):
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
        if not self._is_stored(digest):
            if reason := self._refusal(digest, len(block)):
                self._refused = reason
                return
            self._queue(encoding.encode(block, digest))
        if self._bytes >= self._bytes_limit:
            self._submit()

    def _queue(self, encoded: encoding.Encoded) -> None:
        self._pending[encoded.hash] = len(self._contents)
        self._contents.append(encoded)
        self._bytes += len(encoded.payload)
        self._ahead += len(encoded.payload) + RECORD_HEADER_SIZE

    def store_version(self, path: bytes, fd: int | None, found: Entry) -> Entry:
        """Store a version that a restore took out of the tree, durably; returns it as stored, or unknown with a reason.

        `fd` reads a regular file from its start; other kinds are all in `found`.
        """
        del path
        if fd is None:
            return found
        try:
            reading = read_descriptor(fd, self._store.clock.look, self._store_block)
            if self._store.catalogue().is_purged(reading.entry.hash):
                return Entry(Kind.UNKNOWN, reason=PURGED)
            self._store_content(None, reading)
            self.flush()
        except (OSError, MulliganError) as error:
            return Entry(Kind.UNKNOWN, reason=str(error))
        return reading.entry

    def store_bytes(self, path: bytes, data: bytes) -> None:
        """Queue the content of a small file that is to stand at a path; `flush` makes it durable."""
        entry = Entry(Kind.FILE, 0, len(data), hashlib.sha256(data).digest())
        self._store_content(self.live(path), Reading(entry, Stat(), data=data))

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
        contents, ahead = self._contents, self._ahead - sum(bytes_ for _, _, _, bytes_ in self._under_way)
        self._rows, self._stats, self._touched, self._contents = [], [], [], []
        self._pending, self._row_index, self._bytes = {}, {}, 0
        if facts or contents:
            self._under_way.append((self._store.log.submit(facts, contents, bulk=self.bulk), rows, paths, ahead))

    def _acknowledge(self, batch: tuple[Future[Receipt], list[Row], dict[bytes, int], int]) -> None:
        future, rows, _, size = batch
        self._ahead -= size
        receipt = future.result()
        self._stored += size
        if self.allowance.is_due:
            self._store.log.grown()
        if rows:
            self.captured += len(rows)
            self.last_seq = receipt.first_seq + len(rows) - 1
            numbered = [msgspec.structs.replace(row, seq=receipt.first_seq + n) for n, row in enumerate(rows)]
            self.on_rows(numbered)


def _is_news(live: Live | None, reading: Reading, flags: int) -> bool:
    """Whether a reading says something that the last row of its path does not."""
    if live is None:
        return reading.entry.kind != Kind.ABSENT  # else it came and went unseen
    if live.entry != reading.entry:
        return True
    if not live.flags & _DOUBTS:
        return reading.torn
    return (live.flags ^ (flags | (_TORN if reading.torn else 0))) & _DOUBTS != 0
