"""A catalogue made anew from snapshot, later batches and the records of the segments equals the one that was lost."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from mulligan.errors import BusyError, IntegrityError, MulliganError, ReadOnlyError
from mulligan.model import Cut, Entry
from mulligan.store import rebuild as rebuild_module
from mulligan.store import search_index
from mulligan.store.encoding import block_list, encode
from mulligan.store.log import Placed
from mulligan.store.rebuild import Built
from mulligan.store.replay import decode
from mulligan.store.schema import SCHEMA_VERSION
from mulligan.store.segments import RecordKind, SegmentKind, SegmentWriter, pack_record, scan, segment_numbers
from mulligan.store.snapshot import snapshot_path, snapshots
from mulligan.store.store import Store
from mulligan.store.verify import verify
from support.storing import (
    add_project,
    armed,
    file_entry,
    flip,
    forget_catalogue,
    group_ends,
    opened,
    read,
    row,
    rows_fact,
    segment,
    tables,
    write,
)
from unit.store.test_store_replay import everything

TEXT = b"".join(b"line %d of a file that is edited\n" % number for number in range(300))


def put(store: Store, path: bytes, *contents: Any, entry: Entry) -> None:
    store.log.append([rows_fact(row(path, entry, store.clock.now()))], contents)


def edit(store: Store, path: bytes, data: bytes, before: bytes) -> bytes:
    """A version as a delta against another one; gives its hash."""
    encoded = encode(data, base=store.contents.base(before))
    assert encoded.base is not None
    put(store, path, encoded, entry=file_entry(data))
    return encoded.hash


def by_child(store: Store, *contents: bytes) -> list[Placed]:
    """Contents in a segment of a child's, named by no batch yet."""
    writer, placed = SegmentWriter.create_next(store.pool, SegmentKind.POOL), []
    for data in contents:
        one = encode(data)
        place = Placed(one.hash, one.size, one.encoding, writer.number, writer.offset, len(one.payload))
        placed.append(place)
        writer.append(pack_record(RecordKind.CONTENT, one.encoding, one.payload, one.size, one.hash))
    writer.sync()
    writer.close()
    return placed


def fill(store: Store) -> dict[bytes, bytes]:
    """Every kind of fact, encoding and segment; the files that are to be read."""
    for facts in everything():
        store.log.append(facts)
    write(store, {b"raw": os.urandom(64), b"text": TEXT})
    digest = hashlib.sha256(TEXT).digest()
    data = TEXT
    for number in range(5):
        data = data.replace(b"line %d " % number, b"edited %d " % number)
        digest = edit(store, b"text", data, digest)
    blocks = [os.urandom(1000) for _ in range(3)]
    whole = b"".join(blocks)
    named = [encode(block) for block in blocks]
    listed = block_list(hashlib.sha256(whole).digest(), len(whole), [one.hash for one in named])
    put(store, b"large", *named, listed, entry=file_entry(whole))
    garbage = os.urandom(50)
    placed = by_child(store, b"by a child", garbage)
    put(store, b"child", placed[0], entry=file_entry(b"by a child"))
    return {b"text": data, b"large": whole, b"child": b"by a child"}


def assert_files(store: Store, files: dict[bytes, bytes]) -> None:
    assert {path: b"".join(store.contents.chunks(file_entry(data).hash)) for path, data in files.items()} == files
    assert {path: read(store, path) for path in files} == files


def snap(store: Store) -> int:
    with store.reorganizing():
        return store.snapshot()


def last_batches(directory: Path) -> list[int]:
    """The numbers of all batches in the log, segment by segment."""
    found = []
    for number in segment_numbers(str(directory / "content_pool")):
        fd = os.open(segment(directory, number), os.O_RDONLY)
        try:
            found += [decode(each).number for each in scan(fd, 16) if each.header.kind == RecordKind.BATCH]
        finally:
            os.close(fd)
    return found


