"""Snapshots: one state of the catalogue in a checked file, whole or not there, and loaded by the names of columns."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mulligan.errors import IntegrityError, MulliganError, NewerFormatError
from mulligan.store import snapshot
from mulligan.store.catalogue import connect
from mulligan.store.schema import SCHEMA, SCHEMA_VERSION
from mulligan.store.snapshot import check, load, newest, prune, remove_unfinished, snapshot_path, snapshots, write
from mulligan.store.store import Store
from support.storing import add_project, armed, flip, opened, tables
from support.storing import write as write_files
from unit.store.test_store_replay import everything


def fill(store: Store) -> None:
    """Every table, and rows that name contents."""
    for facts in everything():
        store.log.append(facts)
    write_files(store, {b"e%d" % number: os.urandom(20) for number in range(50)}, project=2)


def written(store: Store) -> int:
    with closing(connect(store.catalogue_path)) as db:
        return write(db, store.pool)


def loaded(path: str, schema: str = SCHEMA) -> dict[str, list[tuple[Any, ...]]]:
    """What a catalogue made from a snapshot alone holds."""
    place = Path(path).with_suffix(".db")
    with closing(sqlite3.connect(place, isolation_level=None)) as db:
        db.executescript(schema)
        load(path, db)
    found = tables(place)
    place.unlink()
    return found


def without_places(found: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """Tables as a snapshot has them."""
    contents = [(*row[:3], 0, 0, 0, 0, 0, 0) for row in found["content"]]
    meta = [row for row in found["meta"] if row[0] not in ("segment", "offset")]
    return {**found, "content": contents, "meta": meta}


def test_a_snapshot_holds_every_table_but_the_places(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
        batch = written(store)
        assert batch == store.log.batch
        expected = without_places(tables(store.catalogue_path))
        path = snapshot_path(store.pool, batch)
        assert loaded(path) == expected
        assert check(path) == newest(store.pool)
        assert (check(path).schema, check(path).batch) == (SCHEMA_VERSION, batch)
        assert check(path).time == store.catalogue().meta("time")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert [name for name in os.listdir(store.pool) if "snap" in name] == [os.path.basename(path)]


def test_rows_name_contents_by_their_ids(tmp_path: Path) -> None:
    """A hash cannot be compressed: a tree of which nothing changes costs its contents' hashes once."""
    with opened(tmp_path) as store:
        add_project(store)
        write_files(store, {b"f%d" % number: os.urandom(20) for number in range(1000)})
        first = os.path.getsize(snapshot_path(store.pool, written(store)))
        for _ in range(3):
            rows = {b"f%d" % number: b"" for number in range(1000)}
            known = {path: store.catalogue().live(1, path) for path in rows}
            store.log.append([_again(known)])
        second = os.path.getsize(snapshot_path(store.pool, written(store)))
        assert second - first < 1000 * 3 * 12


def _again(known: dict[bytes, Any]) -> Any:
    from support.storing import row, rows_fact  # noqa: PLC0415

    return rows_fact(*(row(path, live.entry, live.at + 1) for path, live in known.items()))


def test_a_snapshot_is_of_one_moment_whatever_is_folded_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        fill(store)
        expected = without_places(tables(store.catalogue_path))
        real = snapshot._columns

        def columns(db: sqlite3.Connection, table: str) -> list[str]:
            if table == "row":
                write_files(store, {b"late": b"late"})
            return real(db, table)

        with monkeypatch.context() as patched:
            patched.setattr(snapshot, "_columns", columns)
            batch = written(store)
        assert batch == store.log.batch - 1
        assert loaded(snapshot_path(store.pool, batch)) == expected


@pytest.mark.parametrize("step", ["snapshot.written=eio", "snapshot.checked=eio"])
def test_what_fails_before_it_is_named_leaves_the_older_ones_alone(tmp_path: Path, step: str) -> None:
    with opened(tmp_path) as store:
        fill(store)
        first = written(store)
        store.log_end()
        with armed(step), pytest.raises(OSError, match="fault point"):
            written(store)
        assert snapshots(store.pool) == [first]
        assert [name for name in os.listdir(store.pool) if name.endswith(".new")] == []


