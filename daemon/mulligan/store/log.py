"""The log: one thread that makes batches durable, one fsync for each, and folds them into the catalogue.

`submit` may be called from any thread. What waits in the queue is committed together: contents and the batch record
are written as one group and fsynced once; only then are the futures fulfilled. A crash leaves a prefix of the batches.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from mulligan.clock import MILLISECOND, NANOSECONDS, Clock
from mulligan.errors import BusyError, MulliganError, ReadOnlyError
from mulligan.faults import point
from mulligan.store import encoding, records
from mulligan.store.atomic import write_all
from mulligan.store.condemned import Condemned
from mulligan.store.fold import fold
from mulligan.store.placed import Placed
from mulligan.store.records import AnyFact, Batch, ClockFact, ContentFact, RowsFact
from mulligan.store.segments import (
    SEGMENT_HEADER_SIZE,
    SEGMENT_LIMIT,
    RecordKind,
    SegmentKind,
    SegmentWriter,
    pack_record,
)
from mulligan.store.write_ahead import WriteBack

RESERVE_NAME = "reserve"
_GROUP_LIMIT = 200
#: How long a scan's batches are held back behind another one (nanoseconds).
_GRACE = 4 * MILLISECOND
_FULL = (errno.ENOSPC, errno.EDQUOT)
#: An fsync that failed is tried again in this many segments altogether.
_ATTEMPTS = 3
#: Bytes of the catalogue's write-ahead log from which on it is written back, and of its cache.
_MOST_AHEAD, _CACHE_BYTES = 8 << 20, 32 << 20
#: So long after a scan the cache is given back.
_QUIET_SECONDS = 2.0

log = logging.getLogger(__name__)


class StoreFullError(MulliganError):
    """The disk has no room for a batch; nothing of it was stored."""

    code = "disk_full"
    exit_status = 1


class StaleContentError(BusyError):
    """What a batch builds on was collected meanwhile; nothing of it was stored. Whoever made it is to look again."""

    code = "stale_content"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} left the store meanwhile", hint="try again in a moment")


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a commit gave: the batch's number, and the seq of the first row (0 without rows)."""

    batch: int
    first_seq: int


@dataclass(slots=True)
class _Submission:
    facts: Sequence[AnyFact]
    contents: Sequence[encoding.Encoded | Placed]
    bulk: bool = False
    future: Future[Receipt] = field(default_factory=Future)
    first_seq: int = 0


