"""The log thread: what is submitted is committed in order, together, once, and a bad fact harms nobody but itself."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from mulligan.clock import NANOSECONDS
from mulligan.errors import BusyError, ReadOnlyError
from mulligan.store import log as log_module
from mulligan.store.log import Receipt, StoreFullError
from mulligan.store.records import AnyFact, CheckpointFact, OffsetFact, PromptFact, RowsFact, UsageFact
from mulligan.store.replay import decode
from mulligan.store.segments import SEGMENT_HEADER_SIZE, RecordKind, SegmentWriter, scan
from mulligan.store.store import Store
from support.daemon import in_parallel
from support.storing import (
    add_project,
    armed,
    checkpoint,
    file_entry,
    forget_catalogue,
    group_ends,
    opened,
    read,
    row,
    rows_fact,
    segment,
    tables,
    without_reserve,
    write,
)


class Held:
    """Holds the log thread at its next fsync, so that what is submitted meanwhile waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.syncs = 0
        self._reached, self._go = threading.Event(), threading.Event()
        real = SegmentWriter.sync

        def sync(writer: SegmentWriter) -> None:
            self.syncs += 1
            self._reached.set()
            assert self._go.wait(20)
            real(writer)

        monkeypatch.setattr(SegmentWriter, "sync", sync)

    def reached(self) -> None:
        """Wait until the thread is held."""
        assert self._reached.wait(20)

    def go(self) -> None:
        """Let it go on."""
        self._go.set()


def mark(name: str) -> OffsetFact:
    return OffsetFact(name.encode(), b"")


def marks(store: Store) -> set[str]:
    return {file.decode() for (file,) in store.catalogue().db.execute("select file from offset")}


def usage(tokens: int) -> UsageFact:
    return UsageFact("m", "s", "model", tokens, 0, 0, 0)


BAD: dict[str, AnyFact] = {
    "a lone surrogate": PromptFact("s", 1, "key", 5, "text \ud800", "typed"),
    "a number that msgpack cannot hold": usage(2**64),
    "a number that SQLite cannot hold": usage(2**63),
    "rows of a project that does not exist": rows_fact(row(b"f", at=5), project=77),
    "rows without stats": RowsFact(1, [row(b"f", at=5)], []),
    "an ordinal that is taken": CheckpointFact(checkpoint(id="other", ordinal=1)),
    "an event that has a checkpoint": CheckpointFact(checkpoint(id="other", ordinal=2, event_key="prompt:1")),
}


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with opened(tmp_path) as made:
        add_project(made)
        made.log.append([CheckpointFact(checkpoint(id="first", ordinal=1, event_key="prompt:1"))])
        yield made


def test_eight_threads_lose_no_receipt_and_numbers_have_no_gap(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)

        def work(thread: int) -> list[tuple[Receipt, list[bytes]]]:
            done = []
            for number in range(50):
                paths = [b"t%d/%d/%d" % (thread, number, each) for each in range(1 + number % 3)]
                rows = [row(path, file_entry(path), store.clock.now()) for path in paths]
                done.append((store.log.append([rows_fact(*rows)]), paths))
            return done

        results = [each for thread in in_parallel(8, work) for each in thread]
        assert len(results) == 400
        catalogue = store.catalogue()
        for receipt, paths in results:
            for offset, path in enumerate(paths):
                live = catalogue.live(1, path)
                assert live is not None
                assert live.seq == receipt.first_seq + offset
        total = sum(len(paths) for _, paths in results)
        assert [seq for (seq,) in catalogue.db.execute("select seq from row order by seq")] == list(range(1, total + 1))
        batches = {receipt.batch for receipt, _ in results}
        assert max(batches) == catalogue.meta("batch") < 402
        expected = tables(tmp_path / "catalogue.db")
    forget_catalogue(tmp_path)
    with opened(tmp_path):
        assert tables(tmp_path / "catalogue.db") == expected


