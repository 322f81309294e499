"""The lock, the durable write, private directories, and the state database."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mulligan.errors import IntegrityError, LockedError, ReadOnlyError
from mulligan.store.atomic import make_private_directory, write_file
from mulligan.store.lock import DirectoryLock
from mulligan.store.state import StateDatabase, default_budget
from mulligan.store.store import Store
from support.storing import opened

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def elsewhere(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Another process."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENV
    )


HOLD = "import sys; from mulligan.store.store import Store; s = Store(sys.argv[1]); print('held', flush=True); input()"


def test_R18_one_process_has_the_store_and_it_is_free_after_its_death(tmp_path: Path) -> None:
    holder = elsewhere(HOLD, str(tmp_path))
    assert holder.stdout is not None and holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(LockedError) as refused:
        Store(str(tmp_path))
    assert refused.value.exit_status == 75
    assert f"pid {holder.pid}" in refused.value.message
    with pytest.raises(LockedError):
        Store(str(tmp_path))
    holder.kill()
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()
    with opened(tmp_path) as store:
        assert store.damage == ""


def test_R18_the_lock_is_given_up_once_and_may_be_taken_again(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    with pytest.raises(LockedError):
        DirectoryLock(str(tmp_path))
    lock.release()
    other = DirectoryLock(str(tmp_path))
    lock.release()  # must not close what has the descriptor's number now
    with pytest.raises(LockedError):
        DirectoryLock(str(tmp_path))
    other.release()
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="lock"):
        DirectoryLock(str(tmp_path))
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    place = tmp_path / "file"
    write_file(str(place), b"old content")
    held = place.open("rb")
    write_file(str(place), b"new")
    assert (held.read(), place.read_bytes()) == (b"old content", b"new")
    held.close()
    assert os.listdir(tmp_path) == ["file"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "file"
    write_file(str(place), b"old content")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("mulligan.store.atomic.os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            write_file(str(place), b"new")
    assert place.read_bytes() == b"old content"
    write_file(str(place), b"newer")
    assert place.read_bytes() == b"newer"


@pytest.mark.parametrize("umask", [0, 0o022])
def test_V2_private_directories_and_files_under_any_umask(tmp_path: Path, umask: int) -> None:
    existing = tmp_path / "existing"
    existing.mkdir(mode=0o755)
    existing.chmod(0o755)
    before = os.umask(umask)
    try:
        make_private_directory(str(existing / "a/b/c"))
        write_file(str(existing / "a/file"), b"x")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((existing / each).stat().st_mode) for each in ("", "a", "a/b", "a/b/c", "a/file")] == [
        0o755, 0o700, 0o700, 0o700, 0o600,
    ]  # fmt: skip
    make_private_directory(str(existing))
    assert stat.S_IMODE(existing.stat().st_mode) == 0o755


# state


def test_settings_are_kept_per_scope_and_over_restarts(tmp_path: Path) -> None:
    database = StateDatabase(str(tmp_path / "state.db"))
    database.set("global", "", "strategy", "smart")
    database.set("project", "/p", "strategy", "manual")
    database.set("project", "/p", "turn_end", False)
    database.set("project", "/p", "strategy", "per_prompt")
    assert database.unset("global", "", "strategy")
    assert not database.unset("global", "", "strategy")
    database.close()
    database = StateDatabase(str(tmp_path / "state.db"))
    assert database.settings("project", "/p") == {"strategy": "per_prompt", "turn_end": False}
    assert database.settings("global", "") == {}
    assert database.settings("session", "/p") == {}
    database.close()


OPEN = """
import sys
from mulligan.store.state import StateDatabase, default_budget
print("ready", flush=True)
input()
database = StateDatabase(sys.argv[1])
database.set("session", sys.argv[2], "key", int(sys.argv[2]))
database.close()
print("done", flush=True)
"""


def test_T11_ten_processes_open_a_new_database_at_once(tmp_path: Path) -> None:
    for attempt in range(3):
        path = tmp_path / f"state{attempt}.db"
        processes = [elsewhere(OPEN, str(path), str(number)) for number in range(10)]
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        outputs = [process.communicate(timeout=60)[0] for process in processes]
        assert outputs == ["done\n"] * 10
        database = StateDatabase(str(path))
        assert all(database.settings("session", str(number)) == {"key": number} for number in range(10))
        database.close()


def test_V4_a_newer_database_is_read_and_not_written(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    database = StateDatabase(str(path))
    database.set("global", "", "strategy", "smart")
    database.close()
    connection = sqlite3.connect(path)
    connection.execute("pragma user_version = 99")
    connection.close()
    database = StateDatabase(str(path))
    assert database.newer
    assert database.settings("global", "") == {"strategy": "smart"}
    for write in (
        lambda: database.set("global", "", "strategy", "manual"),
        lambda: database.unset("global", "", "strategy"),
    ):
        with pytest.raises(ReadOnlyError) as refused:
            write()
        assert refused.value.exit_status == 4
    assert database.settings("global", "") == {"strategy": "smart"}
    database.close()


@pytest.mark.parametrize("content", [b"not a database " * 300, b"SQLite format 3\0" + b"\xff" * 4080])
def test_V4_an_unreadable_database_is_said_and_never_started_afresh(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(content)
    with pytest.raises(IntegrityError) as said:
        StateDatabase(str(path))
    assert str(path) in said.value.message
    assert path.read_bytes() == content


@pytest.mark.parametrize("umask", [0, 0o022])
def test_V2_the_database_is_private_with_all_its_files(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        database = StateDatabase(str(tmp_path / "new/state.db"))
        database.set("global", "", "strategy", "smart")
        found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
        database.close()
    finally:
        os.umask(before)
    assert found == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def free(monkeypatch: pytest.MonkeyPatch, space: int) -> None:
    real = os.statvfs("/")
    values = [1, 1, space, space, space, *real[5:]]  # in blocks of one byte
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(values))


@pytest.mark.parametrize(
    ("space", "budget"), [(50 << 30, 5 << 30), (500 << 30, 10 << 30), (0, 1 << 20)], ids=["a tenth", "10 GiB", "full"]
)
def test_the_default_budget_is_that_of_the_day_when_the_store_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, space: int, budget: int
) -> None:
    for left in (space, 20 << 30):
        free(monkeypatch, left)
        database = StateDatabase(str(tmp_path / "state.db"))
        assert [default_budget(database, str(tmp_path)) for _ in range(2)] == [budget, budget]
        database.close()


def test_a_default_budget_that_cannot_be_kept_is_reckoned_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, 50 << 30)
    database = StateDatabase(str(tmp_path / "state.db"))
    database.newer = True
    assert default_budget(database, str(tmp_path)) == 5 << 30
    database.close()
    assert default_budget(database, str(tmp_path)) == 5 << 30
