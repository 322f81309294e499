"""A disk that is full or fails: a batch is stored as a whole or not at all, and the log goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mulligan.store.log import StoreFullError
from mulligan.store.segments import SegmentKind, SegmentWriter, segment_numbers
from support.storing import (
    add_project,
    armed,
    forget_catalogue,
    group_ends,
    opened,
    pool,
    read,
    row,
    rows_fact,
    segment,
    tables,
    without_reserve,
    write,
)


def test_a_full_disk_costs_the_reserve_and_the_batch_is_stored(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        assert (pool(tmp_path) / "reserve").stat().st_size == 8 << 20
        with armed("segment.write=enospc"):
            write(store, {b"f": b"on a full disk\n"})
        assert not (pool(tmp_path) / "reserve").exists()
        assert read(store, b"f") == b"on a full disk\n"
    with opened(tmp_path) as store:
        assert (pool(tmp_path) / "reserve").exists(), "made again where there is room"


def test_without_a_reserve_the_batch_is_refused_the_file_is_as_before_and_the_next_works(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        without_reserve(store)
        size = segment(tmp_path).stat().st_size
        with armed("segment.write=enospc"), pytest.raises(StoreFullError):
            write(store, {b"f": b"lost\n"})
        assert segment(tmp_path).stat().st_size == size
        assert store.catalogue().live(1, b"f") is None
        receipt = write(store, {b"f": b"kept\n"})
        assert receipt.first_seq == 1
        expected = tables(tmp_path / "catalogue.db")
    forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        assert store.damage == ""
        assert tables(tmp_path / "catalogue.db") == expected


def test_a_short_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        without_reserve(store)
        size = segment(tmp_path).stat().st_size
        real, calls = os.write, []

        def short(fd: int, data: bytes) -> int:
            calls.append(len(data))
            if len(calls) > 2:
                raise OSError(28, "No space left on device")
            return real(fd, data[:50])

        with monkeypatch.context() as patched:
            patched.setattr("mulligan.store.atomic.os.write", short)
            with pytest.raises(StoreFullError):
                write(store, {b"f": os.urandom(400)})
        assert len(calls) == 3
        assert segment(tmp_path).stat().st_size == size
        write(store, {b"f": b"kept\n"})
    forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        assert (store.damage, store.replayed.cut_bytes) == ("", 0)
        assert read(store, b"f") == b"kept\n"


# fsync


def test_after_a_failed_fsync_the_batch_stands_in_a_new_segment_and_the_old_is_cut_back(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        size = segment(tmp_path).stat().st_size
        with armed("segment.sync=eio"):
            write(store, {b"f": b"said twice\n"})
        assert segment(tmp_path).stat().st_size == size
        assert group_ends(segment(tmp_path, 2))[1:]
        assert read(store, b"f") == b"said twice\n"
        write(store, {b"f": b"later\n"})
        expected = tables(tmp_path / "catalogue.db")
    forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        assert store.damage == ""
        assert tables(tmp_path / "catalogue.db") == expected


@pytest.mark.parametrize("caught_up", [True, False])
def test_a_group_that_outlived_the_cut_after_a_failed_fsync_is_passed_over(tmp_path: Path, caught_up: bool) -> None:
    """The cut itself need not have reached the disk before a power cut; the batch in the later segment is the one."""
    with opened(tmp_path) as store:
        add_project(store)
        write(store, {b"f": b"acknowledged\n"})
        size = segment(tmp_path).stat().st_size
        write(store, {b"f": b"fsync fails, never acknowledged\n"})
    left = segment(tmp_path).read_bytes()
    os.truncate(segment(tmp_path), size)
    forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        store.log._left = True  # what the failed fsync leads to
        write(store, {b"f": b"the next one\n", b"g": b"too\n"})
        expected = tables(tmp_path / "catalogue.db")
    segment(tmp_path).write_bytes(left)
    if not caught_up:
        forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        assert store.damage == ""
        assert read(store, b"f") == b"the next one\n"
        assert tables(tmp_path / "catalogue.db") == expected


def test_a_batch_is_refused_when_every_fsync_fails_and_the_next_goes_on_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        add_project(store)

        def broken(self: SegmentWriter) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patched:
            patched.setattr(SegmentWriter, "sync", broken)
            with pytest.raises(OSError, match="Input/output"):
                write(store, {b"f": b"lost\n"})
        assert write(store, {b"f": b"kept\n"}).batch == 3
        expected = tables(tmp_path / "catalogue.db")
    forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        assert (store.damage, read(store, b"f")) == ("", b"kept\n")
        assert tables(tmp_path / "catalogue.db") == expected


def test_a_segment_whose_fsync_failed_is_left_even_if_no_new_one_can_be_made_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        without_reserve(store)
        with monkeypatch.context() as patched:

            def none(_directory: str, _kind: SegmentKind) -> SegmentWriter:
                raise OSError(28, "No space left on device")

            patched.setattr(SegmentWriter, "create_next", staticmethod(none))
            with armed("segment.sync=eio"), pytest.raises(StoreFullError):
                write(store, {b"f": b"lost\n"})
        write(store, {b"f": b"kept\n"})
        assert len(group_ends(segment(tmp_path, 2))) == 2
    forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        assert (store.damage, read(store, b"f")) == ("", b"kept\n")


def test_a_full_segment_is_left_for_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mulligan.store.log.SEGMENT_LIMIT", 2000)
    with opened(tmp_path) as store:
        add_project(store)
        for number in range(30):
            write(store, {b"f%d" % (number % 7): os.urandom(300)})
        expected = tables(tmp_path / "catalogue.db")
    assert len(segment_numbers(str(pool(tmp_path)))) > 4
    forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        assert (store.damage, store.replayed.batches) == ("", 32)
        assert tables(tmp_path / "catalogue.db") == expected
        store.log.append([rows_fact(row(b"gone", at=store.clock.now()))])
