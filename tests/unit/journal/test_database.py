"""The files of an SQLite database: captured as they were at one moment, or flagged; no cut falls between them."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from mulligan.clock import FOREVER, MILLISECOND
from mulligan.journal import capture, database
from mulligan.journal.reading import Reading
from mulligan.model import Cut, Flag, Kind, database_of
from mulligan.project.checkpoints import Request, make_checkpoint
from mulligan.watch.observer import Changes
from support.journaling import Blind, Journal
from support.trees import put

DB, WAL, ROLLBACK = b"d/x.db", b"d/x.db-wal", b"d/x.db-journal"


def generation(journal: Journal, number: int) -> None:
    """The database and its log as a writer leaves them: both speak of one generation."""
    put(journal.root, DB, b"SQLite format 3\0 %d" % number)
    put(journal.root, WAL, b"log %d" % number)


def stored(journal: Journal) -> tuple[bytes, bytes]:
    """The generations that the journal has of the two."""
    return journal.read(DB).split()[-1], journal.read(WAL).split()[-1]


def while_reading(journal: Journal, monkeypatch: pytest.MonkeyPatch, path: bytes, happens: Callable[[], None]) -> None:
    """Let something happen just before a path is read."""
    real = journal.capture.read

    def read(each: bytes) -> Reading:
        if each == path:
            happens()
        return real(each)

    monkeypatch.setattr(journal.capture, "read", read)


def look(journal: Journal, way: str) -> None:
    """Have a change of the database found."""
    if way == "scan":
        journal.everything()
    elif way == "directory":
        with journal.looking():
            journal.reconciler.directory(b"d", None)
            journal.capture.flush()
    else:
        journal.reconciler.soil([{"database": DB, "log": WAL, "shared memory": b"d/x.db-shm"}[way]])
        journal.sync()


WAYS = ["database", "log", "shared memory", "directory", "scan"]


def test_a_log_names_its_database() -> None:
    assert database_of(WAL) == database_of(ROLLBACK) == DB
    for other in (DB, b"d/x.db-shm", b"-wal", b"d/-journal", b"d/wal"):
        assert database_of(other) is None


@pytest.mark.parametrize("way", WAYS)
def test_W7_a_database_that_moved_on_between_two_readings_is_read_again(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    generation(journal, 1)
    journal.baseline()
    generation(journal, 2)
    later = [5, 4, 3]
    for path in (DB, WAL):
        while_reading(journal, monkeypatch, path, lambda: generation(journal, later.pop()) if later else None)
    look(journal, way)
    assert stored(journal) == (b"5", b"5")
    assert (journal.live(DB).flags | journal.live(WAL).flags) & (Flag.TORN | Flag.UNPROVEN) == 0
    assert journal.live(DB).at == journal.live(WAL).at


@pytest.mark.parametrize("way", WAYS)
def test_W7_a_log_that_goes_into_its_database_between_two_readings(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    generation(journal, 1)
    journal.baseline()
    generation(journal, 2)

    def close() -> None:
        put(journal.root, DB, b"SQLite format 3\0 3")
        (journal.root / os.fsdecode(WAL)).unlink(missing_ok=True)

    while_reading(journal, monkeypatch, WAL, close)
    look(journal, way)
    assert journal.read(DB).endswith(b"3")
    assert journal.live(WAL).entry.kind == Kind.ABSENT


def test_W7_what_only_an_event_tells_is_read_again(
    journal: Journal, blind: Blind, monkeypatch: pytest.MonkeyPatch
) -> None:
    generation(journal, 1)
    journal.baseline()
    generation(journal, 2)
    monkeypatch.setattr(journal.capture, "stands", lambda *_, **__: True)
    left = [3]

    def write() -> None:
        if left:
            generation(journal, left.pop())
            blind.changes.touch(DB, journal.store.clock.now(), finished=True)

    while_reading(journal, monkeypatch, WAL, write)
    look(journal, "log")
    assert stored(journal) == (b"3", b"3")
    assert journal.reconciler.backlog == 0


@pytest.mark.parametrize("way", WAYS)
def test_W7_a_database_that_never_stands_still_is_flagged_until_it_does(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    generation(journal, 1)
    journal.baseline()
    number, reads = iter(range(2, 1000)), []

    def write() -> None:
        reads.append(WAL)
        generation(journal, next(number))

    generation(journal, 1000)
    for path in (DB, WAL):
        while_reading(journal, monkeypatch, path, write)
    look(journal, way)
    assert len(reads) < 20, "who writes without a pause is not waited for"
    assert stored(journal)[0] != stored(journal)[1], "nothing was mixed: the test shows nothing"
    assert journal.live(DB).flags & Flag.TORN and journal.live(WAL).flags & Flag.TORN
    assert incomplete(journal, Cut(journal.capture.last_seq)) == {DB, WAL}
    torn = Cut(journal.capture.last_seq)
    monkeypatch.undo()
    with journal.looking():
        journal.reconciler.soil([WAL])
        journal.reconciler.run(everything=True)
    assert stored(journal)[0] == stored(journal)[1]
    assert incomplete(journal, Cut(journal.capture.last_seq)) == set()
    assert incomplete(journal, torn) == {DB, WAL}, "what is whole by now does not make an earlier cut whole"


def incomplete(journal: Journal, cut: Cut) -> set[bytes]:
    """What a checkpoint at a cut says that it does not hold."""
    catalogue = journal.store.catalogue()
    made = make_checkpoint(catalogue, catalogue.project(1), Request("manual"), cut, 1, lambda: None)
    assert made is not None
    return {path for path, _ in made.incomplete}


def test_W7_a_cut_by_its_moment_lists_what_was_torn_then(journal: Journal) -> None:
    put(journal.root, b"f", b"one\n")
    put(journal.root, b"g", b"one\n")
    journal.baseline()
    flagged = []
    for flag in (Flag.TORN, 0):
        put(journal.root, b"f", b"edited %d\n" % flag)
        with journal.looking():
            journal.capture.path(b"f", None, flag)
            journal.capture.flush()
        flagged.append(journal.live(b"f"))
    torn, whole = flagged
    last = journal.capture.last_seq
    assert incomplete(journal, Cut(last, torn.at)) == {b"f"}
    assert incomplete(journal, Cut(torn.seq)) == {b"f"}
    assert incomplete(journal, Cut(last, whole.at)) == set()
    assert incomplete(journal, Cut(last, FOREVER)) == set()


def test_W7_no_moment_lies_between_a_database_and_its_log(journal: Journal, blind: Blind) -> None:
    generation(journal, 1)
    journal.baseline()
    for number in range(2, 6):
        changes = Changes()
        generation(journal, number)
        start = journal.store.clock.now()
        changes.touch(DB, start, finished=True)
        changes.touch(WAL, start + MILLISECOND, finished=True)
        if number % 2:
            (journal.root / os.fsdecode(ROLLBACK)).touch()
            changes.touch(ROLLBACK, start + MILLISECOND // 2, finished=True)
        blind.changes = changes
        while journal.store.clock.now() < start + 2 * MILLISECOND:
            os.sched_yield()
        journal.sync()
    catalogue = journal.store.catalogue()
    rows = {row.seq: row for path in (DB, WAL, ROLLBACK) for row in catalogue.versions(1, path)}
    for moment in sorted({row.at + more for row in rows.values() for more in (-1, 0, 1)}):
        cut = Cut(journal.capture.last_seq, moment)
        two = [catalogue.entry_at(1, path, cut) for path in (DB, WAL)]
        if any(entry.there for entry in two):
            one, other = (journal.store.contents.read(entry.hash).split()[-1] for entry in two)
            assert one == other, moment


@pytest.mark.parametrize(("limit", "most"), [(0, 2), (40, 4), (1 << 20, 16)])
def test_W7_a_large_database_is_not_read_again_and_again(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, limit: int, most: int
) -> None:
    generation(journal, 100)
    journal.baseline()
    number, reads = iter(range(101, 999)), []

    def write() -> None:
        reads.append(1)
        generation(journal, next(number))

    monkeypatch.setattr(database, "_AGAIN", limit)
    for path in (DB, WAL):
        while_reading(journal, monkeypatch, path, write)
    generation(journal, 100)
    look(journal, "log")
    assert most // 2 <= len(reads) <= most
    assert incomplete(journal, Cut(journal.capture.last_seq)) == {DB, WAL}


def test_W7_a_database_and_its_log_are_one_batch(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    generation(journal, 1)
    journal.baseline()
    generation(journal, 2)
    monkeypatch.setattr(capture, "_ROWS_LIMIT", 1)
    batch = journal.store.catalogue().meta("batch")
    look(journal, "log")
    assert stored(journal) == (b"2", b"2")
    assert journal.store.catalogue().meta("batch") == batch + 1


def test_W7_without_events_only_an_old_change_is_proof(journal: Journal, blind: Blind) -> None:
    blind.exact = False
    generation(journal, 1)
    journal.baseline()
    generation(journal, 2)
    look(journal, "log")
    assert journal.live(DB).flags & Flag.TORN, "a write within the clock's grain would not have shown"
    end = journal.store.clock.now() + 30 * MILLISECOND
    while journal.store.clock.now() < end:
        os.sched_yield()
    look(journal, "log")
    assert incomplete(journal, Cut(journal.capture.last_seq)) == set()


def test_a_database_that_did_not_change_is_not_read_for_its_log(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    generation(journal, 1)
    end = journal.store.clock.now() + 30 * MILLISECOND
    while journal.store.clock.now() < end:
        os.sched_yield()
    journal.baseline()
    read: list[bytes] = []
    for path in (DB, WAL):
        while_reading(journal, monkeypatch, path, lambda path=path: read.append(path))  # type: ignore[misc]
    put(journal.root, WAL, b"log 2")
    look(journal, "log")
    assert read == [WAL]
    assert journal.read(WAL) == b"log 2"


def test_shared_memory_of_which_events_tell_before_they_tell_of_its_database(journal: Journal, blind: Blind) -> None:
    journal.baseline()
    generation(journal, 1)
    for path in (b"d/x.db-shm", b"d/alone-shm", DB, WAL):
        blind.changes.touch(path, journal.store.clock.now(), finished=True)
    put(journal.root, b"d/x.db-shm", b"index")
    put(journal.root, b"d/alone-shm", b"a file of this name")
    journal.sync()
    assert journal.store.catalogue().live(1, b"d/x.db-shm") is None
    assert journal.read(b"d/alone-shm") == b"a file of this name"


def test_the_rest_of_a_database_is_not_captured_if_it_is_ignored(journal: Journal) -> None:
    put(journal.root, b".gitignore", b"*.db-wal\n")
    generation(journal, 1)
    journal.baseline()
    generation(journal, 2)
    look(journal, "database")
    assert journal.read(DB).endswith(b"2")
    assert journal.store.catalogue().live(1, WAL) is None
    assert journal.reconciler.backlog == 0