@pytest.mark.parametrize("when", ["never", "before", "between", "after"])
@pytest.mark.parametrize("way", ["rebuild", "deleted", "malformed"])
def test_the_new_catalogue_equals_the_old_one(tmp_path: Path, when: str, way: str) -> None:
    place = tmp_path / "catalogue.db"
    with opened(tmp_path) as store:
        began = snap(store) if when == "before" else 0
        files = fill(store)
        if when == "between":
            began = snap(store)
            write(store, {b"late": b"later\n", b"raw": os.urandom(70)})
            edit(store, b"text", files[b"text"] + b"more\n", file_entry(files[b"text"]).hash)
            files[b"text"] += b"more\n"
        if when == "after":
            began = snap(store)
        expected = tables(place)
        batch = store.log.batch
        if way == "rebuild":
            built = store.rebuild()
            contents = len(expected["content"])
            assert built == Built(batch, began, batch - began, contents, 0, [])
            assert tables(place) == expected
            assert (store.damage, store.log.batch) == ("", batch)
            assert_files(store, files)
            assert store.log.append([]).batch == batch + 1
    if way == "rebuild":
        assert last_batches(tmp_path) == list(range(1, batch + 2))
        return
    if way == "deleted":
        forget_catalogue(tmp_path)
    else:
        place.write_bytes(b"no database" * 1000)
    with opened(tmp_path) as store:
        assert (store.damage, store.replayed.batches) == ("", batch - began)
        assert tables(place) == expected
        assert_files(store, files)
        assert verify(store.catalogue(), store.contents).damaged == []
    assert not (tmp_path / "catalogue.db.new").exists()


def lose_segment(directory: Path, *numbers: int) -> None:
    for number in numbers:
        segment(directory, number).unlink()


