"""A catalogue made anew from snapshot, later batches and the records of the segments equals the one that was lost."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from mulligan.errors import BusyError, MulliganError
from mulligan.model import Cut
from mulligan.store import search_index
from mulligan.store.rebuild import Built
from mulligan.store.segments import segment_numbers
from mulligan.store.snapshot import snapshots
from mulligan.store.store import Store
from mulligan.store.verify import verify
from support.rebuilding import (
    TEXT,
    assert_files,
    by_child,
    damage_batch,
    edit,
    fill,
    in_segments,
    last_batches,
    lose_segment,
    snap,
)
from support.storing import (
    add_project,
    armed,
    damage_page,
    file_entry,
    flip,
    forget_catalogue,
    opened,
    read,
    segment,
    tables,
    write,
)
from unit.store.test_store_replay import everything


@pytest.mark.parametrize("when", ["never", "before", "between", "after"])
@pytest.mark.parametrize("way", ["rebuild", "deleted", "malformed"])
def test_the_new_catalogue_equals_the_old_one(tmp_path: Path, when: str, way: str) -> None:
    place = tmp_path / "catalogue.db"
    with opened(tmp_path) as store:
        began = snap(store) if when == "before" else 0
        files = fill(store, everything())
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


@pytest.mark.parametrize("way", ["deleted", "rebuild"])
def test_a_log_that_begins_behind_a_snapshot_or_has_a_hole_before_it_is_enough(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a collection: segments of batches that a snapshot knows are gone, and their contents lie elsewhere."""
    with opened(tmp_path) as store:
        add_project(store)
        numbers = in_segments(store, 6)
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


def test_what_readers_hold_goes_on_and_what_comes_meanwhile_is_in_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        files = fill(store, everything())
        snap(store)
        catalogue = store.catalogue()
        catalogue.db.execute("begin")
        assert read(store, b"child") == b"by a child"
        real = Store.ask

        def ask(*arguments: Any) -> Any:
            found = real(*arguments)
            write(store, {b"meanwhile": b"written\n"})
            return found

        monkeypatch.setattr(Store, "ask", ask)
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
        fill(store, everything())
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
        fill(store, everything())
        expected = tables(store.catalogue_path)
        with armed("rebuild.caught_up=eio"), pytest.raises(MulliganError, match="could not be replaced"):
            store.rebuild()
        assert tables(store.catalogue_path) == expected
        store.log_end()


def test_a_page_of_the_catalogue_in_use_that_is_broken_is_replaced(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        files = fill(store, everything())
        expected = tables(store.catalogue_path)
    damage_page(tmp_path, "row")
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
            fill(store, everything())
            snap(store)
            with armed("rebuild.built=eio"), pytest.raises(MulliganError, match="could not be replaced"):
                store.rebuild()
            names = [*tmp_path.glob("catalogue*"), *(tmp_path / "content_pool").iterdir()]
            assert tmp_path / "catalogue.db.new" in names
            assert {name: oct(name.stat().st_mode & 0o777) for name in names if name.stat().st_mode & 0o077} == {}
        with opened(tmp_path):
            assert not (tmp_path / "catalogue.db.new").exists()
    finally:
        os.umask(before)
    assert snapshots(str(tmp_path / "content_pool"))
