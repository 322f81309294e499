"""Capturing: rows with their times, contents as deltas, a damaged past that does not stand in the way."""

from __future__ import annotations

import itertools
import os
import random
import sys
from pathlib import Path

import pytest

from mulligan.clock import MILLISECOND
from mulligan.journal.looked import Arrival, Looked
from mulligan.model import ABSENT, Cut, Flag, Kind
from mulligan.store.encoding import BLOCK_THRESHOLD, MAX_DEPTH, Encoding
from mulligan.store.log import StoreFullError
from mulligan.store.segments import RECORD_HEADER_SIZE
from mulligan.store.verify import verify
from mulligan.watch.observer import make_observer
from support.journaling import Blind, Journal
from support.storing import armed, flip, segment, without_reserve
from support.trees import put

RNG = random.Random(3)
TEXT = b"".join(b"%d some line\n" % RNG.randrange(10**6) for _ in range(400))


def later(journal: Journal) -> None:
    """Wait until the clock of any file system has ticked, and a stat proves what was read before."""
    end = journal.store.clock.now() + 30 * MILLISECOND
    while journal.store.clock.now() < end:
        os.sched_yield()


def damage(journal: Journal, path: bytes) -> None:
    """Break the stored content of a file's last version."""
    place = journal.store.catalogue().place(journal.live(path).entry.hash)
    assert place is not None
    store = Path(journal.store.directory)
    flip(segment(store, place.segment), place.offset + RECORD_HEADER_SIZE + place.stored // 2)


def test_R7_what_vanishes_becomes_absent_and_its_versions_stay(journal: Journal) -> None:
    put(journal.root, b"f", b"one\n")
    journal.look(b"f")
    (journal.root / "f").unlink()
    assert journal.look(b"f") == ABSENT
    put(journal.root, b"f", b"two\n")
    journal.look(b"f")
    kinds = [(row.entry.kind, row.entry.size) for row in journal.store.catalogue().versions(1, b"f")]
    assert kinds == [(Kind.FILE, 4), (Kind.ABSENT, 0), (Kind.FILE, 4)]


def test_R7_what_came_and_went_unseen_is_no_row(journal: Journal) -> None:
    assert journal.look(b"never/there") == ABSENT
    assert journal.rows == []
    assert journal.store.catalogue().live(1, b"never/there") is None


def test_what_did_not_change_is_no_row(journal: Journal) -> None:
    put(journal.root, b"f", b"one\n")
    later(journal)
    journal.look(b"f")
    batch = journal.store.catalogue().meta("batch")
    journal.look(b"f")
    assert len(journal.rows) == 1
    assert journal.store.catalogue().meta("batch") == batch
    put(journal.root, b"f", b"one\n")  # the same bytes again, another stat
    journal.look(b"f")
    assert len(journal.rows) == 1
    assert journal.live(b"f").stat.mtime == (journal.root / "f").stat().st_mtime_ns


def test_a_mode_alone_is_a_row_without_a_new_content(journal: Journal) -> None:
    put(journal.root, b"f", b"one\n", 0o644)
    journal.look(b"f")
    contents = len(list(journal.store.catalogue().places()))
    (journal.root / "f").chmod(0o600)
    journal.look(b"f")
    assert [row.entry.mode for row in journal.rows] == [0o644, 0o600]
    assert len(list(journal.store.catalogue().places())) == contents


def test_times_rise_within_a_path_whatever_the_arrivals_say(journal: Journal) -> None:
    now = journal.store.clock.now()
    with journal.looking():
        for number in range(5):
            put(journal.root, b"f", b"%d\n" % number)
            journal.capture.path(b"f", Arrival(now - number * 1000, now - number * 1000))
    with journal.looking():
        journal.capture.flush()
    rows = journal.store.catalogue().versions(1, b"f")
    assert len(rows) == 5
    assert all(one.at < other.at for one, other in itertools.pairwise(rows))
    assert all(row.since <= row.at for row in rows)
    for row in rows:
        assert journal.store.catalogue().entry_at(1, b"f", Cut(row.seq, row.at)) == row.entry


def test_a_late_event_stands_for_the_change_not_for_its_arrival(journal: Journal) -> None:
    put(journal.root, b"f", b"one\n")
    changed = (journal.root / "f").stat().st_ctime_ns
    late = changed + 500 * MILLISECOND
    while journal.store.clock.now() < late:
        os.sched_yield()
    with journal.looking():
        journal.capture.path(b"f", Arrival(late, late))
        journal.capture.flush()
    assert journal.live(b"f").at == changed


def test_what_came_with_its_directory_became_true_with_its_arrival(journal: Journal) -> None:
    put(journal.root.parent, b"outside/f", b"old\n")
    later(journal)
    journal.capture.quiet_since = journal.store.clock.now()
    (journal.root.parent / "outside").rename(journal.root / "d")
    later(journal)
    before = journal.store.clock.now()
    journal.look(b"d/f")
    live = journal.live(b"d/f")
    assert (journal.root / "d/f").stat().st_ctime_ns < journal.capture.quiet_since < before < live.at


def row_of(journal: Journal, path: bytes, arrival: Arrival) -> tuple[int, int]:
    """(since, at) of the row that an arrival leads to."""
    with journal.looking():
        journal.capture.path(path, arrival)
        journal.capture.flush()
    live = journal.live(path)
    return live.since, live.at


def change_time(journal: Journal, path: bytes) -> int:
    return journal.store.clock.from_wall((journal.root / os.fsdecode(path)).stat().st_ctime_ns)


def late_event(journal: Journal, monkeypatch: pytest.MonkeyPatch, age: int) -> tuple[int, int]:
    """A file whose change time is as old as that when its event arrives; gives both."""
    put(journal.root, b"f", b"one\n")
    real = journal.store.clock.from_wall
    later(journal)
    arrival = journal.store.clock.now()
    older = age - (arrival - change_time(journal, b"f"))
    monkeypatch.setattr(journal.store.clock, "from_wall", lambda wall: real(wall) - older)
    return change_time(journal, b"f"), arrival


SECOND = 1000 * MILLISECOND


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("age", "looked_since"), [(9, 0), (9, 1), (11, 0), (11, 1), (4900, 0), (4900, 1), (5100, 0),
                                                   (5100, 1)])  # fmt: skip
