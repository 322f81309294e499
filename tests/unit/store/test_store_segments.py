"""Segments and their end: what a crash, a full disk or a bad sector leaves, and what is made of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mulligan.errors import IntegrityError, NewerFormatError, ReadOnlyError
from mulligan.store.segments import (
    RECORD_HEADER_SIZE,
    RECORD_MAGIC,
    SEGMENT_HEADER_SIZE,
    RecordKind,
    SegmentKind,
    SegmentWriter,
    pack_record,
    read_record,
    read_segment_kind,
    scan,
    segment_numbers,
    valid_records_behind,
)
from mulligan.store.store import Store
from support.storing import (
    add_project,
    flip,
    forget_catalogue,
    group_ends,
    opened,
    pool,
    read,
    segment,
    tables,
    write,
)


def packed(payload: bytes) -> bytes:
    return pack_record(RecordKind.CONTENT, 0, payload, len(payload), b"h" * 32)


def quarantined(directory: Path) -> list[bytes]:
    kept = directory / "quarantine"
    return [path.read_bytes() for path in sorted(kept.iterdir())] if kept.exists() else []


# records


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    payloads = [b"", b"x", RECORD_MAGIC * 5, os.urandom(3000)]
    writer = SegmentWriter.create(str(tmp_path), 1, SegmentKind.POOL)
    for payload in payloads:
        writer.append(packed(payload))
    writer.sync()
    writer.close()
    assert read_segment_kind(str(tmp_path), 1) == SegmentKind.POOL
    with segment_file(tmp_path) as fd:
        found = list(scan(fd, SEGMENT_HEADER_SIZE))
    assert [each.payload for each in found] == payloads
    assert found[-1].end == writer.offset


class segment_file:
    """A descriptor of segment 1."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "000001.seg"

    def __enter__(self) -> int:
        self._fd = os.open(self._path, os.O_RDONLY)
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def test_every_flipped_byte_of_a_record_is_found(tmp_path: Path) -> None:
    writer = SegmentWriter.create(str(tmp_path), 1, SegmentKind.LOG)
    record = packed(b"some bytes")
    writer.append(record)
    writer.close()
    path = tmp_path / "000001.seg"
    for offset in range(len(record)):
        for bits in (0x01, 0x80):
            flip(path, SEGMENT_HEADER_SIZE + offset, bits)
            with segment_file(tmp_path) as fd:
                assert read_record(fd, SEGMENT_HEADER_SIZE) is None
            flip(path, SEGMENT_HEADER_SIZE + offset, bits)
    with segment_file(tmp_path) as fd:
        assert read_record(fd, SEGMENT_HEADER_SIZE) is not None


def test_valid_records_are_found_behind_any_garbage(tmp_path: Path) -> None:
    writer = SegmentWriter.create(str(tmp_path), 1, SegmentKind.LOG)
    garbage = RECORD_MAGIC + b"\0" * 40 + RECORD_MAGIC[:3] + os.urandom((1 << 20) - 60) + RECORD_MAGIC[:2]
    writer.append(garbage)
    place = writer.offset
    writer.append(packed(b"one") + packed(b"two"))
    writer.close()
    with segment_file(tmp_path) as fd:
        found = list(valid_records_behind(fd, SEGMENT_HEADER_SIZE))
    assert [(each.offset, each.payload) for each in found] == [
        (place, b"one"),
        (place + RECORD_HEADER_SIZE + 3, b"two"),
    ]


def test_a_new_segment_takes_the_next_number_whoever_else_makes_one(tmp_path: Path) -> None:
    for number in (1, 2, 17, 1_000_000):
        SegmentWriter.create(str(tmp_path), number, SegmentKind.POOL).close()
    writer = SegmentWriter.create_next(str(tmp_path), SegmentKind.LOG)
    writer.close()
    assert writer.number == 1_000_001
    assert segment_numbers(str(tmp_path)) == [1, 2, 17, 1_000_000, 1_000_001]