def test_what_waits_is_committed_together_with_one_fsync_and_in_order(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    first = store.log.submit([mark("first")])
    held.reached()
    rows = [store.log.submit([rows_fact(row(b"f", file_entry(b"%d" % n), 10 + n))]) for n in range(100)]
    held.go()
    assert {future.result(20).batch for future in rows} == {first.result().batch + 1}
    assert [future.result().first_seq for future in rows] == list(range(1, 101))
    assert held.syncs == 2
    live = store.catalogue().live(1, b"f")
    assert live is not None and live.entry == file_entry(b"99")


def test_a_scan_lets_everybody_else_pass(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    store.log.submit([mark("first")])
    held.reached()
    bulk = [store.log.submit([mark(f"bulk{n}")], bulk=True) for n in range(3)]
    others = [store.log.submit([mark(f"other{n}")]) for n in range(3)]
    held.go()
    batches = [future.result(20).batch for future in (*others, *bulk)]
    assert batches == [5, 5, 5, 6, 7, 8]


def test_nothing_is_acknowledged_before_it_is_durable(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    future = store.log.submit([mark("one")])
    held.reached()
    assert not future.done()
    assert marks(store) == set()
    held.go()
    future.result(20)
    assert marks(store) == {"one"}


@pytest.mark.parametrize("bad", BAD)
def test_a_fact_that_cannot_be_stored_fails_alone(store: Store, tmp_path: Path, bad: str) -> None:
    end = segment(tmp_path).stat().st_size
    assert store.log.submit([BAD[bad]]).exception(20) is not None
    assert segment(tmp_path).stat().st_size == end
    assert store.damage == ""
    assert write(store, {b"f": b"goes on\n"}) == Receipt(4, 1)
    expected = tables(tmp_path / "catalogue.db")
    store.close()
    forget_catalogue(tmp_path)
    with opened(tmp_path) as again:
        assert again.damage == ""
        assert tables(tmp_path / "catalogue.db") == expected


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_submission_does_not_take_its_neighbours_with_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    held = Held(monkeypatch)
    store.log.submit([mark("first")])
    held.reached()
    futures: list[Future[Receipt]] = []
    for number in range(4):
        futures.append(store.log.submit([rows_fact(row(b"f%d" % number, file_entry(b"x"), 10), row(b"g", at=10))]))
        if number == 1:
            wrong = store.log.submit([BAD[bad]])
    held.go()
    assert wrong.exception(20) is not None
    catalogue = store.catalogue()
    receipts = [future.result(20) for future in futures]
    for number, receipt in enumerate(receipts):
        live = catalogue.live(1, b"f%d" % number)
        assert live is not None
        assert live.seq == receipt.first_seq
    assert catalogue.meta("seq") == 8
    expected = tables(tmp_path / "catalogue.db")
    store.close()
    forget_catalogue(tmp_path)
    with opened(tmp_path):
        assert tables(tmp_path / "catalogue.db") == expected


def test_the_receipt_after_a_refused_group_names_the_rows_own_numbers(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    without_reserve(store)
    store.log.submit([mark("first")])
    held.reached()
    futures = [store.log.submit([rows_fact(row(b"f%d" % number, file_entry(b"x"), 10))]) for number in range(3)]
    with armed("segment.write=enospc@1"):
        held.go()
        receipts = [future.result(20) for future in futures]
    catalogue = store.catalogue()
    for number, receipt in enumerate(receipts):
        live = catalogue.live(1, b"f%d" % number)
        assert live is not None and live.seq == receipt.first_seq


def full(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = code
    return error


def failing(monkeypatch: pytest.MonkeyPatch, code: int, times: int) -> None:
    """Let the catalogue fail some times."""
    real, left = log_module.fold, [times]

    def fold(*arguments: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise full(code)
        real(*arguments)

    monkeypatch.setattr(log_module, "fold", fold)


def test_a_catalogue_without_room_costs_the_reserve(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, sqlite3.SQLITE_FULL, 1)
    write(store, {b"f": b"stored\n"})
    assert not Path(store.pool, "reserve").exists()
    assert store.damage == ""
    assert read(store, b"f") == b"stored\n"


def test_a_batch_that_the_catalogue_has_no_room_for_is_taken_back(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_reserve(store)
    end = segment(tmp_path).stat().st_size
    failing(monkeypatch, sqlite3.SQLITE_FULL, 1)
    with pytest.raises(StoreFullError):
        write(store, {b"f": b"refused\n"})
    assert segment(tmp_path).stat().st_size == end
    assert store.damage == ""
    assert write(store, {b"f": b"stored\n"}) == Receipt(4, 1)
    store.close()
    with opened(tmp_path) as again:
        assert (again.damage, read(again, b"f")) == ("", b"stored\n")


def test_a_catalogue_that_cannot_be_written_makes_the_store_read_only_until_the_next_start(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, sqlite3.SQLITE_IOERR, 1)
    with pytest.raises(ReadOnlyError):
        write(store, {b"f": b"durable, not acknowledged\n"})
    assert "catalogue cannot be written" in store.damage
    with pytest.raises(ReadOnlyError):
        write(store, {b"f": b"more\n"})
    store.close()
    with opened(tmp_path) as again:
        assert (again.damage, again.replayed.batches) == ("", 1)
        assert read(again, b"f") == b"durable, not acknowledged\n"


def test_closing_commits_what_waits_and_refuses_what_comes_later(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    futures = [store.log.submit([mark("0")])]
    held.reached()
    futures += [store.log.submit([mark(str(number))], bulk=number % 2 == 0) for number in range(1, 20)]
    closing = threading.Thread(target=store.log.close)
    closing.start()
    held.go()
    closing.join(20)
    assert [future.result(20).batch for future in futures]
    assert isinstance(store.log.submit([mark("late")]).exception(20), BusyError)


def test_who_submitted_may_go_away(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    store.log.submit([mark("first")])
    held.reached()
    future = store.log.submit([mark("abandoned")])
    future.cancel()
    held.go()
    store.log.append([mark("later")])
    assert {"abandoned", "later"} <= marks(store)


def test_every_batch_says_where_its_group_begins(store: Store, tmp_path: Path) -> None:
    for number in range(5):
        write(store, {b"f": b"%d\n" % number})
    ends = group_ends(segment(tmp_path))
    with segment(tmp_path).open("rb") as file:
        found = list(scan(file.fileno(), SEGMENT_HEADER_SIZE))
    batches = [decode(each) for each in found if each.header.kind == RecordKind.BATCH]
    assert [batch.start for batch in batches] == ends[:-1]
    assert [batch.number for batch in batches] == list(range(1, len(ends)))


def test_two_submissions_of_one_project_in_one_batch_build_on_each_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    store.log.submit([mark("first")])
    held.reached()
    futures = [
        store.log.submit([rows_fact(row(b"f", file_entry(b"one"), 10))]),
        store.log.submit([rows_fact(row(b"f", file_entry(b"two "), 20), row(b"f", file_entry(b"three"), 30))]),
    ]
    held.go()
    assert [future.result(20).first_seq for future in futures] == [1, 2]
    project = store.catalogue().project(1)
    assert (project.files, project.size, project.last_seq) == (1, 5, 3)
    assert [each.entry.size for each in store.catalogue().versions(1, b"f")] == [3, 4, 5]


def test_the_log_is_shared_while_somebody_else_than_a_scan_uses_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        moment = store.clock.now() + 2 * NANOSECONDS  # later than whatever opening it wrote
        store.clock.now = lambda: moment  # type: ignore[method-assign]
        store.log.submit([OffsetFact(b"f", b"1")], bulk=True).result()
        assert not store.log.is_shared
        store.log.append([OffsetFact(b"f", b"2")])
        assert store.log.is_shared
        moment += 2 * NANOSECONDS
        assert not store.log.is_shared
