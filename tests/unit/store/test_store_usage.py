"""What takes the room of a store: by kind, by project, by place, and what came since some moment."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.model import ABSENT, Entry, Flag, Kind
from mulligan.store.encoding import block_list, encode
from mulligan.store.segments import RECORD_HEADER_SIZE, SegmentKind, SegmentWriter
from mulligan.store.store import Store
from mulligan.store.usage import KINDS, Share, Stock, disk_by_kind, share_of, take_stock
from support.storing import add_project, file_entry, opened, row, rows_fact, write

TEXT = b"".join(b"line %d of some text\n" % number for number in range(200))
EDITED = TEXT.replace(b"line 7 ", b"line seven ")
OTHER = random.Random(1).randbytes(5000)
FOREVER = 1 << 62


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path / "store") as made:
        add_project(made)
        yield made


def stock(store: Store, day: int = FOREVER, week: int = FOREVER, limit: int = 10, project: int = 0) -> Stock:
    found = take_stock(store.catalogue(), store.pool, day, week, limit, project)
    for number, share in found.projects.items():  # a budget goes by the same sum
        assert share_of(store.catalogue(), store.contents, number) == share.size
    return found


def cost(store: Store, *contents: bytes) -> int:
    """What contents take as they are stored."""
    places = [store.contents.place(hashlib.sha256(data).digest()) for data in contents]
    return sum(place.stored + RECORD_HEADER_SIZE for place in places)


def test_a_content_is_counted_once_for_each_who_has_it(store: Store) -> None:
    add_project(store, 2, b"/somewhere/else")
    write(store, {b"src/a": TEXT, b"src/deep/b": TEXT, b"c": OTHER})
    write(store, {b"a": TEXT}, project=2)
    one = cost(store, TEXT)
    found = stock(store)
    assert {number: (share.size, share.contents, share.versions) for number, share in found.projects.items()} == {
        1: (one + cost(store, OTHER), 2, 3),
        2: (one, 1, 1),
    }
    assert {(place.project, place.path): place.share for place in found.paths} == {
        (1, b"c"): Share(cost(store, OTHER), 1, 1),
        (1, b"src/a"): Share(one, 1, 1),
        (1, b"src/deep/b"): Share(one, 1, 1),
        (2, b"a"): Share(one, 1, 1),
    }
    assert {(place.project, place.path): place.share for place in found.directories} == {
        (1, b"src"): Share(one, 1, 2),
        (1, b"src/deep"): Share(one, 1, 1),
    }


def test_the_largest_come_first_and_no_more_than_were_asked_for(store: Store) -> None:
    write(store, {b"small/a": b"x", b"large/b": OTHER, b"middle/c": TEXT})
    found = stock(store, limit=2)
    assert [place.path for place in found.paths] == [b"large/b", b"middle/c"]
    assert [place.path for place in found.directories] == [b"large", b"middle"]


def test_places_of_one_project_alone(store: Store) -> None:
    add_project(store, 2, b"/somewhere/else")
    write(store, {b"src/a": OTHER})
    write(store, {b"lib/b": TEXT}, project=2)
    found = stock(store, project=2)
    assert [(place.project, place.path) for place in [*found.paths, *found.directories]] == [(2, b"lib/b"), (2, b"lib")]


def test_versions_take_what_is_stored_of_them_and_what_is_gone_counts_still(store: Store) -> None:
    write(store, {b"a": TEXT})
    base = store.contents.base(hashlib.sha256(TEXT).digest())
    store.log.append([rows_fact(row(b"a", file_entry(EDITED), 2))], [encode(EDITED, base=base)])
    store.log.append([rows_fact(row(b"a", ABSENT, 3))])
    assert cost(store, EDITED) < 100 + RECORD_HEADER_SIZE
    (path,) = stock(store).paths
    assert path.share == Share(cost(store, TEXT, EDITED), 2, 2)


def test_a_large_file_takes_its_blocks_and_those_that_it_shares_once(store: Store) -> None:
    blocks = [random.Random(number).randbytes(1000) for number in range(4)]

    def put(path: bytes, parts: list[bytes]) -> bytes:
        whole = b"".join(parts)
        made = block_list(hashlib.sha256(whole).digest(), len(whole), [hashlib.sha256(part).digest() for part in parts])
        entry = Entry(Kind.FILE, 0o644, len(whole), made.hash)
        store.log.append([rows_fact(row(path, entry, 5))], [*map(encode, parts), made])
        return whole

    one, two = put(b"one", blocks[:3]), put(b"two", blocks[1:])
    found = stock(store)
    assert {place.path: place.share.size for place in found.paths} == {
        b"one": cost(store, one, *blocks[:3]),
        b"two": cost(store, two, *blocks[1:]),
    }
    assert found.projects[1].size == cost(store, one, two, *blocks)
    assert stock(store, 5, 5).day == cost(store, one, two, *blocks)
    os.unlink(next(Path(store.pool).glob("*.seg")))  # that it is missing is for `verify` to say
    # the budget's sum is of a reader that has the file open still
    assert take_stock(store.catalogue(), store.pool, FOREVER, FOREVER, 10).projects[1].versions == 2


def test_growth_is_what_came_since_and_was_not_there_at_first_sight(store: Store) -> None:
    add_project(store, 2, b"/somewhere/else")
    versions = [random.Random(number).randbytes(400 + number) for number in range(5)]

    def put(data: bytes, at: int, flags: int = 0, project: int = 1) -> None:
        store.log.append([rows_fact(row(b"a", file_entry(data), at, flags=flags), project=project)], [encode(data)])

    put(versions[0], 10, Flag.FROM_UNKNOWN)
    put(versions[1], 20)
    put(versions[2], 30)
    put(versions[0], 40)  # brought back: it takes nothing new
    put(versions[3], 50, Flag.FROM_UNKNOWN, project=2)
    put(versions[2], 60, project=2)  # new there, and not to the store
    found = stock(store, day=30, week=20)
    assert (found.day, found.week) == (cost(store, versions[2]), cost(store, *versions[1:3]))
    assert (found.projects[1].day, found.projects[1].week) == (found.day, found.week)
    assert (found.projects[2].day, found.projects[2].week) == (cost(store, versions[2]),) * 2
    assert (found.rows, found.rows_day, found.rows_week) == (6, 3, 4)


def test_every_file_of_the_store_has_a_kind(store: Store) -> None:
    write(store, {b"a": TEXT, b"b": OTHER})
    for name, size in {
        "search.db": 3, "search.db-wal": 1, "state.db": 2, "staging/op/x": 4, "drill/y": 1, "quarantine/z": 5,
        "content_pool/000000000007.snap": 6, "unheard of": 7,
    }.items():  # fmt: skip
        path = Path(store.directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 4096 * size)
    writer = SegmentWriter.create_next(store.pool, SegmentKind.POOL)
    writer.append(b"what a child wrote that nobody named" * 300)
    writer.sync()
    writer.close()
    found = disk_by_kind(store.directory, store.catalogue())
    assert tuple(found) == KINDS
    on_disk = sum(path.lstat().st_blocks * 512 for path in Path(store.directory).rglob("*") if path.is_file())
    assert sum(found.values()) == on_disk
    assert found["contents"] == cost(store, TEXT, OTHER)
    segments = [path.stat().st_blocks * 512 for path in sorted(Path(store.pool).glob("*.seg"))]
    assert (found["log"], found["unused"]) == (segments[0] - found["contents"], segments[1])
    pages = {"search_index": 4, "state": 2, "staging": 5, "quarantine": 5, "snapshots": 6}
    assert {kind: found[kind] for kind in pages} == {kind: count * 4096 for kind, count in pages.items()}
    assert found["reserve"] == 8 << 20 and found["catalogue"] > 0 and found["other"] >= 7 * 4096


def test_a_store_without_anything(store: Store) -> None:
    assert stock(store) == Stock()
