"""Reconciling: whatever the events say and leave out, the journal becomes what is on disk; no deletion is invented."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mulligan.clock import MILLISECOND
from mulligan.clock import NANOSECONDS as SECOND
from mulligan.journal import reconcile
from mulligan.model import Cut, Flag, Kind
from mulligan.watch.ignore import IgnoreRules
from mulligan.watch.observer import Changes
from mulligan.watch.scan import Found
from support.journaling import Blind, Journal
from support.trees import MODES, make_odd_tree, put

NAMES = [b"a", b"b", b"c", b"a.b", b"\xff", b"new\nline"]


def remove(place: bytes) -> None:
    if os.path.isdir(place) and not os.path.islink(place):
        shutil.rmtree(place)
    elif os.path.lexists(place):
        os.unlink(place)


def scramble(root: Path, rng: random.Random, times: int) -> set[bytes]:
    """Random changes, kinds for other kinds too; the directories in which something happened."""
    base, touched = os.fsencode(root), set()
    for _ in range(times):
        depth = rng.randrange(3)
        parent = b"/".join(rng.choice(NAMES) for _ in range(depth))
        if not os.path.isdir(os.path.join(base, parent)) or os.path.islink(os.path.join(base, parent)):
            continue
        path = parent + b"/" + rng.choice(NAMES) if parent else rng.choice(NAMES)
        place = os.path.join(base, path)
        touched.add(parent)
        if os.path.isdir(place) and not os.path.islink(place):
            touched.add(path)  # an observer names a directory that goes, and watches it no more
        remove(place)
        match rng.randrange(5):
            case 0:
                os.mkdir(place)
                os.chmod(place, rng.choice([0o755, 0o700]))
            case 1:
                os.symlink(rng.choice(NAMES), place)
            case 2 | 3:
                put(root, path, rng.randbytes(rng.randrange(30)), rng.choice(MODES))
    return touched


@pytest.mark.parametrize("seed", range(8))
def test_a_comparison_of_everything_finds_every_difference_both_ways(journal: Journal, seed: int) -> None:
    rng = random.Random(seed)
    scramble(journal.root, rng, 60)
    journal.baseline()
    for _ in range(12):
        scramble(journal.root, rng, 25)
        journal.everything()
        journal.assert_equal()


@pytest.mark.parametrize("seed", range(8))
def test_a_directory_that_is_named_is_all_that_has_to_be_known(journal: Journal, blind: Blind, seed: int) -> None:
    """Events may be few, late and in any order: each names a place, and the disk says the rest."""
    rng = random.Random(seed)
    scramble(journal.root, rng, 60)
    journal.baseline()
    for _ in range(15):
        touched = scramble(journal.root, rng, 25)
        for directory in touched - {b""}:
            blind.forget(directory)
        blind.changes = Changes(directories=touched)
        journal.assert_equal()


def test_odd_names_contents_and_modes(journal: Journal) -> None:
    make_odd_tree(journal.root)
    journal.baseline()
    journal.assert_equal()
    assert all(live.flags & Flag.FROM_UNKNOWN for live in journal.store.catalogue().below(1, b""))


def test_a_second_comparison_reads_and_writes_nothing(journal: Journal) -> None:
    make_odd_tree(journal.root)
    end = journal.store.clock.now() + 30_000_000
    while journal.store.clock.now() < end:
        os.sched_yield()
    journal.baseline()
    batch = journal.store.catalogue().meta("batch")
    journal.everything()
    journal.everything(Flag.AWAY)
    assert journal.store.catalogue().meta("batch") == batch
    assert journal.rows == []


def test_an_edit_that_keeps_size_and_mtime_is_found(journal: Journal) -> None:
    put(journal.root, b"f", b"one\n")
    journal.baseline()
    before = (journal.root / "f").stat()
    put(journal.root, b"f", b"two\n")
    os.utime(journal.root / "f", ns=(before.st_atime_ns, before.st_mtime_ns))
    journal.everything()
    assert journal.read(b"f") == b"two\n"


def test_a_directory_replaced_by_a_link_to_another_is_not_followed(journal: Journal, blind: Blind) -> None:
    put(journal.root, b"d/sub/f", b"inside\n")
    put(journal.root.parent, b"outside/sub/f", b"outside\n")
    journal.baseline()
    shutil.rmtree(journal.root / "d")
    (journal.root / "d").symlink_to(journal.root.parent / "outside")
    blind.changes = Changes(directories={b"d/sub", b"d"})
    journal.assert_equal()
    assert journal.live(b"d").entry.kind == Kind.LINK
    assert journal.live(b"d/sub/f").entry.kind == Kind.ABSENT


# scope


def test_R3_what_becomes_ignored_is_unknown_and_what_becomes_visible_was_unknown(journal: Journal) -> None:
    put(journal.root, b"data/f", b"one\n")
    put(journal.root, b"code", b"code\n")
    journal.baseline()
    put(journal.root, b".gitignore", b"data/\n")
    journal.reconciler.soil([b".gitignore"])
    journal.sync()
    assert journal.live(b"data/f").entry.kind == Kind.UNKNOWN
    assert journal.live(b"data").entry.kind == Kind.UNKNOWN
    assert not journal.observer.is_watched(b"data")
    put(journal.root, b"data/new", b"made while ignored\n")
    ignored = Cut(journal.store.catalogue().meta("seq"))
    (journal.root / ".gitignore").unlink()
    journal.reconciler.soil([b".gitignore"])
    journal.assert_equal()
    catalogue = journal.store.catalogue()
    assert catalogue.entry_at(1, b"data/new", ignored).kind == Kind.UNKNOWN
    assert catalogue.entry_at(1, b"data/f", ignored).kind == Kind.UNKNOWN


def test_R3_a_new_file_beside_a_changed_ignore_file_was_absent_before(journal: Journal, blind: Blind) -> None:
    put(journal.root, b"code", b"code\n")
    journal.baseline()
    before = Cut(journal.store.catalogue().meta("seq"))
    put(journal.root, b".gitignore", b"*.log\n")
    put(journal.root, b"new", b"new\n")
    blind.changes = Changes(directories={b""})
    journal.reconciler.soil([b".gitignore"])
    journal.assert_equal()
    assert journal.store.catalogue().entry_at(1, b"new", before).kind == Kind.ABSENT


def test_a_comparison_after_a_gap_sees_a_changed_ignore_file_first(journal: Journal) -> None:
    put(journal.root, b"data/f", b"one\n")
    put(journal.root, b".gitignore", b"")
    journal.baseline()
    put(journal.root, b".gitignore", b"data/\n")
    put(journal.root, b"data/new", b"two\n")
    journal.reconciler.rules = IgnoreRules(os.fsencode(journal.root))  # as after a restart
    journal.everything(Flag.AWAY)
    assert journal.live(b"data/f").entry.kind == Kind.UNKNOWN
    assert journal.store.catalogue().live(1, b"data/new") is None


@pytest.mark.parametrize("was", ["data/\n", ""])
def test_W3_an_ignore_file_of_which_no_event_told_counts_after_a_comparison(journal: Journal, was: str) -> None:
    (journal.root / ".gitignore").write_text(was)
    put(journal.root, b"data/f", b"one\n")
    journal.baseline()
    before = Cut(journal.store.catalogue().meta("seq"))
    (journal.root / ".gitignore").write_text("" if was else "data/\n")
    put(journal.root, b"data/new", b"two\n")
    put(journal.root, b"new", b"three\n")
    journal.everything()
    kinds = {live.path: live.entry.kind for live in journal.store.catalogue().below(1, b"")}
    hidden = Kind.FILE if was else Kind.UNKNOWN
    assert kinds[b"data/f"] == hidden
    assert kinds.get(b"data/new", Kind.UNKNOWN) == hidden
    assert journal.store.catalogue().entry_at(1, b"data/new", before).kind == Kind.UNKNOWN
    assert journal.store.catalogue().entry_at(1, b"new", before).kind == Kind.ABSENT


# what cannot be read


@pytest.fixture
def unlistable(monkeypatch: pytest.MonkeyPatch) -> set[bytes]:
    """Directories that cannot be listed; an error for the one who is root as well."""
    names: set[bytes] = set()
    real = reconcile.list_directory

    def list_directory(root: bytes, directory: bytes, *more: object) -> Iterator[Found]:
        if directory in names:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(root, directory, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(reconcile, "list_directory", list_directory)
    return names


def test_R6_an_unreadable_directory_is_unknown_with_all_below_it_and_comes_back(
    journal: Journal, unlistable: set[bytes]
) -> None:
    put(journal.root, b"d/sub/f", b"one\n")
    put(journal.root, b"f", b"two\n")
    journal.baseline()
    before = Cut(journal.store.catalogue().meta("seq"))
    unlistable.add(b"d")
    journal.everything()
    kinds = {live.path: live.entry.kind for live in journal.store.catalogue().below(1, b"")}
    assert kinds == {b"d": Kind.UNKNOWN, b"d/sub": Kind.UNKNOWN, b"d/sub/f": Kind.UNKNOWN, b"f": Kind.FILE}
    assert journal.store.catalogue().odd(1)[0][1].reason == "unreadable: permission denied"
    journal.everything()
    rows = len(journal.rows)
    journal.everything()
    assert len(journal.rows) == rows, "it is said once"
    unlistable.clear()
    put(journal.root, b"d/sub/new", b"three\n")
    journal.everything()
    journal.assert_equal()
    assert journal.store.catalogue().entry_at(1, b"d/sub/f", before).kind == Kind.FILE


def test_R6_what_appears_with_a_directory_that_can_be_listed_again_was_unknown(
    journal: Journal, unlistable: set[bytes]
) -> None:
    put(journal.root, b"d/f", b"one\n")
    journal.baseline()
    unlistable.add(b"d")
    journal.everything()
    unseen = Cut(journal.store.catalogue().meta("seq"))
    put(journal.root, b"d/new", b"made unseen\n")
    unlistable.clear()
    journal.everything()
    journal.assert_equal()
    assert journal.store.catalogue().entry_at(1, b"d/new", unseen).kind == Kind.UNKNOWN


@pytest.mark.parametrize("instead", [None, b"a file\n"])
def test_R6_an_unreadable_directory_that_goes_takes_what_was_below_it_along(
    journal: Journal, unlistable: set[bytes], instead: bytes | None
) -> None:
    put(journal.root, b"d/sub/f", b"one\n")
    journal.baseline()
    unlistable.add(b"d")
    journal.everything()
    unlistable.clear()
    shutil.rmtree(journal.root / "d")
    if instead is not None:
        put(journal.root, b"d", instead)
    journal.everything()
    journal.assert_equal()
    assert journal.store.catalogue().odd(1) == []


def test_R6_an_event_of_an_unreadable_directory_does_not_make_it_a_known_empty_one(
    journal: Journal, blind: Blind, unlistable: set[bytes]
) -> None:
    journal.baseline()
    (journal.root / "d").mkdir()
    unlistable.add(b"d")
    for _ in range(2):
        changes = Changes(directories={b"d", b""})
        changes.touch(b"d", journal.store.clock.now(), finished=True)
        blind.changes = changes
        journal.sync()
        assert journal.live(b"d").entry.kind == Kind.UNKNOWN
    unseen = Cut(journal.store.catalogue().meta("seq"))
    put(journal.root, b"d/new", b"made unseen\n")
    unlistable.clear()
    blind.changes = Changes(directories={b"d"})
    journal.assert_equal()
    assert journal.store.catalogue().entry_at(1, b"d/new", unseen).kind == Kind.UNKNOWN


def test_R6_a_root_that_cannot_be_listed_is_an_error_and_deletes_nothing(
    journal: Journal, unlistable: set[bytes]
) -> None:
    put(journal.root, b"d/f", b"one\n")
    journal.baseline()
    unlistable.add(b"")
    with pytest.raises(PermissionError):
        journal.everything()
    assert journal.live(b"d/f").entry.kind == Kind.FILE
    unlistable.clear()
    journal.everything()
    journal.assert_equal()


# links and writers


@pytest.mark.parametrize("through", [b"a", b"d/b"])
def test_a_write_through_one_name_of_a_file_is_captured_under_all_of_them(journal: Journal, through: bytes) -> None:
    put(journal.root, b"a", b"one\n")
    put(journal.root, b"alone", b"one\n")
    (journal.root / "d").mkdir()
    os.link(journal.root / "a", journal.root / "d/b")
    os.link(journal.root / "a", journal.root / "d/c")
    journal.baseline()
    put(journal.root, through, b"two\n")
    journal.reconciler.soil([through])
    journal.assert_equal()
    assert {row.path for row in journal.rows} == {b"a", b"d/b", b"d/c"}


def test_W7_what_changed_while_it_was_read_is_flagged_and_looked_at_again(journal: Journal, blind: Blind) -> None:
    put(journal.root, b"f", b"one\n")
    journal.baseline()
    put(journal.root, b"f", b"two\n")
    journal.reconciler.soil([b"f"])
    changes = Changes()
    changes.touch(b"f", journal.store.clock.now(), finished=True)
    with journal.looking():
        blind.changes = changes  # an event that came between the barrier and the end of the reading
        journal.reconciler.run(everything=False)
    assert journal.live(b"f").flags & Flag.UNPROVEN
    assert journal.reconciler.backlog == 1
    with journal.looking():
        journal.reconciler.run(everything=True)
    assert journal.store.catalogue().flagged(1, Cut(journal.capture.last_seq)) == []
    assert journal.reconciler.backlog == 0


@pytest.mark.parametrize("torn", [False, True])
def test_W7_what_is_to_be_confirmed_is_due_without_another_event(
    journal: Journal, blind: Blind, monkeypatch: pytest.MonkeyPatch, torn: bool
) -> None:
    journal.baseline()
    hand = Hand(journal.store.clock.now())
    monkeypatch.setattr(journal.reconciler, "_now", hand)
    put(journal.root, b"f", b"half\n")
    if torn:
        real = journal.capture.read
        monkeypatch.setattr(journal.capture, "read", lambda path: replace(real(path), torn=True))
    blind.changes.touch(b"f", hand(), finished=torn)
    start = hand.now
    journal.reconciler.take(blind.drain())
    due = look(journal)
    assert journal.live(b"f").flags & (Flag.TORN if torn else Flag.UNPROVEN)
    assert due is not None and start < due < start + SECOND // 2
    if torn:
        monkeypatch.setattr(journal.capture, "read", real)
    hand.now = due
    assert look(journal) is None
    assert not journal.live(b"f").flags & (Flag.TORN | Flag.UNPROVEN)


def test_what_a_barrier_took_meanwhile_is_due(journal: Journal, blind: Blind) -> None:
    journal.baseline()
    put(journal.root, b"f", b"one\n")
    put(journal.root, b"g", b"one\n")
    (journal.root / "d").mkdir()
    blind.changes.touch(b"f", journal.store.clock.now(), finished=True)
    blind.queued.touch(b"g", journal.store.clock.now(), finished=True)
    blind.queued.directories.add(b"d")
    journal.reconciler.take(blind.drain())
    due = look(journal)
    assert [row.path for row in journal.rows] == [b"f"]
    assert due is not None and due <= journal.store.clock.now()
    assert look(journal) is None
    assert journal.read(b"g") == b"one\n"


class Hand:
    """A clock that a test moves; it goes on by a microsecond whenever it is asked."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        self.now += 1000
        return self.now