@pytest.mark.parametrize("header", [b"", b"MULLISEG", b"NOTMYSEG\1\0\1\0\0\0\0\0", b"MULLISEG\1\0\7\0\0\0\0\0"])
def test_what_is_no_segment_is_said_to_be_none(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "000001.seg").write_bytes(header)
    with pytest.raises(IntegrityError):
        read_segment_kind(str(tmp_path), 1)


# torn tails


@pytest.fixture(scope="module")
def torn_store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """(directory, a copy behind the last batch but one, its catalogue as a whole is one batch behind)."""
    base = tmp_path_factory.mktemp("torn")
    live = base / "live"
    with opened(live) as store:
        add_project(store)
        write(store, {b"a": b"first\n", b"b": b"other\n"})
    before = base / "before"
    shutil.copytree(live, before)
    with opened(live) as store:
        write(store, {b"a": os.urandom(150), b"c": b"new " * 30})
    return live, before, base


def test_a_torn_tail_is_cut_at_every_byte_and_everything_before_it_stays(
    torn_store: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    live, before, _ = torn_store
    *_, start, end = group_ends(segment(live))
    whole = segment(live).read_bytes()
    assert len(whole) == end
    expected = tables(before / "catalogue.db")
    work = tmp_path / "work"
    shutil.copytree(before, work)
    for length in range(start + 1, end):
        segment(work).write_bytes(whole[:length])
        with opened(work) as store:
            assert store.damage == "", length
            assert store.replayed.cut_bytes == length - start
            assert read(store, b"a") == b"first\n"
        assert segment(work).stat().st_size == start
        assert quarantined(work) == [whole[start:length]]
    assert tables(work / "catalogue.db") == expected


def test_a_tail_of_which_any_part_is_broken_is_cut(torn_store: tuple[Path, Path, Path], tmp_path: Path) -> None:
    live, before, _ = torn_store
    *_, start, end = group_ends(segment(live))
    whole = segment(live).read_bytes()
    work = tmp_path / "work"
    shutil.copytree(before, work)
    for offset in range(start, end, 7):  # parts of the last group may reach the disk in any order
        segment(work).write_bytes(whole)
        flip(segment(work), offset)
        with opened(work) as store:
            assert store.damage == "", offset
            assert read(store, b"a") == b"first\n"
        assert segment(work).stat().st_size == start


def test_after_a_cut_the_store_goes_on(torn_store: tuple[Path, Path, Path], tmp_path: Path) -> None:
    live, before, _ = torn_store
    *_, start, end = group_ends(segment(live))
    work = tmp_path / "work"
    shutil.copytree(before, work)
    segment(work).write_bytes(segment(live).read_bytes()[: (start + end) // 2])
    with opened(work) as store:
        write(store, {b"a": b"second\n"})
    forget_catalogue(work)
    with opened(work) as store:
        assert store.damage == ""
        assert read(store, b"a") == b"second\n"


def test_a_whole_group_that_was_not_folded_is_folded_at_the_start(
    torn_store: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    live, before, _ = torn_store
    work = tmp_path / "work"
    shutil.copytree(before, work)
    shutil.copy(segment(live), segment(work))
    with opened(work) as store:
        assert (store.replayed.batches, store.replayed.cut_bytes, store.damage) == (1, 0, "")
        assert read(store, b"c") == b"new " * 30
    assert tables(work / "catalogue.db") == tables(live / "catalogue.db")


def test_records_inside_a_torn_content_are_not_later_batches(tmp_path: Path) -> None:
    """A stored file may be a segment itself; what it holds says nothing about this log."""
    foreign = tmp_path / "foreign"
    with opened(foreign) as store:
        add_project(store)
        for number in range(60):
            write(store, {b"f": b"%d\n" % number})
    inner = segment(foreign).read_bytes()
    mine = tmp_path / "mine"
    with opened(mine) as store:
        add_project(store)
        write(store, {b"before": b"kept\n"})
        content = pack_record(RecordKind.CONTENT, 0, inner, len(inner), b"x" * 32)
    size = segment(mine).stat().st_size
    with segment(mine).open("ab") as file:
        file.write(content[:-1])
    with opened(mine) as store:
        assert store.damage == ""
        assert read(store, b"before") == b"kept\n"
    assert segment(mine).stat().st_size == size


# damage in the middle


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A store of which the catalogue is gone, with three versions of a file."""
    directory = tmp_path / "store"
    with opened(directory) as store:
        add_project(store)
        for number in range(3):
            write(store, {b"f": b"version %d\n" % number})
    return directory


def test_damage_in_the_middle_makes_the_store_read_only_and_nothing_is_cut(three: Path) -> None:
    forget_catalogue(three)
    before_first, *_ = group_ends(segment(three))[3:]
    flip(segment(three), before_first + 5)
    damaged = segment(three).read_bytes()
    with opened(three) as store:
        assert "damaged at offset" in store.damage
        assert read(store, b"f") == b"version 0\n"
        with pytest.raises(ReadOnlyError) as refused:
            write(store, {b"f": b"more\n"})
        assert refused.value.exit_status == 4
        with pytest.raises(ReadOnlyError):
            store.require_writable()
    assert segment(three).read_bytes() == damaged
    assert segment_numbers(str(pool(three))) == [1], "a store that may only be read gets no new segment"


@pytest.mark.parametrize("group", [0, 1, 2, 3])
def test_every_group_but_the_last_is_damage_when_it_is_broken_anywhere(three: Path, tmp_path: Path, group: int) -> None:
    forget_catalogue(three)
    ends = group_ends(segment(three))
    start, end = ends[group], ends[group + 1]
    whole = segment(three).read_bytes()
    for offset in range(start, end, 13):
        segment(three).write_bytes(whole)
        flip(segment(three), offset)
        with opened(three) as store:
            assert store.damage != "", offset
            assert store.catalogue().meta("batch") == group
        forget_catalogue(three)


def test_a_missing_segment_is_damage(three: Path) -> None:
    segment(three).unlink()
    with opened(three) as store:
        assert "segment 1 is missing" in store.damage
        assert store.catalogue().live(1, b"f") is not None
        with pytest.raises(ReadOnlyError):
            write(store, {b"f": b"more\n"})


def test_a_log_that_ends_before_the_watermark_is_damage(three: Path) -> None:
    *_, last_but_one, _ = group_ends(segment(three))
    os.truncate(segment(three), last_but_one)
    with opened(three) as store:
        assert "before the catalogue's watermark" in store.damage


def test_a_missing_batch_between_two_segments_is_damage(three: Path) -> None:
    with opened(three) as store:
        store.log._left = True
        write(store, {b"f": b"in segment 2\n"})
    forget_catalogue(three)
    *_, last_but_one, _ = group_ends(segment(three))
    os.truncate(segment(three), last_but_one)
    with opened(three) as store:
        assert "is missing" in store.damage
        assert read(store, b"f") == b"version 1\n"


@pytest.mark.parametrize("left", [0, 7, SEGMENT_HEADER_SIZE - 1])
def test_a_segment_that_died_while_it_was_made_keeps_nothing_from_opening(three: Path, left: int) -> None:
    segment(three, 2).write_bytes(b"MULLISEG\1\0\1\0\0\0\0\0"[:left])
    with opened(three) as store:
        assert store.damage == ""
        store.log._left = True
        write(store, {b"f": b"more\n"})
    assert segment(three, 3).exists()
    with opened(three) as store:
        assert read(store, b"f") == b"more\n"


def test_a_broken_header_of_what_may_be_a_log_segment_is_damage_and_reads_answer(three: Path) -> None:
    with opened(three) as store:
        store.log._left = True
        write(store, {b"f": b"in segment 2\n"})
    forget_catalogue(three)
    flip(segment(three, 2), 10)
    with opened(three) as store:
        assert "is not a segment" in store.damage
        assert read(store, b"f") == b"version 2\n"


def test_V4_a_newer_format_is_refused_and_nothing_is_changed(three: Path) -> None:
    flip(segment(three), 8, 0x03)
    before = segment(three).read_bytes()
    for _ in range(2):  # the lock was given up
        with pytest.raises(NewerFormatError) as refused:
            Store(str(three))
        assert refused.value.exit_status == 78
        assert "format 2" in refused.value.message
    assert segment(three).read_bytes() == before