def in_segments(store: Store, count: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A log of some segments with one batch each behind the first; the numbers of those."""
    with monkeypatch.context() as patched:
        patched.setattr("mulligan.store.log.SEGMENT_LIMIT", 1)
        for number in range(count):
            write(store, {b"s%d" % number: b"in segment %d\n" % number})
    return segment_numbers(store.pool)[1:]


@pytest.mark.parametrize("way", ["deleted", "rebuild"])
def test_a_log_that_begins_behind_a_snapshot_or_has_a_hole_before_it_is_enough(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a collection: segments of batches that a snapshot knows are gone, and their contents lie elsewhere."""
    with opened(tmp_path) as store:
        add_project(store)
        numbers = in_segments(store, 6, monkeypatch)
        snap(store)
        write(store, {b"late": b"later\n"})
        kept = [b"s0", b"s2", b"s5", b"late"]
        copied = [b"in segment %d\n" % number for number in (1, 3, 4)]
        by_child(store, *copied)
        expected = tables(store.catalogue_path)
    lose_segment(tmp_path, *(numbers[index] for index in (1, 3, 4)))
    for lose in ([], [numbers[0], numbers[2]]):
        lose_segment(tmp_path, *lose)
        if way == "deleted":
            forget_catalogue(tmp_path)
        with opened(tmp_path) as store:
            if way == "rebuild":
                built = store.rebuild()
                assert (built.missing, built.lost) == (len(lose), [])
            assert store.damage == ""
            found = tables(store.catalogue_path)
            assert {name for name in found if found[name] != expected[name]} <= {"content", "meta"}
            assert [read(store, b"s%d" % number) for number in (1, 3, 4)] == copied
            for path in kept[2 if lose else 0 :]:
                assert read(store, path)
            report = verify(store.catalogue(), store.contents)
            assert sorted(path for _, path, _ in report.paths) == ([b"s0", b"s2"] if lose else [])
            assert ["no segment holds it" in reason for _, reason in report.damaged] == [True] * len(lose)


def test_of_several_records_the_last_whole_one_that_is_no_delta_is_taken(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        base, data = TEXT, TEXT.replace(b"line 7 ", b"seven ")
        write(store, {b"f": base})
        edit(store, b"f", data, file_entry(base).hash)
        by_child(store, data, base)
        *_, last = by_child(store, b"other", data)
        by_child(store, base)
        flip(segment(tmp_path, segment_numbers(store.pool)[-1]), 200)
        store.rebuild()
        found = store.catalogue().place(file_entry(data).hash)
        assert found is not None
        assert (found.segment, found.offset, found.base, found.depth) == (last.segment, last.offset, 0, 0)
        found = store.catalogue().place(file_entry(base).hash)
        assert found is not None and found.segment == last.segment - 1
        assert store.contents.read(found.hash) == base


def test_a_delta_counts_only_with_its_base(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        write(store, {b"f": TEXT})
        first = file_entry(TEXT).hash
        second = edit(store, b"f", TEXT + b"2\n", first)
        edit(store, b"f", TEXT + b"3\n", second)
        place = store.catalogue().place(first)
        assert place is not None
        flip(segment(tmp_path, place.segment), place.offset + 100)
        built = store.rebuild()
        assert (built.missing, built.contents, built.lost) == (3, 0, [])
        assert {digest for *_, digest in verify(store.catalogue(), store.contents).paths} == {
            each.hex() for each in (first, second, file_entry(TEXT + b"3\n").hash)
        }
        write(store, {b"f": TEXT})  # met again
        assert read(store, b"f") == TEXT


def test_a_record_within_a_damaged_stretch_is_found_behind_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        for number in range(6):
            write(store, {b"f%d" % number: b"content %d\n" % number})
        expected = tables(store.catalogue_path)
        place = store.catalogue().place(file_entry(b"content 2\n").hash)
        assert place is not None
        for offset in (place.offset + 5, place.offset + 95):  # header and payload
            flip(segment(tmp_path), offset)
        built = store.rebuild()
        assert built.missing == 1
        found = tables(store.catalogue_path)
        unplaced = (place.id, place.hash, place.size, 0, 0, 0, 0, 0, 0)
        assert found["content"] == [*expected["content"][:2], unplaced, *expected["content"][3:]]
        assert found["row"] == expected["row"]


def damage_batch(directory: Path, batch: int) -> None:
    """Flip a byte in the record of one batch."""
    for number in segment_numbers(str(directory / "content_pool")):
        path = segment(directory, number)
        fd = os.open(path, os.O_RDONLY)
        try:
            found = [each for each in scan(fd, 16) if each.header.kind == RecordKind.BATCH]
            wanted = [each.end - 1 for each in found if decode(each).number == batch]
        finally:
            os.close(fd)
        for offset in wanted:
            flip(path, offset)


def test_a_damaged_batch_in_the_middle_ends_what_can_be_read_and_nothing_is_thrown_away(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        for number in range(5):
            write(store, {b"f": b"version %d\n" % number})
    damage_batch(tmp_path, 5)
    forget_catalogue(tmp_path)
    before = segment(tmp_path).read_bytes()
    with opened(tmp_path) as store:
        assert "later batches follow" in store.damage
        assert read(store, b"f") == b"version 1\n"
        with pytest.raises(ReadOnlyError) as refused:
            write(store, {b"f": b"new\n"})
        assert refused.value.hint == "mulligan store rebuild"
        built = store.rebuild()
        assert (built.batch, built.snapshot, built.batches, built.missing) == (4, 0, 4, 0)
        assert "later batches follow" in built.lost[0]
        assert (store.damage, store.log.batch) == ("", 5)
        assert write(store, {b"f": b"new\n"}).batch == 6
        expected = tables(store.catalogue_path)
        assert verify(store.catalogue(), store.contents).clean
    assert segment(tmp_path).read_bytes() == before
    for _ in range(2):
        with opened(tmp_path) as store:
            assert (store.damage, read(store, b"f")) == ("", b"new\n")
            assert tables(store.catalogue_path) == expected
        forget_catalogue(tmp_path)
        with opened(tmp_path) as store:
            assert (store.damage, read(store, b"f")) == ("", b"new\n")
            assert tables(store.catalogue_path) == expected


def test_a_damaged_batch_that_the_catalogue_or_a_snapshot_knows_loses_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        for number in range(5):
            write(store, {b"f": b"version %d\n" % number})
        damage_batch(tmp_path, 5)
        expected = tables(store.catalogue_path)
        batch = store.log.batch
        built = store.rebuild()
        assert (built.batch, built.snapshot, built.missing, built.lost) == (batch, batch, 0, [])
        assert tables(store.catalogue_path) == expected
        assert write(store, {b"f": b"later\n"}).batch == batch + 1
        expected = tables(store.catalogue_path)
    forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        assert (store.damage, store.replayed.batches) == ("", 1)
        assert tables(store.catalogue_path) == expected


def test_segments_of_batches_that_were_given_up_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        numbers = in_segments(store, 5, monkeypatch)
    damage_batch(tmp_path, 4)
    forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        assert "is missing" in store.damage
        built = store.rebuild()
        assert (built.batch, len(built.lost)) == (3, 1)
        write(store, {b"new": b"new\n"})
        expected = tables(store.catalogue_path)
        assert segment_numbers(store.pool) == [1, *numbers, numbers[-1] + 1]
    forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        assert (store.damage, tables(store.catalogue_path)) == ("", expected)


def test_a_lost_end_of_the_log_is_read_only_until_it_is_rebuilt(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        for number in range(4):
            write(store, {b"f%d" % number: b"version %d\n" % number})
        batch = store.log.batch
    os.truncate(segment(tmp_path), group_ends(segment(tmp_path))[-3])
    with opened(tmp_path) as store:
        assert "before the catalogue's watermark" in store.damage
        built = store.rebuild()
        assert (built.batch, built.snapshot, built.batches, built.lost) == (batch, batch, 0, [])
        assert (built.missing, store.damage, store.log.batch) == (2, "", batch + 1)
        assert read(store, b"f1") == b"version 1\n"
        live = store.catalogue().live(1, b"f3")
        assert live is not None and live.entry == file_entry(b"version 3\n")
        with pytest.raises(IntegrityError):
            read(store, b"f3")
        write(store, {b"f3": b"version 3\n"})  # met again
        assert read(store, b"f3") == b"version 3\n"
        expected = tables(store.catalogue_path)
    for forget in (False, True):
        if forget:
            forget_catalogue(tmp_path)
        with opened(tmp_path) as store:
            assert (store.damage, tables(store.catalogue_path)) == ("", expected)


def test_a_missing_segment_is_read_only_until_it_is_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        numbers = in_segments(store, 3, monkeypatch)
    lose_segment(tmp_path, numbers[-1])
    with opened(tmp_path) as store:
        assert store.damage.startswith(f"segment {numbers[-1]} is missing")
        built = store.rebuild()
        assert (built.missing, built.lost, store.damage) == (1, [], "")
        assert write(store, {b"f": b"new\n"}).batch == built.batch + 2
    with opened(tmp_path) as store:
        assert (store.damage, read(store, b"f")) == ("", b"new\n")


def test_a_damaged_snapshot_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        files = fill(store)
        first = snap(store)
        write(store, {b"late": b"later\n"})
        second = snap(store)
        store.log_end()
        path = Path(snapshot_path(store.pool, second))
        flip(path, path.stat().st_size // 2)
        expected = tables(store.catalogue_path)
        built = store.rebuild()
        assert (built.snapshot, built.missing, built.lost) == (first, 0, [])
        assert tables(store.catalogue_path) == expected
    forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        assert (store.damage, tables(store.catalogue_path)) == ("", expected)
        assert_files(store, files)


def make_older(directory: Path) -> None:
    """The catalogue and the tables of the snapshots are of the version before."""
    connection = sqlite3.connect(directory / "catalogue.db")
    connection.execute("alter table call drop column command")
    connection.execute(f"pragma user_version = {SCHEMA_VERSION - 1}")
    connection.close()


def test_an_upgrade_folds_the_whole_log_if_it_is_there_and_begins_with_the_snapshot_if_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mulligan.store.records import CallFact  # noqa: PLC0415

    with opened(tmp_path) as store:
        add_project(store)
        store.log.append([CallFact("t1", "s", 1, "Bash", "window", 5, command="make")])
        numbers = in_segments(store, 4, monkeypatch)
        expected = tables(store.catalogue_path)
    make_older(tmp_path)
    rebuild_module.keep(str(tmp_path / "content_pool"), str(tmp_path / "catalogue.db"))
    with opened(tmp_path) as store:
        assert tables(store.catalogue_path) == expected, "new columns have what the log says"
        batch = store.log.batch
    make_older(tmp_path)
    lose_segment(tmp_path, numbers[0])
    with opened(tmp_path) as store:
        assert (store.damage, store.log.batch) == ("", batch)
        found = tables(store.catalogue_path)
        assert [call[-1] for call in found.pop("call")] == [""]
        assert found["row"] == expected["row"] and found["path"] == expected["path"]
        assert [read(store, b"s%d" % number) for number in (1, 2, 3)] == [b"in segment %d\n" % n for n in (1, 2, 3)]


def test_what_readers_hold_goes_on_and_what_comes_meanwhile_is_in_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        files = fill(store)
        snap(store)
        catalogue = store.catalogue()
        catalogue.db.execute("begin")
        assert read(store, b"child") == b"by a child"
        real = Store._ask

        def ask(*arguments: Any) -> Any:
            found = real(*arguments)
            write(store, {b"meanwhile": b"written\n"})
            return found

        monkeypatch.setattr(Store, "_ask", ask)
        built = store.rebuild()
        assert (built.batch, built.batches) == (store.log.batch, 1)
        assert catalogue.live(1, b"meanwhile") is None, "a transaction that had begun sees the state it began with"
        catalogue.db.execute("rollback")
        assert read(store, b"meanwhile") == b"written\n"
        assert_files(store, files)
        expected = tables(store.catalogue_path)
    forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        assert tables(store.catalogue_path) == expected


@pytest.mark.parametrize("points", ["rebuild.loaded", "rebuild.folded", "rebuild.placed"])
def test_a_child_that_dies_leaves_everything_as_it_was(
    tmp_path: Path, points: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        fill(store)
        expected = tables(store.catalogue_path)
        with monkeypatch.context() as patched:
            patched.setenv("MULLIGAN_FAULTS", f"{points}=kill")
            with pytest.raises(MulliganError, match="ended with status -9"):
                store.rebuild()
        assert tables(store.catalogue_path) == expected
        assert store.rebuild().batch == store.log.batch
        assert tables(store.catalogue_path) == expected


def test_a_catalogue_that_cannot_be_replaced_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as store:
        fill(store)
        expected = tables(store.catalogue_path)
        with armed("rebuild.caught_up=eio"), pytest.raises(OSError, match="fault point"):
            store.rebuild()
        assert tables(store.catalogue_path) == expected
        store.log_end()


def test_a_page_of_the_catalogue_in_use_that_is_broken_is_replaced(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        files = fill(store)
        expected = tables(store.catalogue_path)
    connection = sqlite3.connect(tmp_path / "catalogue.db")
    (page,) = connection.execute("select rootpage from sqlite_master where name = 'row'").fetchone()
    (size,) = connection.execute("pragma page_size").fetchone()
    connection.close()
    with (tmp_path / "catalogue.db").open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    with opened(tmp_path) as store:
        with pytest.raises(sqlite3.DatabaseError):
            store.catalogue().tree(1, Cut(99))
        store.rebuild()
        assert_files(store, files)
        assert tables(store.catalogue_path) == expected
        assert write(store, {b"f": b"new\n"}).batch == store.log.batch


def test_two_at_once_are_refused_and_closing_ends_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        with store.reorganizing(), pytest.raises(BusyError) as refused:
            store.rebuild()
        assert refused.value.exit_status == 8
        monkeypatch.setenv("MULLIGAN_FAULTS", "rebuild.loaded=wait")
        monkeypatch.setenv("MULLIGAN_FAULT_GATE", str(tmp_path / "gate"))
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(store.rebuild)
            while store._child is None:
                pass
            store.close()
            with pytest.raises(MulliganError, match="status -9"):
                waiting.result(20)


def test_the_search_index_starts_over_when_numbers_of_rows_may_be_given_again(tmp_path: Path) -> None:
    index = tmp_path / search_index.NAME
    with opened(tmp_path) as store:
        add_project(store)
        write(store, {b"f": b"one\n"})
        index.touch()
        store.rebuild()
        assert index.exists(), "all rows have the numbers that they had"
        write(store, {b"f": b"two\n"})
        write(store, {b"f": b"three\n"})
    damage_batch(tmp_path, 4)
    forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        assert store.damage
        store.rebuild()
        assert not index.exists()


def test_V2_what_is_made_anew_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0)
    try:
        with opened(tmp_path) as store:
            fill(store)
            snap(store)
            with armed("rebuild.built=eio"), pytest.raises(OSError, match="fault point"):
                store.rebuild()
            names = [*tmp_path.glob("catalogue*"), *(tmp_path / "content_pool").iterdir()]
            assert tmp_path / "catalogue.db.new" in names
            assert {name: oct(name.stat().st_mode & 0o777) for name in names if name.stat().st_mode & 0o077} == {}
        with opened(tmp_path):
            assert not (tmp_path / "catalogue.db.new").exists()
    finally:
        os.umask(before)
    assert snapshots(str(tmp_path / "content_pool"))