def test_what_was_not_written_as_it_is_read_back_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        fill(store)
        real = snapshot.check

        def damaged(path: str) -> Any:
            flip(Path(path), os.path.getsize(path) // 2)
            return real(path)

        monkeypatch.setattr(snapshot, "check", damaged)
        with pytest.raises(IntegrityError, match="damaged"):
            written(store)
        assert snapshots(store.pool) == []


KILLED = """
import sys
from contextlib import closing
from mulligan.store.catalogue import connect
from mulligan.store.snapshot import prune, write
with closing(connect(sys.argv[1] + "/catalogue.db")) as db:
    write(db, sys.argv[1] + "/content_pool")
prune(sys.argv[1] + "/content_pool", 1)
"""


@pytest.mark.parametrize(
    ("point", "ends"), [("snapshot.written", "old"), ("snapshot.checked", "old"), ("snapshot.named", "both"),
                        ("snapshot.prune", "both")],
)  # fmt: skip
def test_killed_anywhere_there_are_the_old_ones_or_one_more(tmp_path: Path, point: str, ends: str) -> None:
    with opened(tmp_path) as store:
        fill(store)
        first = written(store)
        store.log_end()
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "MULLIGAN_FAULTS": f"{point}=kill"}
        done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=env, check=False)
        assert done.returncode == -9
        second = store.log.batch
        assert snapshots(store.pool) == ([second, first] if ends == "both" else [first])
        for batch in snapshots(store.pool):
            assert check(snapshot_path(store.pool, batch)).batch == batch
    with opened(tmp_path) as store:
        assert [name for name in os.listdir(store.pool) if name.endswith(".new")] == []


def test_three_are_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        made = []
        for _ in range(5):
            store.log_end()
            made.append(written(store))
        prune(store.pool)
        assert snapshots(store.pool) == made[:1:-1]
        prune(store.pool, keep=1)
        assert snapshots(store.pool) == made[4:]


@pytest.mark.parametrize("part", [0, 9, 12, 20, 40, 0.3, 0.6, -40, -1])
def test_a_flipped_byte_or_a_missing_end_is_found(tmp_path: Path, part: float) -> None:
    with opened(tmp_path) as store:
        fill(store)
        path = Path(snapshot_path(store.pool, written(store)))
        whole = path.read_bytes()
        offset = int(part * len(whole)) if isinstance(part, float) else int(part) % len(whole)
        flip(path, offset)
        with pytest.raises(IntegrityError):
            loaded(str(path))
        for end in {offset, len(whole) - 1, 5, 0}:
            path.write_bytes(whole[:end])
            with pytest.raises(IntegrityError):
                check(str(path))
        assert newest(store.pool) is None


def test_a_snapshot_of_a_newer_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as store:
        fill(store)
        with monkeypatch.context() as patched:
            patched.setattr(snapshot, "_VERSION", 2)
            path = snapshot_path(store.pool, written(store))
    with pytest.raises(NewerFormatError) as refused:
        check(path)
    assert refused.value.exit_status == 78


def test_another_schema_loads_it_by_the_names_of_columns(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
        path = snapshot_path(store.pool, written(store))
    later = SCHEMA.replace(
        "create table gap (project int not null, start int not null, end int not null, reason text not null);",
        "create table gap (reason text not null, seen int not null, start int not null, note text not null default 'x',"
        " body blob not null, maybe int, project int not null);",
    )
    assert later != SCHEMA
    later = later.replace("create table known (key text primary key, session text not null) without rowid;", "")
    found = loaded(path, later)
    assert found["gap"] == [("away", 0, 3, "x", b"", None, 1)]
    assert "known" not in found


def test_the_store_has_one_written_by_a_child(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
        for _ in range(4):
            store.log_end()
            with store.reorganizing():
                assert store.snapshot() == store.log.batch
        assert len(snapshots(store.pool)) == 3
        assert newest(store.pool) == check(snapshot_path(store.pool, store.log.batch))


def test_a_child_that_cannot_write_says_why(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
        (tmp_path / "content_pool" / f"{store.log.batch:012d}.snap.new").mkdir()
        with pytest.raises(MulliganError, match="could not be written"):
            store.snapshot()


def test_what_is_no_left_over_stays(tmp_path: Path) -> None:
    for name in ("1.snap.new", "000000000001.snap.newer", "note.new", "000000000001.snap"):
        (tmp_path / name).touch()
    (tmp_path / "000000000001.snap.new").touch()
    remove_unfinished(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["000000000001.snap", "000000000001.snap.newer", "1.snap.new", "note.new"]
