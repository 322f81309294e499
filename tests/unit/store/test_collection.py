"""Rows and contents leave the store when nothing needs them, and everything else stays what it was."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from mulligan.errors import BusyError, IntegrityError
from mulligan.model import Kind
from mulligan.store.checking import Question, Structure, check_aside
from mulligan.store.collection import Collected, Collection
from mulligan.store.encoding import Encoding, block_list, encode
from mulligan.store.log import StaleContentError
from mulligan.store.records import CheckpointFact, DeleteFact, OperationFact
from mulligan.store.snapshot import prune
from mulligan.store.store import Store
from mulligan.store.thinner import Scope
from mulligan.store.verify import verify
from support.storing import (
    add_project,
    checkpoint,
    file_entry,
    forget_catalogue,
    opened,
    read,
    row,
    rows_fact,
    tables,
    write,
)

_RANDOM = random.Random(5)


def collect(store: Store, snapshot: Callable[[bool], int] | None = None) -> Collected:
    """Keep what checkpoints and the live tree need, and nothing that is only young."""

    def only_one(_short: bool) -> int:
        made = store.snapshot()
        prune(store.pool, 1)
        return made

    collection = Collection(store, snapshot or only_one)
    scopes = [Scope(project.id, store.clock.now(), prompts=False) for project in store.catalogue().projects()]
    return collection.run(scopes, forget_before=store.clock.now(), short=True)


def take(store: Store, name: str, ordinal: int) -> None:
    """A checkpoint of now."""
    seq, now = store.catalogue().meta("seq"), store.clock.now()
    made = checkpoint(id=name, ordinal=ordinal, seq=seq, timestamp=now, created=now)
    store.log.append([CheckpointFact(made)])


def text(lines: int = 400) -> bytes:
    return b"".join(b"%d %s\n" % (number, _RANDOM.randbytes(20).hex().encode()) for number in range(lines))


def edited(data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    lines[_RANDOM.randrange(len(lines))] = b"edited %d\n" % _RANDOM.randrange(1 << 30)
    return b"".join(lines)


def add_version(store: Store, path: bytes, data: bytes) -> None:
    """As a capture would: a delta on the version before, if that is worth it."""
    live = store.catalogue().live(1, path)
    base = store.contents.base(live.entry.hash) if live is not None else None
    now = store.clock.now()
    store.log.append([rows_fact(row(path, file_entry(data), now))], [encode(data, base=base)])


def digests(store: Store) -> dict[str, dict[bytes, bytes]]:
    """Checkpoint → path → bytes, every one of them read and checked."""
    catalogue = store.catalogue()
    return {
        made.id: {
            path: store.contents.read(found.entry.hash)
            for path, found in catalogue.tree(1, made.cut).items()
            if found.entry.kind == Kind.FILE
        }
        for made in catalogue.checkpoints("project = ?", (1,))
    }


def test_versions_between_checkpoints_go_and_checkpoints_stay_what_they_were(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        for number in range(1, 6):
            for version in range(4):
                write(store, {b"f": _RANDOM.randbytes(50_000), b"g%d" % version: _RANDOM.randbytes(1000)})
            take(store, f"c{number}", number)
        before = digests(store)
        rows = store.catalogue().meta("seq")
        collected = collect(store)
        assert collected.rows == rows - len(store.catalogue().versions(1, b"f")) - 5 * 4
        assert len(store.catalogue().versions(1, b"f")) == 5
        assert collected.contents == 15
        assert collected.bytes > 15 * 40_000
        assert digests(store) == before
        assert verify(store.catalogue(), store.contents).clean
    with opened(tmp_path) as store:
        assert store.damage == ""
        assert digests(store) == before


def test_what_a_deleted_checkpoint_alone_needed_goes(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        write(store, {b"f": _RANDOM.randbytes(100_000)})
        take(store, "first", 1)
        write(store, {b"f": b"small"})
        take(store, "second", 2)
        assert collect(store).rows == 0
        store.log.append([DeleteFact(1, ["first"])])
        collected = collect(store)
        assert (collected.rows, collected.contents) == (1, 1)
        assert collected.bytes > 90_000
        assert read(store, b"f") == b"small"


def test_a_chain_of_deltas_is_based_anew_when_its_middle_goes(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        data = text()
        for number in range(40):
            add_version(store, b"f", data)
            if number in (0, 13, 39):
                take(store, f"c{number}", number + 1)
            data = edited(data)
        before = digests(store)
        assert max(place.depth for place in store.catalogue().places()) == 16
        collected = collect(store)
        assert collected.contents == 37
        assert digests(store) == before
        places = list(store.catalogue().places())
        assert [place.encoding for place in places].count(
            Encoding.DELTA
        ) == 1  # the last one's chain began behind the second
        assert verify(store.catalogue(), store.contents).clean


def test_the_oldest_version_of_a_chain_goes_and_the_rest_is_not_stored_whole_each(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        data = text()
        for number in range(10):
            add_version(store, b"f", data)
            if number:
                take(store, f"c{number}", number)
            data = edited(data)
        before = digests(store)
        assert collect(store).contents == 1
        assert digests(store) == before
        encodings = sorted(place.encoding for place in store.catalogue().places())
        assert encodings == [Encoding.ZSTD] + [Encoding.DELTA] * 8


def test_blocks_stay_while_a_list_names_them_and_go_with_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        shared, old, new = (_RANDOM.randbytes(200_000) for _ in range(3))
        for name, last in (("first", old), ("second", new)):
            blocks = [encode(shared), encode(last)]
            entry = file_entry(shared + last)
            listed = block_list(entry.hash, entry.size, [block.hash for block in blocks])
            store.log.append([rows_fact(row(b"big", entry, store.clock.now()))], [*blocks, listed])
            take(store, name, len(name))
        before = digests(store)
        assert collect(store).contents == 0
        assert digests(store) == before
        store.log.append([DeleteFact(1, ["first"])])
        assert collect(store).contents == 2
        assert read(store, b"big") == shared + new


def test_what_an_operation_needs_stays(tmp_path: Path) -> None:
    data = b"taken out by a restore" * 100
    with opened(tmp_path) as store:
        add_project(store)
        take(store, "way-back", 1)
        write(store, {b"f": data})
        payload = msgspec.msgpack.encode({"done": [[b"f", [1, 0, len(data), encode(data).hash, b"", ""]]]})
        store.log.append([OperationFact("op1", 1, "restore", "begin", 5, "", "way-back", payload)])
        write(store, {b"f": b"now"})
        assert collect(store).contents == 0
        assert store.contents.read(encode(data).hash) == data
        store.log.append([OperationFact("op1", 1, "restore", "done", 5, "", "way-back", payload)])
        assert collect(store).contents == 0
        store.log.append([DeleteFact(1, ["way-back"])])
        assert collect(store).contents == 1


def test_what_is_being_built_stays(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        with store.building():
            store.log.append([], [encode(b"a block of a file that is still read" * 50)])
            assert collect(store).contents == 0
        assert collect(store).contents == 1


def test_a_row_that_names_what_was_collected_meanwhile_is_refused_and_one_with_the_content_is_taken(
    tmp_path: Path,
) -> None:
    data = b"seen before the collection" * 10
    with opened(tmp_path) as store:
        add_project(store)
        write(store, {b"f": data})
        write(store, {b"f": b"now"})
        assert store.contents.holds(encode(data).hash)
        assert collect(store).contents == 1
        fact = rows_fact(row(b"g", file_entry(data), store.clock.now()))
        with pytest.raises(StaleContentError, match=encode(data).hash.hex()[:12]):
            store.log.append([fact])
        base = store.contents.base(encode(b"now").hash)
        store.log.append([fact], [encode(data)])
        assert read(store, b"g") == data
        store.log.append([rows_fact(row(b"h", file_entry(data), store.clock.now()))])
        assert base is not None


def test_a_reader_finds_what_was_moved_while_it_read(tmp_path: Path) -> None:
    kept = b"kept" * 1000
    with opened(tmp_path) as store:
        add_project(store)
        write(store, {b"kept": kept})
        for _ in range(5):
            write(store, {b"f": _RANDOM.randbytes(50_000)})
        catalogue = store.catalogue()
        catalogue.db.execute("begin")
        old = catalogue.place(encode(kept).hash)
        assert old is not None
        assert collect(store).segments > 0
        assert catalogue.place(encode(kept).hash) == old  # an older state is being read
        assert store.contents.read(encode(kept).hash) == kept
        catalogue.db.execute("commit")
        now = catalogue.place(encode(kept).hash)
        assert now is not None and now.segment != old.segment


def test_a_damaged_record_keeps_its_segment_and_is_named(tmp_path: Path) -> None:
    data = _RANDOM.randbytes(2000)
    with opened(tmp_path) as store:
        add_project(store)
        write(store, {b"f": data})
        for _ in range(5):
            write(store, {b"g": _RANDOM.randbytes(50_000)})
        place = store.catalogue().place(encode(data).hash)
        assert place is not None
        path = Path(store.pool) / f"{place.segment:06d}.seg"
        with path.open("r+b") as file:
            file.seek(place.offset + 150)
            file.write(b"\0\0\0\0")
        collected = collect(store)
        assert path.exists()
        assert f"offset {place.offset}" in collected.damaged[0]
        with pytest.raises(IntegrityError):
            read(store, b"f")


def test_a_log_segment_stays_while_no_snapshot_is_as_new(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        write(store, {b"f": _RANDOM.randbytes(50_000)})
        write(store, {b"f": b"now"})
        collection = Collection(store, lambda _short: 1)
        collected = collection.run([Scope(1, store.clock.now(), prompts=False)], short=True)
        assert (collected.contents, collected.segments) == (1, 0)


@pytest.mark.parametrize("point", ["verify.snapshots_listed", "verify.segments_listed"])
def test_a_log_segment_that_is_collected_while_the_log_is_looked_at_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    hits, gate = tmp_path / "hits", tmp_path / "gate"
    with opened(tmp_path) as store:
        add_project(store)
        store.snapshot()
        write(store, {b"f": _RANDOM.randbytes(50_000)})
        write(store, {b"f": b"now"})
        store.log.leave_segment()
        write(store, {b"g": b"later"})
        monkeypatch.setenv("MULLIGAN_FAULTS", f"{point}=wait")
        monkeypatch.setenv("MULLIGAN_FAULT_LOG", str(hits))
        monkeypatch.setenv("MULLIGAN_FAULT_GATE", str(gate))
        with ThreadPoolExecutor(1) as thread:
            looking = thread.submit(check_aside, Question(str(tmp_path), [], Structure([])))
            while not hits.exists():
                assert not looking.done(), looking.result()
            monkeypatch.delenv("MULLIGAN_FAULTS")
            collected = collect(store)
            gate.touch()
            assert looking.result().log == []
            assert collected.segments > 0


def test_rows_younger_than_the_border_stay(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        write(store, {b"f": b"1"})
        write(store, {b"f": b"2"})
        border = store.clock.now()
        take(store, "then", 1)
        write(store, {b"f": b"3"})
        write(store, {b"f": b"4"})
        collection = Collection(store, lambda _short: 0)
        assert collection.run([Scope(1, border, prompts=False)]).rows == 0  # nothing says that row 1 was seen by then
        later = store.clock.now()
        assert collection.run([Scope(1, later, prompts=False)]).rows == 2
        assert [found.entry.hash for found in store.catalogue().versions(1, b"f")] == [
            file_entry(b"2").hash, file_entry(b"4").hash,
        ]  # fmt: skip


def test_the_same_catalogue_comes_from_the_log(tmp_path: Path) -> None:
    """Thinning and collecting are facts like any other: a fold of the log gives the same tables."""
    work, copy = tmp_path / "work", tmp_path / "copy"
    with opened(work) as store:
        add_project(store)
        for number in range(6):
            write(store, {b"f": _RANDOM.randbytes(3000), b"g": b"%d" % number})
        take(store, "c", 1)

        def keep(_short: bool) -> int:
            shutil.copytree(store.pool, copy / "content_pool")  # the segments that go: to fold from the first batch on
            return 1 << 62

        collect(store, keep)
        for name in os.listdir(store.pool):
            shutil.copy(Path(store.pool) / name, copy / "content_pool" / name)
        expected = {name: rows for name, rows in tables(work / "catalogue.db").items() if name != "meta"}
    with opened(copy) as store:
        assert store.damage == ""
        found = {name: rows for name, rows in tables(copy / "catalogue.db").items() if name != "meta"}
    assert found == expected


@pytest.mark.parametrize("way", ["deleted", "rebuilt"])
def test_a_catalogue_made_anew_after_collections_is_equal(tmp_path: Path, way: str) -> None:
    with opened(tmp_path) as store:
        add_project(store)
        for number in range(4):
            for version in range(3):
                write(store, {b"f": _RANDOM.randbytes(3000), b"g": b"%d %d" % (number, version)})
            take(store, f"c{number}", number + 1)
            collect(store)
        before = digests(store)
        expected = {name: rows for name, rows in tables(store.catalogue_path).items() if name != "meta"}
        if way == "rebuilt":
            assert store.rebuild().missing == 0
    if way == "deleted":
        forget_catalogue(tmp_path)
    with opened(tmp_path) as store:
        assert store.damage == ""
        assert digests(store) == before
        assert {name: rows for name, rows in tables(store.catalogue_path).items() if name != "meta"} == expected
        assert verify(store.catalogue(), store.contents).clean


def test_only_one_collection_runs(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        collection = Collection(store, lambda _short: 0)
        with store.reorganizing(), pytest.raises(BusyError):
            collection.run([])
