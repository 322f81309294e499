"""The catalogue is a fold of the log: thrown away, behind, or ahead of it."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from mulligan.clock import Clock
from mulligan.errors import IntegrityError, NewerFormatError
from mulligan.model import ABSENT, Cut, Entry, Flag, Git, Kind, Metadata, Stat, Tool
from mulligan.store import records
from mulligan.store.records import (
    AttributionFact,
    CallFact,
    CheckpointFact,
    ClockFact,
    CurrentFact,
    DeleteFact,
    DropFact,
    EraseFact,
    ForgetFact,
    GapFact,
    KeysFact,
    MarkFact,
    Moved,
    OffsetFact,
    OperationFact,
    PlaceFact,
    PromptFact,
    PurgeFact,
    SessionFact,
    StatsFact,
    ThinFact,
    UsageFact,
)
from mulligan.store.schema import SCHEMA, SCHEMA_VERSION
from mulligan.store.snapshot import snapshots
from mulligan.store.store import Store
from support.storing import (
    add_project,
    armed,
    checkpoint,
    damage_page,
    file_entry,
    forget_catalogue,
    group_ends,
    opened,
    project_fact,
    read,
    row,
    rows_fact,
    segment,
    tables,
    without_reserve,
    write,
)


def everything() -> list[list[records.AnyFact]]:
    """Batches with every kind of fact, later facts that change earlier ones, and odd values."""
    first = checkpoint(
        id="full", seq=2, moment=9, description="\u202eodd\n", parent="first", incomplete=[(b"\xff", "unreadable")],
        special=[b"fifo"], tool=Tool("Bash", "t1", is_error=True), git=Git("abc", "main"), metadata=Metadata(1, 2, 3),
        event_key="tool:t1", ordinal=2,
    )  # fmt: skip
    return [
        [project_fact(), project_fact(2, b"/other/\xff")],
        [rows_fact(row(b"a", file_entry(b"a"), 10, flags=Flag.FROM_UNKNOWN), row(b"d", Entry(Kind.DIR, 0o755), 10))],
        [rows_fact(row(b"d/l", Entry(Kind.LINK, target=b"\xff"), 11), row(b"a", ABSENT, 12)), CheckpointFact(first)],
        [rows_fact(row(b"x", file_entry(b"x"), 11), project=2)],
        [CheckpointFact(checkpoint(id="plain")), CurrentFact(1, "", "full"), CurrentFact(1, "s", "plain")],
        [MarkFact("full", description="new", pinned=True), MarkFact("full", parent="plain"), MarkFact("nothing")],
        [SessionFact("s", 1, b"/t.jsonl", 5, 9, b"state"), SessionFact("s", 1, b"/u.jsonl", 1, 7, b"later", ended=8)],
        [PromptFact("s", 1, "k", 5, "text", "typed", 1), PromptFact("s", 2, "k", 6, "ignored", "typed")],
        [CallFact("t1", "s", 1, "Bash", "window", 5), CallFact("t1", "s", 1, "Bash", "window", 5, 6, True, [b"/p"])],
        [UsageFact("m", "s", "a", 1, 2, 3, 4), UsageFact("n", "s", "b", 1, 2, 3, 4)],
        [UsageFact("m", "s", "c", 5, 6, 7, 8)],
        [KeysFact("s", ["k1", "k2", "k1"]), AttributionFact(1, [(1, "t1", "named"), (3, "t1", "one of 2")])],
        [OffsetFact(b"/t.jsonl", b"x"), OffsetFact(b"/t.jsonl", b"y"), GapFact(1, 3, 4, "away")],
        [OperationFact("op1", 1, "restore", "begin", 5, "full", "plain", b"plan")],
        [OperationFact("op2", 1, "undo", "begin", 6, "plain", "", b"plan", "op1")],
        [OperationFact("op1", 1, "restore", "staged", 5), OperationFact("op1", 1, "restore", "done", 5, "", "", b"o")],
        [ClockFact(77, 1 << 61), StatsFact(1, [(b"d", Stat(1, 2, 3, 4, 5, 6, 7)), (b"not there", Stat())])],
        [CheckpointFact(checkpoint(id="gone", event_key="prompt:1", ordinal=9)), DeleteFact(1, ["gone", "nothing"])],
        [project_fact()],
        [ThinFact(1, [], [(2, "", "", 128)], [("t1", 1)]), ThinFact(1, [1], before=11)],
        [ThinFact(2, [2], [(3, "x", "", 1)]), DropFact([(7, 1, 1)]), PlaceFact([Moved(7, 1, 1, 0, 9, 16, 20)])],
        [PurgeFact([file_entry(b"x").hash, b"h" * 32])],
        [OperationFact("op3", 1, "undo", "begin", 6, "plain", "", b"plan", "op1"), ForgetFact(["op3", "nothing"])],
        [project_fact(3, b"/erased"), rows_fact(row(b"e", file_entry(b"e"), 13), project=3), EraseFact(3)],
    ]  # fmt: skip


def test_a_catalogue_that_was_thrown_away_is_folded_again_to_an_equal_one(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for facts in everything():
            store.log.append(facts)
        write(store, {b"e%d" % number: os.urandom(20) for number in range(50)}, project=2)
    expected = tables(tmp_path / "catalogue.db")
    assert all(expected.values()), "every table is used"
    forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        assert store.replayed.batches == len(everything()) + 2
        assert tables(tmp_path / "catalogue.db") == expected


def test_the_whole_log_in_one_batch_folds_to_the_same_tables(tmp_path: Path) -> None:
    """Group commit joins submissions: where a batch ends makes no difference."""
    one, many = tmp_path / "one", tmp_path / "many"
    with opened(one) as store:
        store.log.append([fact for facts in everything() for fact in facts])
    with opened(many) as store:
        for facts in everything():
            store.log.append(facts)
    first, second = tables(one / "catalogue.db"), tables(many / "catalogue.db")
    del first["meta"], second["meta"]
    assert first == second


@pytest.mark.parametrize("behind", [1, 3, 9])
def test_a_catalogue_that_is_behind_catches_up(tmp_path: Path, behind: int) -> None:
    work, old = tmp_path / "work", tmp_path / "old"
    with opened(work) as store:
        batches = everything()
        for facts in batches[:-behind]:
            store.log.append(facts)
    shutil.copytree(work, old)
    with opened(work) as store:
        for facts in batches[-behind:]:
            store.log.append(facts)
    expected = tables(work / "catalogue.db")
    forget_catalogue(work)
    shutil.copy(old / "catalogue.db", work / "catalogue.db")
    with opened(work) as store:
        assert (store.replayed.batches, store.damage) == (behind, "")
        assert tables(work / "catalogue.db") == expected


def test_a_catalogue_ahead_of_the_log_is_damage_reads_answer_and_the_log_is_not_touched(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        write(store, {b"f": b"one\n"})
        write(store, {b"f": b"two\n"})
    *_, end, _ = group_ends(segment(tmp_path))
    os.truncate(segment(tmp_path), end)
    for _ in range(2):
        with opened(tmp_path) as store:
            assert store.damage != ""
            live = store.catalogue().live(1, b"f")
            assert live is not None and live.entry == file_entry(b"two\n")
            with pytest.raises(IntegrityError):
                read(store, b"f")
        assert segment(tmp_path).stat().st_size == end


def test_what_a_lost_catalogue_left_beside_it_does_not_get_into_the_new_one(tmp_path: Path) -> None:
    live, work = tmp_path / "live", tmp_path / "work"
    with opened(live) as store:
        add_project(store)
        write(store, {b"f": b"one\n"})
        shutil.copytree(live, work)  # with a write-ahead log, as after a kill
    assert (work / "catalogue.db-wal").stat().st_size > 0
    (work / "catalogue.db").unlink()
    with opened(work) as store:
        assert (store.replayed.batches, read(store, b"f")) == (3, b"one\n")


def test_the_version_is_that_of_these_tables() -> None:
    """Whoever changes the tables raises SCHEMA_VERSION and puts the new digest here."""
    assert (SCHEMA_VERSION, hashlib.sha256(SCHEMA.encode()).hexdigest()[:16]) == (5, "0a5748d030576980")


def make_older(directory: Path) -> None:
    """The catalogue as the first version of the tables had it."""
    connection = sqlite3.connect(directory / "catalogue.db")
    connection.execute("alter table call drop column command")
    connection.execute("pragma user_version = 1")
    connection.close()


def catalogues(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("catalogue*"))


def test_a_catalogue_of_an_older_version_is_folded_anew_at_the_start(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for facts in everything():
            store.log.append(facts)
    expected = tables(tmp_path / "catalogue.db")
    make_older(tmp_path)
    with opened(tmp_path) as store:
        assert (store.replayed.batches, store.damage) == (len(everything()) + 1, "")
        assert tables(tmp_path / "catalogue.db") == expected
        store.log.append([CallFact("t2", "s", 1, "Bash", "window", 5, command="make")])
    assert catalogues(tmp_path) == ["catalogue.db"], "the older one is not kept"


def test_what_an_older_catalogue_knows_beyond_the_log_is_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        write(store, {b"f": b"one\n"})
        write(store, {b"f": b"two\n"})
        known = store.catalogue().meta("batch")
    *_, end, _ = group_ends(segment(tmp_path))
    os.truncate(segment(tmp_path), end)
    make_older(tmp_path)
    for _ in range(2):
        with opened(tmp_path) as store:
            assert store.damage == f"the log ends with batch {known - 1}, and the catalogue knows {known}"
            live = store.catalogue().live(1, b"f")
            assert live is not None and live.entry == file_entry(b"two\n")
        assert segment(tmp_path).stat().st_size == end
        assert catalogues(tmp_path) == ["catalogue.db"]
        assert snapshots(str(tmp_path / "content_pool")) == [known]


def test_an_older_catalogue_that_cannot_be_read_is_kept_if_the_log_holds_less(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        write(store, {b"f": b"one\n"})
        write(store, {b"f": b"two\n"})
    *_, end, _ = group_ends(segment(tmp_path))
    os.truncate(segment(tmp_path), end)
    make_older(tmp_path)
    damage_page(tmp_path, "row")
    for _ in range(2):
        with opened(tmp_path) as store:
            assert "catalogue of an older version knows" in store.damage
            live = store.catalogue().live(1, b"f")
            assert live is not None and live.entry == file_entry(b"one\n")
        assert segment(tmp_path).stat().st_size == end
        assert "catalogue.db.older" in catalogues(tmp_path)
    with opened(tmp_path) as store:
        assert "catalogue of an older version knows" in store.rebuild().lost[0]
    with opened(tmp_path) as store:
        assert store.damage == ""
        write(store, {b"f": b"three\n"})
        assert {"catalogue.db", "catalogue.db.damaged"} <= set(catalogues(tmp_path))


def test_V4_a_newer_catalogue_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
    connection = sqlite3.connect(tmp_path / "catalogue.db")
    connection.execute(f"pragma user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    for _ in range(2):
        with pytest.raises(NewerFormatError) as refused:
            Store(str(tmp_path))
        assert refused.value.exit_status == 78


@pytest.mark.parametrize("broken", ["no database", "a page", "no tables", "empty"])
def test_V4_a_catalogue_that_cannot_be_read_is_set_aside_and_made_anew(
    tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "catalogue.db"
    with opened(tmp_path) as store:
        for facts in everything():
            store.log.append(facts)
    expected = tables(place)
    for _ in range(2):
        if broken == "empty":
            place.write_bytes(b"")
        elif broken == "no tables":
            connection = sqlite3.connect(place)
            connection.execute("drop table meta")
            connection.close()
        else:
            with place.open("r+b") as file:
                file.seek(0 if broken == "no database" else 100)
                file.write(b"not a database, " * 100)
        damaged = place.read_bytes()
        caplog.clear()
        with opened(tmp_path) as store:
            (warning,) = store.warnings
            assert "could not be read" in warning and warning in caplog.text
            assert (store.damage, tables(place)) == ("", expected)
        assert (tmp_path / "catalogue.db.damaged").read_bytes() == damaged, "the last one is kept"
        assert catalogues(tmp_path) == ["catalogue.db", "catalogue.db.damaged"]
    with opened(tmp_path) as store:
        assert store.warnings == []


def test_a_batch_that_cannot_be_folded_makes_the_store_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        write(store, {b"f": b"one\n"})
        write(store, {b"g": b"two\n"})
    forget_catalogue(tmp_path)
    from mulligan.store import replay  # noqa: PLC0415

    real = replay.fold

    def fold(connection: sqlite3.Connection, batch: records.Batch, number: int, end: int) -> None:
        if batch.number == 4:
            raise sqlite3.IntegrityError("UNIQUE constraint failed")
        real(connection, batch, number, end)

    monkeypatch.setattr(replay, "fold", fold)
    with opened(tmp_path) as store:
        assert store.damage.startswith("batch 4 cannot be folded")
        assert read(store, b"f") == b"one\n"


def test_journal_time_goes_on_after_a_restart_with_the_clock_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        before = store.clock.now()
        store.log_end()

    class SetBack(Clock):
        def __init__(self, *, correction: int = 0, latest: int = 0) -> None:
            super().__init__(correction=correction, latest=latest, wall=lambda: before - 10**12)

    monkeypatch.setattr("mulligan.store.store.Clock", SetBack)
    with opened(tmp_path) as store:
        assert store.clock.now() > before
        store.log_clock()
        assert store.clock.correction > 9 * 10**11
        store.log_end()
        again = store.catalogue().meta("latest")
    with opened(tmp_path) as store:
        assert store.clock.correction > 9 * 10**11
        assert store.clock.now() > again


def test_V5_no_moment_is_stored_without_the_correction_that_it_was_made_with(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.log.append([StatsFact(1, [])])
        store.clock.correction += 10**12
        store.log.append([StatsFact(1, [])])
        assert store.catalogue().meta("correction") == 10**12
        batch = store.catalogue().meta("batch")
        store.log_clock()
        assert store.catalogue().meta("batch") == batch, "it is said once"
        store.clock.correction += 10**12
        store.log_clock()
        assert store.catalogue().meta("correction") == 2 * 10**12
        store.log.append([StatsFact(1, [])])
    with opened(tmp_path) as store:
        assert store.clock.correction == 2 * 10**12


def test_the_first_start_is_remembered(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        first = store.first_start
        assert first > 0
    with opened(tmp_path) as store:
        store.log_clock()
        assert store.first_start == first
    forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        assert store.first_start == first


def modes(directory: Path) -> dict[str, int]:
    return {
        str(path.relative_to(directory)): stat.S_IMODE(path.lstat().st_mode)
        for path in sorted([directory, *directory.rglob("*")])
    }


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_V2_everything_is_private_from_its_creation_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    """The modes are looked at within each system call that makes a name, so no later chmod can help."""
    seen: dict[str, int] = {}
    real_open, real_mkdir = os.open, os.mkdir

    def note(path: object) -> None:
        name = os.fspath(path)  # type: ignore[call-overload]
        if str(name).startswith(str(tmp_path)):
            seen.setdefault(str(name), stat.S_IMODE(os.lstat(name).st_mode))

    def open_(path: str, flags: int, mode: int = 0o777, **more: int) -> int:
        fd = real_open(path, flags, mode, **more)
        if flags & os.O_CREAT:
            note(path)
        return fd

    def mkdir(path: str, mode: int = 0o777, **more: int) -> None:
        real_mkdir(path, mode, **more)
        note(path)

    monkeypatch.setattr(os, "open", open_)
    monkeypatch.setattr(os, "mkdir", mkdir)
    directory = tmp_path / "above" / "data"
    before = os.umask(umask)
    try:
        with opened(directory) as store:
            add_project(store)
            write(store, {b".env": b"TOKEN=invented\n"})
            found = modes(directory)
            with armed("segment.sync=eio"):
                write(store, {b".env": b"TOKEN=other\n"})
        with segment(directory, 2).open("ab") as file:
            file.write(b"torn")
        forget_catalogue(directory)
        with opened(directory):
            found |= modes(directory)
    finally:
        os.umask(before)
    assert {"catalogue.db-wal", "catalogue.db-shm", "lock", "content_pool/000002.seg", "content_pool/reserve"} <= set(
        found
    )
    assert any(name.startswith("quarantine/") for name in found)
    wrong = {
        name: oct(mode) for name, mode in found.items() if mode != (0o700 if (directory / name).is_dir() else 0o600)
    }
    assert wrong == {}
    created = {name: mode for name, mode in seen.items() if not name.endswith("-journal")}
    assert len(created) > 8
    assert {name: oct(mode) for name, mode in created.items() if mode not in (0o700, 0o600)} == {}
    assert stat.S_IMODE((tmp_path / "above").stat().st_mode) == 0o700


def test_cuts_count_the_last_row_up_to_both_bounds(tmp_path: Path) -> None:
    """Capture order is not event order: a row may come later and be true earlier."""
    with opened(tmp_path) as store:
        add_project(store)
        one, two, three = (file_entry(each) for each in (b"1", b"2", b"3"))
        store.log.append([rows_fact(row(b"late", one, 10), row(b"new", two, 50), row(b"late", three, 20))])
        store.log.append([rows_fact(row(b"unknown", one, 30, flags=Flag.FROM_UNKNOWN))])
        catalogue = store.catalogue()
        assert {path: found.entry for path, found in catalogue.tree(1, Cut(3, 25)).items()} == {b"late": three}
        assert catalogue.entry_at(1, b"late", Cut(1)) == one
        assert catalogue.entry_at(1, b"new", Cut(3, 25)) == ABSENT
        assert catalogue.entry_at(1, b"unknown", Cut(4, 25)).kind == Kind.UNKNOWN
        assert catalogue.entry_at(1, b"never", Cut(4)).kind == Kind.UNKNOWN
        differences = {path: (old, new) for path, old, new in catalogue.differences(1, Cut(1), Cut(3, 25))}
        assert differences == {b"late": (one, three)}


def test_a_full_disk_at_the_start_costs_the_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        write(store, {b"f": b"one\n"})
    forget_catalogue(tmp_path)
    from mulligan.store import replay  # noqa: PLC0415

    real, left = replay.fold, [1]

    def fold(*arguments: object) -> None:
        if left and left.pop():
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(replay, "fold", fold)
    monkeypatch.setattr("mulligan.store.store.make_reserve", lambda _directory, _size: None)
    with opened(tmp_path) as store:
        assert (store.damage, read(store, b"f")) == ("", b"one\n")
        with pytest.raises(FileNotFoundError):
            without_reserve(store)
