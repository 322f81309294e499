"""The options of task state in a running daemon: where the database lies, how much is kept, what a backup is for."""

from __future__ import annotations

import json
import shutil
import stat
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from support.daemon import DaemonFixture, RpcError

SESSION = str(uuid.uuid4())


def ready(daemon: DaemonFixture) -> Path:
    project = daemon.projects / "project"
    project.mkdir(exist_ok=True)
    daemon.add(project)
    return project


def save(daemon: DaemonFixture, project: Path, title: str, snapshot: str | None = None) -> None:
    named = {"snapshot": snapshot} if snapshot else {}
    daemon.call("state.save", project=project, session=SESSION, state={"title": title}, **named)


def title(daemon: DaemonFixture) -> str:
    return str(daemon.call("state.load", session=SESSION)["state"]["title"])


def names(daemon: DaemonFixture) -> list[str]:
    return [each["name"] for each in daemon.call("state.list", session=SESSION)["snapshots"]]


def test_T10_the_database_is_in_the_data_directory_and_private(daemon: DaemonFixture) -> None:
    save(daemon, ready(daemon), "t")
    database = daemon.data_dir / "state.db"
    assert daemon.call("state.check")["path"] == str(database)
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in daemon.data_dir.glob("state.db*")}
    assert found == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}
    assert stat.S_IMODE(daemon.data_dir.stat().st_mode) == 0o700