def edit(journal: Journal, hand: Hand, number: int, *, finished: bool = True) -> int | None:
    """A version of f, its event, and a look at what is due; gives when more is."""
    put(journal.root, b"f", b"%d\n" % number)
    changes = Changes()
    changes.touch(b"f", hand(), finished=finished)
    journal.reconciler.take(changes)
    return look(journal)


def look(journal: Journal) -> int | None:
    with journal.looking():
        return journal.reconciler.run(everything=False)


def test_W11_finished_versions_are_captured_while_there_are_tokens(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.baseline()
    hand = Hand(journal.store.clock.now())
    monkeypatch.setattr(journal.reconciler, "_now", hand)
    for number in range(20):
        assert edit(journal, hand, number) is None
    assert len(journal.rows) == 20, "each at once"
    start = hand.now
    due = edit(journal, hand, 20)
    assert due is not None and 0 < due - start < SECOND // 2
    hand.now = due - MILLISECOND
    assert look(journal) == due and len(journal.rows) == 20
    hand.now = due
    assert look(journal) is None and len(journal.rows) == 21
    for number in range(21, 31):  # from now on twice a second
        hand.now += SECOND // 2
        assert edit(journal, hand, number) is None
    hand.now += SECOND + SECOND // 2
    for number in range(31, 34):
        assert edit(journal, hand, number) is None, "three came back"
    assert edit(journal, hand, 34) is not None
    assert len(journal.rows) == 34
    hand.now += 60 * SECOND
    for number in range(35, 55):
        assert edit(journal, hand, number) is None, "never more than all of them"
    assert edit(journal, hand, 55) is not None


def test_W11_what_is_only_being_written_takes_no_token_and_waits_a_quarter_of_a_second(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.baseline()
    hand = Hand(journal.store.clock.now())
    monkeypatch.setattr(journal.reconciler, "_now", hand)
    for number in range(60):
        edit(journal, hand, number, finished=False)
        assert {row.entry.hash for row in journal.rows} >= {hashlib.sha256(b"%d\n" % number).digest()}
        hand.now += SECOND // 4
    last = len(journal.rows)
    edit(journal, hand, 60, finished=False)
    due = edit(journal, hand, 61, finished=False)
    assert due is not None and 0 < due - hand.now <= SECOND // 4
    assert len(journal.rows) == last + 1
    for number in range(62, 82):
        edit(journal, hand, number)
    assert len({row.entry.hash for row in journal.rows[last:]}) == 21


def test_a_clients_temporary_file_waits(journal: Journal, blind: Blind) -> None:
    journal.baseline()
    put(journal.root, b"f.tmp.1234.deadbeef", b"half\n")
    blind.changes = Changes(directories={b""})
    journal.sync()
    assert journal.store.catalogue().live(1, b"f.tmp.1234.deadbeef") is None
    os.rename(journal.root / "f.tmp.1234.deadbeef", journal.root / "f")
    blind.changes = Changes(directories={b""})
    journal.assert_equal()


def test_a_sqlite_database_is_read_with_its_log(journal: Journal) -> None:
    put(journal.root, b"x.db", b"SQLite format 3\0" + bytes(100))
    put(journal.root, b"x.db-wal", b"wal one")
    put(journal.root, b"x.db-shm", b"never captured")
    journal.baseline()
    assert journal.store.catalogue().live(1, b"x.db-shm") is None
    put(journal.root, b"x.db", b"SQLite format 3\0" + bytes(99) + b"1")
    put(journal.root, b"x.db-wal", b"wal two")
    journal.reconciler.soil([b"x.db-shm"])
    journal.sync()
    assert journal.read(b"x.db-wal") == b"wal two"
    assert journal.read(b"x.db").endswith(b"1")
    assert journal.store.catalogue().live(1, b"x.db-shm") is None


def test_a_file_over_the_limit_is_listed_as_unknown_until_it_fits(tmp_path: Path) -> None:
    journal = Journal(tmp_path, max_file_bytes=100)
    try:
        put(journal.root, b"f", b"x" * 101)
        journal.baseline()
        assert journal.store.catalogue().odd(1)[0][1].reason == "too large: 101 bytes"
        put(journal.root, b"f", b"x" * 100)
        journal.everything()
        journal.assert_equal()
        assert journal.store.catalogue().odd(1) == []
    finally:
        journal.close()