def test_when_a_change_became_true(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, own: bool, age: int, looked_since: int
) -> None:
    """The arrival stands for it; a late one gives way to the change time, if that is of this change.

    It is, if nobody had heard everything since; else only if the event was of the path itself, and no later than a
    reader of events can be.
    """
    changed, arrival = late_event(journal, monkeypatch, age * MILLISECOND)
    journal.capture.quiet_since = changed + (21 * MILLISECOND if looked_since else 0)
    of_this_change = not looked_since or (own and age < 5000)
    expected = changed if age > 10 and of_this_change else arrival
    assert row_of(journal, b"f", Arrival(arrival - 1, arrival, own=own)) == (min(arrival - 1, expected), expected)


def test_what_came_with_a_directory_that_was_moved_is_as_old_as_the_move(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed, arrival = late_event(journal, monkeypatch, SECOND)
    journal.capture.quiet_since = changed - SECOND
    assert row_of(journal, b"f", Arrival(arrival, arrival, moved=True)) == (arrival, arrival)


def test_X10_a_version_is_not_older_than_its_last_change(journal: Journal) -> None:
    """What was read may be newer than the event that led to it: a cut between the two must not hold it."""
    put(journal.root, b"f", b"one\n")
    later(journal)
    journal.look(b"f")
    first = journal.store.clock.now()
    later(journal)
    put(journal.root, b"f", b"three\n")
    assert row_of(journal, b"f", Arrival(first, first, own=True)) == (first, change_time(journal, b"f"))
    catalogue = journal.store.catalogue()
    assert catalogue.entry_at(1, b"f", Cut(journal.capture.last_seq, first + 1)).size == len(b"one\n")
    assert catalogue.changed_late(1, first + 1, journal.capture.last_seq) == [b"f"]


def test_what_is_made_in_a_directory_does_not_make_that_one_younger(journal: Journal) -> None:
    (journal.root / "d").mkdir()
    made = journal.store.clock.now()
    later(journal)
    put(journal.root, b"d/f", b"one\n")
    assert change_time(journal, b"d") > made
    assert row_of(journal, b"d", Arrival(made, made, own=True)) == (made, made)


def test_a_change_through_another_name_became_true_with_it(journal: Journal) -> None:
    put(journal.root, b"a", b"one\n")
    os.link(journal.root / "a", journal.root / "b")
    journal.baseline()
    put(journal.root, b"a", b"two\n")
    later(journal)
    journal.capture.quiet_since = late = journal.store.clock.now()
    with journal.looking():
        journal.capture.path(b"a", Arrival(late, late, own=True))
        journal.capture.other_names()
        journal.capture.flush()
    assert journal.live(b"a").at == journal.live(b"b").at == change_time(journal, b"a")


def test_a_directory_arrived_with_its_event_and_not_when_that_was_taken(journal: Journal, blind: Blind) -> None:
    put(journal.root.parent, b"outside/sub/f", b"old\n")
    journal.baseline()
    (journal.root.parent / "outside").rename(journal.root / "d")
    arrival = journal.store.clock.now()
    blind.changes.touch(b"d", arrival, finished=True, moved=True)
    blind.changes.directories.add(b"d")
    later(journal)
    journal.sync()
    assert journal.live(b"d/sub/f").at == journal.live(b"d/sub").at == arrival


@pytest.mark.parametrize("database", [False, True])
@pytest.mark.parametrize("exact", [True, False])
def test_what_waited_to_be_heard_is_no_old_thing_that_was_moved_in(
    journal: Journal, blind: Blind, exact: bool, database: bool
) -> None:
    """A reader of events who is late: somebody looked between a change and the arrival of its event."""
    blind.exact = exact
    journal.baseline()
    if database:  # it is heard for while it is read
        put(journal.root, b"x.db-wal", b"log")
        journal.reconciler.soil([b"x.db-wal"])
    put(journal.root, b"d/f", b"one\n")  # within the grain of the clock its change time is before the look
    later(journal)
    blind.queued.touch(b"d", journal.store.clock.now(), finished=True)
    blind.queued.directories.add(b"d")
    for _ in range(2):
        with journal.looking():
            journal.reconciler.run(everything=False)
    journal.sync()
    assert journal.live(b"d/f").at == change_time(journal, b"d/f")
    with journal.looking():
        journal.reconciler.run(everything=True)
    assert journal.capture.quiet_since > journal.live(b"d/f").at


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
def test_a_directory_that_is_made_elsewhere_and_moved_in_is_not_older_than_the_move(tmp_path: Path) -> None:
    journal = Journal(tmp_path, make_observer)
    try:
        journal.baseline()
        put(tmp_path, b"outside/sub/f", b"new\n")
        later(journal)
        before = journal.store.clock.now()
        (tmp_path / "outside").rename(journal.root / "d")
        later(journal)
        journal.assert_equal()
        assert min(journal.live(path).at for path in (b"d/sub/f", b"d/sub", b"d")) >= before - 10 * MILLISECOND
        assert change_time(journal, b"d/sub/f") < before - 20 * MILLISECOND
    finally:
        journal.close()


def test_found_by_a_scan_is_flagged_and_says_since_when(journal: Journal) -> None:
    put(journal.root, b"f", b"one\n")
    journal.look(b"f")
    seen = journal.live(b"f").stat.seen
    later(journal)
    put(journal.root, b"f", b"two\n")
    journal.everything()
    live = journal.live(b"f")
    assert live.flags & Flag.SCANNED
    assert (live.since, live.at) == (seen, (journal.root / "f").stat().st_ctime_ns)
    (journal.root / "f").unlink()
    before = journal.store.clock.now()
    journal.everything()
    live = journal.live(b"f")
    assert live.entry == ABSENT and live.since < before < live.at


# what proves an entry unchanged


HOUR = 3600 * 1000 * MILLISECOND


def test_V5_a_stat_proves_nothing_within_the_clocks_grain_after_the_clock_was_set_back(journal: Journal) -> None:
    journal.store.clock.correction += HOUR  # as after the wall clock was set back by one
    for attempt in range(100):
        put(journal.root, b"f", b"%d\n" % attempt)
        journal.look(b"f")
        stat = journal.live(b"f").stat
        if stat.seen < journal.store.clock.from_wall(stat.ctime) + 20 * MILLISECOND:
            break  # else the machine was too slow
    assert _needs(journal, b"f")
    later(journal)
    journal.everything()
    assert not _needs(journal, b"f")


def test_V5_the_children_of_a_scan_date_their_looks_in_journal_time(journal: Journal) -> None:
    for number in range(500):
        put(journal.root, b"f%d" % number, b"one\n")
    later(journal)
    journal.store.clock.correction += HOUR
    before = journal.store.clock.look()
    journal.baseline()
    assert all(before < live.stat.seen < journal.store.clock.now() for live in journal.store.catalogue().below(1, b""))
    assert not any(_needs(journal, b"f%d" % number) for number in range(500))


def _needs(journal: Journal, path: bytes) -> bool:
    """Whether the journal says of a file that did not change that it has to be read."""
    live = journal.live(path)
    return journal.capture.needs_reading(live, live.stat)


def test_V5_a_look_before_the_clock_was_set_back_proves_no_more_than_it_did(journal: Journal) -> None:
    put(journal.root, b"f", b"one\n")
    later(journal)
    journal.look(b"f")
    assert not _needs(journal, b"f")
    journal.store.clock.correction += HOUR
    assert _needs(journal, b"f"), "it is read once more"
    journal.everything()
    assert not _needs(journal, b"f")


# contents


def test_an_edited_file_is_stored_as_small_deltas(journal: Journal) -> None:
    data = TEXT
    put(journal.root, b"f", data)
    journal.look(b"f")
    for number in range(40):
        data = data.replace(b"some line", b"edit %d" % number, 1)
        put(journal.root, b"f", data)
        journal.look(b"f")
        assert journal.read(b"f") == data
    places = list(journal.store.catalogue().places())
    assert sum(place.encoding == Encoding.DELTA for place in places) >= 36
    assert max(place.depth for place in places) <= MAX_DEPTH
    assert all(place.base < place.id for place in places)


def test_a_file_that_is_written_anew_through_empty_is_still_a_delta(journal: Journal) -> None:
    put(journal.root, b"f", TEXT)
    journal.look(b"f")
    put(journal.root, b"f", b"")
    journal.look(b"f")
    put(journal.root, b"f", TEXT + b"more\n")
    journal.look(b"f")
    place = journal.store.catalogue().place(journal.live(b"f").entry.hash)
    assert place is not None and place.encoding == Encoding.DELTA


def test_a_large_file_costs_what_changed(journal: Journal) -> None:
    data = RNG.randbytes(BLOCK_THRESHOLD * 3)
    put(journal.root, b"f", data)
    journal.look(b"f")
    before = sum(place.stored for place in journal.store.catalogue().places())
    put(journal.root, b"f", data + b"appended\n")
    journal.look(b"f")
    after = sum(place.stored for place in journal.store.catalogue().places())
    assert after - before < 20_000
    assert journal.read(b"f") == data + b"appended\n"


def test_R17_a_damaged_version_does_not_keep_the_next_from_being_captured(journal: Journal) -> None:
    put(journal.root, b"f", TEXT)
    journal.look(b"f")
    damage(journal, b"f")
    journal.capture._recent.clear()  # as after a restart
    put(journal.root, b"f", TEXT + b"edited\n")
    journal.look(b"f")
    assert journal.read(b"f") == TEXT + b"edited\n"


@pytest.mark.parametrize("size", [5_000, BLOCK_THRESHOLD + 100_000])
@pytest.mark.parametrize("way", ["event", "scan"])
def test_R17_a_later_capture_of_the_same_content_heals_it(journal: Journal, size: int, way: str) -> None:
    data = RNG.randbytes(size)
    put(journal.root, b"f", data)
    journal.look(b"f")
    digest = journal.live(b"f").entry.hash
    place = journal.store.catalogue().place(digest)
    assert place is not None
    if place.encoding == Encoding.BLOCKS:
        block = max(journal.store.catalogue().places(), key=lambda each: each.stored)
        flip(segment(Path(journal.store.directory), block.segment), block.offset + RECORD_HEADER_SIZE + 9)
    else:
        damage(journal, b"f")
    assert not verify(journal.store.catalogue(), journal.store.contents).clean
    put(journal.root, b"copy", data)
    if way == "event":
        journal.look(b"copy")
    else:
        journal.everything()
    assert journal.store.contents.read(digest) == data
    assert verify(journal.store.catalogue(), journal.store.contents).clean


def test_R17_a_damaged_delta_and_its_base_are_healed_by_the_children_of_a_scan(journal: Journal) -> None:
    for number in range(150):  # enough for the children
        put(journal.root, b"d/%d" % number, TEXT + b"%d\n" % number)
        if number < 3:
            journal.look(b"d/%d" % number)
    put(journal.root, b"d/0", TEXT + b"edited\n")
    journal.look(b"d/0")
    damage(journal, b"d/0")
    put(journal.root, b"d/copy", TEXT + b"edited\n")
    journal.everything()
    assert len([row for row in journal.rows if row.entry.kind == Kind.FILE]) == 152
    assert journal.read(b"d/0") == TEXT + b"edited\n"
    assert verify(journal.store.catalogue(), journal.store.contents).clean


# failure


def test_a_batch_that_found_no_room_can_be_captured_again(journal: Journal) -> None:
    put(journal.root, b"f", b"one\n")
    without_reserve(journal.store)
    with armed("segment.write=enospc"), pytest.raises(StoreFullError):
        journal.look(b"f")
    assert journal.store.catalogue().live(1, b"f") is None
    journal.look(b"f")
    assert journal.read(b"f") == b"one\n"


def test_many_rows_go_in_several_batches_and_all_are_acknowledged(journal: Journal) -> None:
    for number in range(2500):
        put(journal.root, b"d%d/f%d" % (number % 50, number), b"%d\n" % number)
    before = journal.store.catalogue().meta("batch")
    journal.baseline()
    assert journal.store.catalogue().meta("batch") > before + 2
    assert journal.store.catalogue().project(1).files == 2500
    journal.assert_equal()
    assert journal.capture.captured == 2550


def test_a_row_that_waits_counts_for_whoever_judges_by_an_older_one(journal: Journal) -> None:
    """A scan lists what the journal says of a directory before rows of its entries have arrived there."""
    put(journal.root, b"f", b"one")
    journal.baseline()
    stale = journal.store.catalogue().live(1, b"f")
    assert stale is not None
    put(journal.root, b"f", b"two, longer")
    with journal.looking():
        journal.capture.path(b"f", None)
        journal.capture.judge(Looked(b"f", stale, journal.capture.read(b"f"), None))
        journal.capture.unknown(stale, "ignored")
        journal.capture.flush()
    versions = journal.store.catalogue().versions(1, b"f")
    assert [row.entry.kind for row in versions] == [Kind.FILE, Kind.FILE, Kind.UNKNOWN]
    assert versions[0].at < versions[1].at < versions[2].at