def test_T10_configuration_and_environment_say_where_it_is(daemon_factory: Callable[..., DaemonFixture]) -> None:
    daemon = daemon_factory(config="database_path: ~/kept/state.db\n")
    save(daemon, ready(daemon), "by configuration")
    place = daemon.home / "kept" / "state.db"
    assert daemon.call("state.check")["path"] == str(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600 and stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert not (daemon.data_dir / "state.db").exists()
    daemon.env["MULLIGAN_STATE_DB"] = str(daemon.directory / "nearer.db")
    daemon.restart()
    assert not daemon.call("state.load", project=daemon.projects / "project", session=SESSION)["exists"]
    assert daemon.call("state.check")["path"] == str(daemon.directory / "nearer.db")
    del daemon.env["MULLIGAN_STATE_DB"]
    daemon.restart()
    assert title(daemon) == "by configuration"


def test_T10_a_relative_place_is_as_seen_by_who_starts_the_daemon(daemon_factory: Callable[..., DaemonFixture]) -> None:
    daemon = daemon_factory(start=False)
    started = daemon.client("start", cwd=daemon.directory, MULLIGAN_STATE_DB="near/state.db")
    try:
        assert started.returncode == 0, started
        assert daemon.call("state.check")["path"] == str(daemon.directory / "near" / "state.db")
    finally:
        assert daemon.client("stop").returncode == 0


def test_T10_a_place_where_nothing_can_be_is_a_bad_configuration(daemon_factory: Callable[..., DaemonFixture]) -> None:
    daemon = daemon_factory(start=False)
    (daemon.directory / "file").write_bytes(b"")
    for place in ("/proc/none/state.db", str(daemon.directory), f"{daemon.directory}/file/state.db"):
        started = daemon.client("start", MULLIGAN_STATE_DB=place)
        assert started.returncode == 78, started
        assert place in started.stderr and "database_path" in started.stderr and "Errno" not in started.stderr


def test_T19_the_history_limit_holds_from_a_reload_on(daemon_factory: Callable[..., DaemonFixture]) -> None:
    daemon = daemon_factory(config="history_limit: 3\n")
    project = ready(daemon)
    for number in range(5):
        save(daemon, project, str(number), f"s{number}")
    assert names(daemon) == ["s4", "s3", "s2"]
    undo = daemon.call("state.restore_snapshot", session=SESSION, name="s2")["undo"]
    for number in range(5, 9):
        save(daemon, project, str(number), f"s{number}")
    assert names(daemon) == ["s8", "s7", "s6", undo]
    daemon.config_file.write_text("history_limit: 1\n")
    daemon.call("daemon.reload")
    save(daemon, project, "9", "s9")
    assert names(daemon) == ["s9", undo]


def test_a_state_that_is_too_large_is_refused_and_what_was_stays(daemon: DaemonFixture) -> None:
    project = ready(daemon)
    save(daemon, project, "small")
    done = daemon.client(
        "state", "save", "-", "--session", SESSION, cwd=project, data=json.dumps({"notes": "é" * 140_000})
    )
    assert done.returncode == 2 and "262,144" in done.stderr and "files" in done.stderr
    daemon.call("state.save", session=SESSION, state={"notes": "é" * 130_000})
    assert len(daemon.call("state.load", session=SESSION)["state"]["notes"]) == 130_000
    done = daemon.client(
        "state", "save", "-", "--session", SESSION, cwd=project, data=json.dumps({"x": "y" * 2_000_000})
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr


# T13


def test_T13_a_backup_while_others_write_and_the_way_back(daemon: DaemonFixture) -> None:
    project = ready(daemon)
    save(daemon, project, "backed up")
    daemon.call("settings.set", project=project, key="strategy", value="per_prompt")
    copy = daemon.directory / "copy.db"
    done = daemon.client("state", "backup", "copy.db", cwd=daemon.directory)
    assert done.returncode == 0 and f"backed up: {copy}, " in done.stdout
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    save(daemon, project, "later")
    again = daemon.client("state", "backup", str(copy), "--json")
    assert again.returncode == 4 and json.loads(again.stderr)["error"]["code"] == "refused"
    # as the README says
    assert daemon.stop() == 0
    database = daemon.data_dir / "state.db"
    for left in daemon.data_dir.glob("state.db-*"):
        left.unlink()
    shutil.copy(copy, database)
    daemon.start()
    assert title(daemon) == "backed up"
    assert daemon.call("settings.get", project=project)["settings"]["strategy"]["value"] == "per_prompt"


@pytest.mark.parametrize("path", ["copy.db", "/nonexistent/copy.db", "/tmp/a\0b"])
def test_a_backup_needs_a_place(daemon: DaemonFixture, path: str) -> None:
    with pytest.raises(RpcError) as refused:
        daemon.call("state.backup", path=path)
    assert refused.value.code == ("failed" if path.startswith("/non") else "usage")


def test_doctor_checks_the_state_database_and_repairs_nothing(daemon: DaemonFixture) -> None:
    project = ready(daemon)
    for number in range(60):
        daemon.call("state.save", project=project, session=str(uuid.UUID(int=number)), state={"notes": "n" * 900})
    done = daemon.client("doctor")
    assert done.returncode == 0 and "task state   whole, version 2" in done.stdout
    assert daemon.stop() == 0
    database = daemon.data_dir / "state.db"
    data = bytearray(database.read_bytes())
    data[4096 * 12 : 4096 * 16] = b"\xa5" * (4096 * 4)
    database.write_bytes(data)
    daemon.start()
    done = daemon.client("doctor", "--json")
    (found,) = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "task state"]
    assert done.returncode == 1 and not found["ok"] and "backup" in found["step"] and str(database) in found["found"]
    assert daemon.stop() == 0
    assert database.read_bytes()[4096 * 12 : 4096 * 16] == data[4096 * 12 : 4096 * 16]


def test_T11_a_newer_state_database_lets_the_daemon_read_on(daemon: DaemonFixture) -> None:
    import sqlite3  # noqa: PLC0415

    project = ready(daemon)
    save(daemon, project, "kept")
    assert daemon.stop() == 0
    database = daemon.data_dir / "state.db"
    connection = sqlite3.connect(database)
    connection.execute("pragma user_version = 99")
    connection.close()
    before = database.read_bytes()
    daemon.start()
    assert title(daemon) == "kept"
    done = daemon.client("state", "save", '{"title": "new"}', "--session", SESSION, cwd=project)
    assert done.returncode == 4 and "newer" in done.stderr
    assert daemon.client("doctor").returncode == 1
    (warning,) = daemon.call("daemon.status")["warnings"]
    assert str(database) in warning and "newer" in warning
    assert daemon.stop() == 0
    assert database.read_bytes() == before