class Log:
    """The writer of one store. `damage` is set to a reason when nothing may be written any more."""

    def __init__(
        self,
        directory: str,
        connection: sqlite3.Connection,
        writer: SegmentWriter,
        clock: Clock,
        *,
        batch: int,
        seq: int,
        content_id: int,
    ) -> None:
        self._directory, self._db, self._writer, self._clock = directory, connection, writer, clock
        self._batch, self._seq, self._content_id = batch, seq, content_id
        #: The clock's correction as the last batch has it.
        self.correction = clock.correction
        self._waiting: deque[_Submission] = deque()
        self._bulk: deque[_Submission] = deque()
        self._ready = threading.Condition()
        self._committing = threading.Lock()
        self._closing = False
        self._left = False
        self._last_other = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._write_back = WriteBack(_path_of(connection), _MOST_AHEAD)
        #: Whether the catalogue's cache may be large: it is given back when a scan has ended.
        self._is_cached = False
        self.damage = ""
        #: A segment that has reached this size is left for a new one (bytes).
        self.segment_limit = SEGMENT_LIMIT
        self.condemned = Condemned(directory)
        #: Called in the log's thread when a fourth of a segment was written since the last time; may not block.
        self.grown: Callable[[], None] = lambda: None
        self._grown = 0
        #: Bytes that were appended to segments since the start.
        self.written = 0

    def start(self) -> None:
        """Begin to commit."""
        # room for the index by hash, of which each new content changes another page
        self._db.executescript(f"pragma wal_autocheckpoint = 0; pragma cache_size = -{_CACHE_BYTES >> 10};")
        self._db.execute(f"pragma journal_size_limit = {_MOST_AHEAD}")
        self._write_back.start()
        self._thread.start()

    def stop(self) -> None:
        """Commit what was submitted, then end the thread. Idempotent."""
        if self._thread.is_alive():
            with self._ready:
                self._closing = True
                self._ready.notify()
            self._thread.join()
        self._write_back.stop()

    def close(self) -> None:
        """Stop, and close everything. Idempotent."""
        self.stop()
        self._writer.close()
        self._db.close()

    @property
    def is_shared(self) -> bool:
        """Whether somebody else than a scan used the log in the last second."""
        return self._clock.now() - self._last_other < NANOSECONDS

    @property
    def content_id(self) -> int:
        """The last id that a content was given."""
        return self._content_id

    def submit(
        self, facts: Sequence[AnyFact], contents: Sequence[encoding.Encoded | Placed] = (), *, bulk: bool = False
    ) -> Future[Receipt]:
        """Queue facts for the next batch, with the contents that they name; the future is fulfilled when durable.

        A `bulk` submission lets all others pass, so that a scan of one project keeps nobody waiting; order is kept
        within each lane only. The future raises ReadOnlyError, StoreFullError, BusyError (the store is being closed),
        OSError, or what a fact that cannot be stored leads to; then nothing of this submission is in the store.
        """
        submission = _Submission(facts, contents, bulk)
        submission.future.set_running_or_notify_cancel()  # whoever waits may go away; what was submitted is committed
        if self.damage:
            submission.future.set_exception(ReadOnlyError(self.damage, hint="mulligan store rebuild"))
            return submission.future
        with self._ready:
            if self._closing:
                submission.future.set_exception(BusyError("the store is being closed", hint="try again in a moment"))
            else:
                (self._bulk if bulk else self._waiting).append(submission)
                if not bulk:
                    self._last_other = self._clock.now()
                self._ready.notify()
        return submission.future

    def set_sizes(self, segment: int) -> None:
        """At which size (bytes) a segment is left for a new one; the catalogue's write-ahead log is kept as small."""
        self.segment_limit = segment
        self._write_back.limit = min(_MOST_AHEAD, segment)
        with self._committing:
            self._db.execute(f"pragma journal_size_limit = {self._write_back.limit}")

    def leave_segment(self) -> int:
        """Go on in a new segment, if there is anything in this one; its number. Raises OSError."""
        with self._committing:
            if self._writer.offset > SEGMENT_HEADER_SIZE:
                self._roll()
            return self._writer.number

    def append(self, facts: Sequence[AnyFact], contents: Sequence[encoding.Encoded | Placed] = ()) -> Receipt:
        """Submit and wait until it is durable."""
        return self.submit(facts, contents).result()

    @property
    def batch(self) -> int:
        """The number of the last batch that was committed."""
        return self._batch

    @contextmanager
    def held(self) -> Iterator[sqlite3.Connection]:
        """Nothing is committed meanwhile, and whoever holds it may write the catalogue; what is submitted waits."""
        with self._committing:
            yield self._db

    def go_on(self, writer: SegmentWriter | None, *, batch: int, seq: int, content_id: int, correction: int) -> None:
        """While it is held: another state of the catalogue is the last one; with a writer the log goes on there.

        What was damage is none any more. In a new segment the next batch is committed now, so that the log is known to
        go on there: later batches of earlier segments are void. Raises what committing raises.
        """
        self._batch, self._seq, self._content_id, self.correction = batch, seq, content_id, correction
        if writer is None:
            return
        self._writer.close()
        self._writer, self._left, self.damage = writer, False, ""
        anchor = _Submission([ClockFact(self._clock.correction, self._clock.now())], ())
        self._commit([anchor])
        anchor.future.result()

    def _run(self) -> None:
        while group := self._next_group():
            with self._committing:
                self._commit(group)
            if not group[0].bulk:
                self._last_other = self._clock.now()

    def _next_group(self) -> list[_Submission]:
        """Everything that waits, but of the bulk lane one only; empty at the end."""
        with self._ready:
            while not (self._waiting or self._bulk or self._closing):
                if not self._ready.wait(_QUIET_SECONDS if self._is_cached else None) and self._is_cached:
                    self._is_cached = False
                    self._db.execute("pragma shrink_memory")
            # Whoever used the log often comes again at once: a checkpoint follows the capture that it asked for.
            if not self._waiting and (left := self._last_other + _GRACE - self._clock.now()) > 0:
                self._ready.wait_for(lambda: self._waiting or self._closing, left / NANOSECONDS)
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), _GROUP_LIMIT))]
            if self._bulk and not group:
                group.append(self._bulk.popleft())
                self._is_cached = True
            return group

    def _commit(self, group: list[_Submission]) -> None:
        if self.damage:
            self._fail(group, ReadOnlyError(self.damage, hint="mulligan store rebuild"))
            return
        if self.condemned and not (group := self._still_good(group)):
            return
        before = (self._batch, self._seq, self._content_id, self.correction)
        try:
            batch = self._write(group)
        except Exception as error:  # noqa: BLE001 - whoever submitted gets it, and the thread goes on
            self._refuse(group, error)
            return
        try:
            self._fold(batch)
        except Exception as error:  # noqa: BLE001 - as above
            self._not_folded(group, batch, before, error)
            return
        point("log.folded")
        for submission in group:
            submission.future.set_result(Receipt(batch.number, submission.first_seq))
        self._write_back.look(self._db)
        if self._grown >= self.segment_limit // 4:
            self._grown = 0
            self.grown()

    def _still_good(self, group: list[_Submission]) -> list[_Submission]:
        """Those that name nothing which left the store since they were made; the others are told to look again."""
        good = []
        for submission in group:
            if gone := self.condemned.names(submission.facts, submission.contents):
                submission.future.set_exception(StaleContentError(gone))
            else:
                good.append(submission)
        return good

    def _refuse(self, group: list[_Submission], error: Exception) -> None:
        """Nothing of a group was stored: one bad submission must not take the others with it."""
        if len(group) == 1:
            self._fail(group, error)
            return
        for submission in group:
            self._commit([submission])

    @staticmethod
    def _fail(group: list[_Submission], error: Exception) -> None:
        for submission in group:
            submission.future.set_exception(error)

    def _fold(self, batch: Batch) -> None:
        """Fold a durable batch; a full disk costs the reserve first."""
        point("log.before_fold")
        try:
            fold(self._db, batch, self._writer.number, self._writer.offset)
        except sqlite3.OperationalError as error:
            if not is_full(error) or not release_reserve(self._directory):
                raise
            fold(self._db, batch, self._writer.number, self._writer.offset)

    def _not_folded(
        self, group: list[_Submission], batch: Batch, before: tuple[int, int, int, int], error: Exception
    ) -> None:
        """Take a batch back that was not acknowledged: it could not be folded at the next start either.

        If it is the catalogue that cannot be written, the batch stays and is folded at the next start.
        """
        broken = isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError
        full = is_full(error)
        if broken and not full:
            self._give_up(group, f"the catalogue cannot be written ({error}); restart to fold the log again")
            return
        try:
            self._writer.cut(batch.start)
        except OSError as failure:
            self._give_up(group, f"a batch could not be taken back ({failure})")
            return
        self._batch, self._seq, self._content_id, self.correction = before
        if not full:
            log.error("a batch was refused by the catalogue: %r", error)
        self._refuse(group, self._full_error(error) if full else error)

    def _give_up(self, group: list[_Submission], reason: str) -> None:
        log.error("%s", reason)
        self.damage = reason
        self._fail(group, ReadOnlyError(reason, hint="mulligan restart"))

    def _full_error(self, error: Exception) -> StoreFullError:
        full = StoreFullError(f"no room left in {self._directory}", hint="free some space; nothing was lost")
        full.__cause__ = error
        return full

    def _write(self, group: list[_Submission]) -> Batch:
        """Make one group durable. Raises, with the counters and the file as before."""
        for last in (attempt == _ATTEMPTS - 1 for attempt in range(_ATTEMPTS)):
            try:
                if self._left or self._writer.offset >= self.segment_limit:
                    self._roll()
                data, batch, seq, content_id = self._encode(group)
                self._writer.append(data)
                self._grown += len(data)
                self.written += len(data)
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                if release_reserve(self._directory) and not last:
                    continue
                raise self._full_error(error) from error
            point("log.appended")
            try:
                self._writer.sync()
            except OSError as error:
                # Nothing is known of the file behind the last good group: leave it, and say it again elsewhere.
                self._leave(batch.start, error)
                if last:
                    raise
                continue
            self._batch, self._seq, self._content_id = batch.number, seq, content_id
            if batch.facts and isinstance(batch.facts[0], ClockFact):
                self.correction = batch.facts[0].correction
            return batch
        raise AssertionError("unreachable")

    def _encode(self, group: list[_Submission]) -> tuple[bytes, Batch, int, int]:
        start = self._writer.offset
        seq, content_id = self._seq, self._content_id
        for submission in group:
            submission.first_seq = 0  # of an attempt that failed
        parts: list[bytes] = []
        position = start
        now, correction = self._clock.now(), self._clock.correction
        # no moment in the log is of a correction that a crash could lose
        facts: list[AnyFact] = [ClockFact(correction, now)] if correction != self.correction else []
        for submission in group:
            for content in submission.contents:
                content_id += 1
                if isinstance(content, Placed):
                    facts.append(
                        ContentFact(content_id, content.hash, content.size, content.encoding,
                                    content.segment, content.offset, content.stored)
                    )  # fmt: skip
                    continue
                base = content.base
                record = pack_record(
                    RecordKind.CONTENT, content.encoding, content.payload, content.size, content.hash,
                    base.hash if base else b"", content.depth,
                )  # fmt: skip
                facts.append(
                    ContentFact(content_id, content.hash, content.size, content.encoding, self._writer.number,
                                position, len(content.payload), base.id if base else 0, content.depth)
                )  # fmt: skip
                parts.append(record)
                position += len(record)
            for fact in submission.facts:
                if isinstance(fact, RowsFact):
                    submission.first_seq = submission.first_seq or seq + 1
                    fact = msgspec.structs.replace(fact, first_seq=seq + 1)
                    seq += len(fact.rows)
                facts.append(fact)
        batch = Batch(self._batch + 1, start, now, facts)
        payload = records.encode_batch(batch)
        encoded, stored = encoding.compress(payload)
        parts.append(pack_record(RecordKind.BATCH, encoded, stored, len(payload), hashlib.sha256(payload).digest()))
        return b"".join(parts), batch, seq, content_id

    def _roll(self) -> None:
        writer = SegmentWriter.create_next(self._directory, SegmentKind.LOG)
        self._writer.close()
        self._writer, self._left = writer, False

    def _leave(self, good: int, error: OSError) -> None:
        """Never write to this segment again: the next group begins a new one, now or when that can be made."""
        log.error("segment %d: fsync failed (%s); going on in a new segment", self._writer.number, error)
        self._left = True
        try:
            self._writer.cut(good)
        except OSError as failure:
            # A replay passes over what is left: the same batch stands in a later segment.
            log.error("segment %d could not be cut back to its last good group: %s", self._writer.number, failure)


def _path_of(connection: sqlite3.Connection) -> str:
    return str(connection.execute("pragma database_list").fetchone()[2])


def is_full(error: BaseException) -> bool:
    """Whether SQLite had no room."""
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode == sqlite3.SQLITE_FULL


def release_reserve(directory: str) -> bool:
    """Give up the reserve file, so that the last facts before a full disk still fit; False if there is none."""
    try:
        os.unlink(os.path.join(directory, RESERVE_NAME))
    except OSError:
        return False
    log.warning("the disk is full: the reserve was given up")
    return True


def make_reserve(directory: str, size: int) -> None:
    """Lay some bytes by, if there is room for eight times as many."""
    path = os.path.join(directory, RESERVE_NAME)
    space = os.statvfs(directory)
    if os.path.exists(path):
        if os.path.getsize(path) > size:
            os.truncate(path, size)
        return
    if space.f_bavail * space.f_frsize < 8 * size:
        return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for start in range(0, size, 1 << 20):
            write_all(fd, bytes(min(1 << 20, size - start)))
    finally:
        os.close(fd)
