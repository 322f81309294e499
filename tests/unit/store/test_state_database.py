"""The state database's versions, its copies and its checks."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mulligan.config import Config
from mulligan.errors import BusyError, IntegrityError, MulliganError, ReadOnlyError, RefusedError
from mulligan.store.state import StateDatabase
from mulligan.store.state_files import back_up, check_file
from mulligan.store.state_schema import STEPS, VERSION
from mulligan.taskstate.store import TaskStates

P = b"/p"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "place" / "state.db"


@pytest.fixture
def states(path: Path) -> Iterator[TaskStates]:
    database = StateDatabase(str(path))
    yield states_in(database)
    database.close()


def states_in(database: StateDatabase) -> TaskStates:
    moments = iter(range(1, 10_000))
    return TaskStates(database, Config, lambda: next(moments))


def first_version(path: Path) -> None:
    """A database as the first version of mulligan left it."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as old:
        old.execute("pragma journal_mode = wal")
        old.execute(STEPS[0][0])
        old.execute("insert into setting values ('global', '', 'strategy', '\"per_prompt\"')")
        old.execute("pragma user_version = 1")
        old.commit()


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as found:
        return {str(name) for (name,) in found.execute("select name from sqlite_master where type = 'table'")}


def test_T11_the_first_version_is_brought_forward_with_what_it_holds(path: Path) -> None:
    first_version(path)
    database = StateDatabase(str(path))
    assert database.settings("global", "") == {"strategy": "per_prompt"}
    states_in(database).save("a", P, {"title": "t"})
    database.close()
    with closing(sqlite3.connect(path)) as found:
        assert found.execute("pragma user_version").fetchone() == (VERSION,) == (2,)
        assert found.execute("pragma journal_mode").fetchone() == ("wal",)
    assert tables(path) == {
        "setting", "project", "session", "state", "state_version", "snapshot", "session_runtime", "migration",
    }  # fmt: skip


MIGRATE = "import sys; from mulligan.store.state import StateDatabase; StateDatabase(sys.argv[1])"


@pytest.mark.parametrize(("there", "count"), [(True, 1), (False, 1), (False, 2)])
def test_T11_a_kill_during_the_migration_leaves_the_version_before(path: Path, there: bool, count: int) -> None:
    if there:
        first_version(path)
    environ = os.environ | {"MULLIGAN_FAULTS": f"state.migrated=kill@{count}"}
    done = subprocess.run([sys.executable, "-c", MIGRATE, str(path)], env=environ, check=False)
    assert done.returncode == -signal.SIGKILL
    assert tables(path) == ({"setting"} if there else set())
    database = StateDatabase(str(path))
    assert database.settings("global", "") == ({"strategy": "per_prompt"} if there else {})
    assert states_in(database).save("a", P, {"title": "t"}).changed
    database.close()


def test_T11_a_version_of_the_future_is_read_and_not_changed_by_a_byte(path: Path, states: TaskStates) -> None:
    saved = states.save("a", P, {"title": "t"}, snapshot="s")
    states.database.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"pragma user_version = {VERSION + 1}")
        connection.execute("create table of_the_future (x)")
    before = hashlib.sha256(path.read_bytes()).digest()
    database = StateDatabase(str(path))
    newer = states_in(database)
    assert newer.load("a") == saved.state and [each.name for each in newer.snapshots("a")] == ["s"]
    for write in (
        lambda: newer.save("a", P, {"title": "u"}),
        lambda: newer.clear("a"),
        lambda: newer.restore_snapshot("a", "s"),
        lambda: newer.compacted("b", P),
        lambda: newer.prompted("a", P, 5),
        lambda: newer.injection("a"),
        lambda: newer.replace("a", P, {}),
    ):
        with pytest.raises(ReadOnlyError) as refused:
            write()
        assert refused.value.exit_status == 4
    database.close()
    assert hashlib.sha256(path.read_bytes()).digest() == before
    assert sorted(os.listdir(path.parent)) == ["state.db"]


def test_T12_foreign_keys_hold_and_a_full_disk_leaves_what_was(path: Path, states: TaskStates) -> None:
    saved = states.save("a", P, {"title": "t"}).state
    with pytest.raises(IntegrityError), states.database.writing() as db:
        db.execute("insert into state values ('nobody', 1, 0, '{}')")
    with pytest.raises(ZeroDivisionError), states.database.writing() as db:
        db.execute("delete from session")
        raise ZeroDivisionError
    with states.database.reading() as db:
        pages = db.execute("pragma page_count").fetchone()[0]
        db.execute(f"pragma max_page_count = {pages}")
    with pytest.raises(MulliganError) as full:
        states.save("a", P, {"notes": "n" * 100_000}, snapshot="s")
    assert str(path) in full.value.message
    assert states.load("a") == saved and states.snapshots("a") == []


def test_a_database_that_others_write_is_busy(path: Path, states: TaskStates, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        with states.database.reading() as db:
            db.execute("pragma busy_timeout = 10")
        with pytest.raises(BusyError) as busy:
            states.save("a", P, {"title": "t"})
        assert busy.value.exit_status == 8
        assert states.load("a") is None, "reading goes on"


# copies


def test_T13_a_backup_is_whole_private_and_one_file(path: Path, states: TaskStates, tmp_path: Path) -> None:
    saved = states.save("a", P, {"title": "t"}).state
    copy = tmp_path / "copy.db"
    before = os.umask(0)
    try:
        assert back_up(str(path), str(copy)) == copy.stat().st_size > 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    states.save("a", P, {"title": "later"})
    assert sorted(os.listdir(tmp_path)) == ["copy.db", "place"]
    restored = StateDatabase(str(copy))
    assert states_in(restored).load("a") == saved
    restored.close()


def test_T13_a_backup_writes_over_nothing(path: Path, states: TaskStates, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_bytes(b"mine")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("taken", "link", "place"):
        with pytest.raises(RefusedError) as refused:
            back_up(str(path), str(tmp_path / name))
        assert refused.value.exit_status == 4 and name in refused.value.message
    assert taken.read_bytes() == b"mine"
    with pytest.raises(MulliganError, match="no such file"):
        back_up(str(path), str(tmp_path / "absent" / "copy.db"))
    assert sorted(os.listdir(tmp_path)) == ["link", "place", "taken"]


# checks


def test_a_whole_database_has_no_findings(path: Path, states: TaskStates) -> None:
    states.save("a", P, {"title": "t"})
    found = check_file(str(path))
    assert (found.version, found.integrity, found.foreign_keys) == (2, [], [])


def test_damage_and_broken_references_are_found_and_left(path: Path, states: TaskStates, tmp_path: Path) -> None:
    for number in range(40):
        states.save(f"s{number}", P, {"title": "t" * 400})
    states.database.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma foreign_keys = off")
        connection.execute("delete from session where id = 's3'")
        connection.commit()
    before = path.read_bytes()
    found = check_file(str(path))
    assert found.integrity == [] and any("names nothing in session" in line for line in found.foreign_keys)
    data = bytearray(before)
    data[4096 * 3 : 4096 * 9] = b"\xa5" * (4096 * 6)
    path.write_bytes(data)
    assert check_file(str(path)).integrity
    with pytest.raises(IntegrityError):
        back_up(str(path), str(tmp_path / "copy.db"))
    assert path.read_bytes() == data, "nothing is repaired"
    assert not (tmp_path / "copy.db").exists()
    assert check_file(str(tmp_path / "absent.db")).integrity
