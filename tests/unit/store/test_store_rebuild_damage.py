"""What a rebuild makes of damage: contents, batches, segments and snapshots that are broken or gone."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from mulligan.errors import IntegrityError, ReadOnlyError
from mulligan.store import rebuild as rebuild_module
from mulligan.store.schema import SCHEMA_VERSION
from mulligan.store.segments import segment_numbers
from mulligan.store.snapshot import snapshot_path
from mulligan.store.verify import verify
from support.rebuilding import (
    TEXT,
    assert_files,
    damage_batch,
    edit,
    fill,
    in_segments,
    lose_segment,
    snap,
)
from support.storing import (
    add_project,
    damage_page,
    file_entry,
    flip,
    forget_catalogue,
    group_ends,
    opened,
    read,
    segment,
    tables,
    write,
)
from unit.store.test_store_replay import everything


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
        numbers = in_segments(store, 5)
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
        numbers = in_segments(store, 3)
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
        files = fill(store, everything())
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
    for column in ("barrier", "unguarded"):
        connection.execute(f"alter table call drop column {column}")
    connection.execute(f"pragma user_version = {SCHEMA_VERSION - 1}")
    connection.close()


def test_an_upgrade_folds_the_whole_log_if_it_is_there_and_begins_with_the_snapshot_if_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mulligan.store.records import CallFact  # noqa: PLC0415

    with opened(tmp_path) as store:
        add_project(store)
        store.log.append([CallFact("t1", "s", 1, "Bash", "window", 5, command="make", barrier=7, unguarded=True)])
        numbers = in_segments(store, 4)
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
        assert [call[-2:] for call in found.pop("call")] == [(0, 0)]
        assert found["row"] == expected["row"] and found["path"] == expected["path"]
        assert [read(store, b"s%d" % number) for number in (1, 2, 3)] == [b"in segment %d\n" % n for n in (1, 2, 3)]


def test_what_neither_the_log_nor_the_catalogue_gives_is_named_and_the_daemon_has_to_start_anew(tmp_path: Path) -> None:
    """A daemon that remembers more than the catalogue must not write on."""
    with opened(tmp_path) as store:
        add_project(store)
        for number in range(4):
            write(store, {b"f": b"version %d\n" % number})
    damage_page(tmp_path, "row")
    with opened(tmp_path) as store:
        damage_batch(tmp_path, 4)
        built = store.rebuild()
        assert built.batch == 3 and "later batches follow" in built.lost[0]
        assert "start anew" in store.damage
    with opened(tmp_path) as store:
        assert (store.damage, read(store, b"f")) == ("", b"version 0\n")
        write(store, {b"f": b"version 9\n"})
