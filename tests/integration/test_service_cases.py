"""The service: clients that know nothing, secrets, stores of another version, a clock that is set back."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from support.daemon import DaemonFixture
from support.live_transcript import LiveTranscript
from support.stored import assert_stored, restore, rows, status, take
from support.trees import assert_tree, put, snapshot


def watching(daemon: DaemonFixture, project: Path) -> bool:
    return bool(status(daemon, project)["state"] == "watching")


# V1: a client that knows nothing


def test_V1_a_client_with_nothing_but_a_home_finds_a_daemon_with_another_environment(
    daemon_factory: Callable[..., DaemonFixture],
) -> None:
    daemon = daemon_factory(start=False)
    for name in ("MULLIGAN_STATE_DIR", "XDG_STATE_HOME"):
        del daemon.env[name]
    daemon.start()
    bare = {"HOME": str(daemon.home)}
    said = subprocess.run(
        [sys.executable, "-m", "mulligan.client.main", "status", "--json"],
        env=bare, cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["daemon"]["pid"] == daemon.pid


def test_V1_a_client_with_an_empty_environment_finds_the_daemon(daemon_factory: Callable[..., DaemonFixture]) -> None:
    daemon = daemon_factory(start=False)
    for name in ("MULLIGAN_STATE_DIR", "XDG_STATE_HOME"):
        del daemon.env[name]
    passwd = daemon.directory / "passwd"
    passwd.write_text(f"root:x:0:0::{daemon.home}:/bin/sh\n")
    inside = ["unshare", "-Urm", "sh", "-c", f'mount --bind {passwd} /etc/passwd && exec env -i "$@"', "sh"]
    tried = subprocess.run([*inside, "/bin/true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no user and mount namespaces here: {tried.stderr.strip()[-100:]}")
    daemon.start()
    command = [sys.executable, "-m", "mulligan.client.main"]
    said = subprocess.run([*inside, *command, "status", "--json"], cwd="/", capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["daemon"]["pid"] == daemon.pid
    daemon.stop()
    said = subprocess.run([*inside, *command, "list"], cwd="/", capture_output=True, text=True, check=False)
    assert said.returncode == 7, said.stdout
    assert "mulligan start" in said.stderr


# V2: secrets

TOKEN = "tok-5f1c9e7ab24d48d0-invented"


def test_V2_a_private_file_stays_private_and_its_token_is_said_nowhere(
    daemon_factory: Callable[..., DaemonFixture],
) -> None:
    before = os.umask(0o022)
    try:
        daemon = daemon_factory()
        project = daemon.projects / "project"
        put(project, b".env", f"API_TOKEN={TOKEN}\n".encode(), 0o600)
        put(project, b"code", b"code\n")
        daemon.add(project)
        made = take(daemon, project)
        put(project, b".env", f"API_TOKEN={TOKEN}-2\n".encode(), 0o600)
        take(daemon, project)
        put(project, b".env", b"empty\n", 0o644)
        restore(daemon, project, made["id"])
        assert (project / ".env").read_text() == f"API_TOKEN={TOKEN}\n"
        assert stat.S_IMODE((project / ".env").stat().st_mode) == 0o600
    finally:
        os.umask(before)
    session = LiveTranscript(daemon.claude_dir, project)
    session.prompt("look around")
    said = [
        daemon.client(*words, cwd=project)
        for words in (["status"], ["status", "--json"], ["list"], ["show", "1"], ["project", "list"], ["timeline"],
                      ["diff", "1", "2", "--stat"], ["restore", "1", ".env", "--dry-run"], ["restore", TOKEN[:2]],
                      ["verify"], ["session", "list"], ["watch", "--help"])
    ]  # fmt: skip
    os.chmod(project / ".env", 0)
    take(daemon, project)
    daemon.restart()
    spoken = "".join(done.stdout + done.stderr for done in said) + daemon.log()
    assert TOKEN not in spoken
    for place in (daemon.data_dir, daemon.state_dir, daemon.directory / "run"):
        for path in (place, *place.rglob("*")):
            mode = stat.S_IMODE(path.lstat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), f"{path}: {mode:o}"
    for path in (*daemon.state_dir.rglob("*"), daemon.data_dir / "catalogue.db", daemon.data_dir / "state.db"):
        assert TOKEN.encode() not in path.read_bytes(), path


# V4: stores of another version, and damaged ones


def refused(daemon: DaemonFixture) -> str:
    """The daemon does not start; what it says, in one or two lines."""
    daemon.start(wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(30) == 78
    said = daemon.log().splitlines()
    return "\n".join(said[-3:])


def test_V4_a_newer_catalogue_is_refused_and_not_changed(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"file", b"one\n")
    daemon.add(project)
    made = take(daemon, project)
    assert daemon.stop() == 0
    path = daemon.data_dir / "catalogue.db"
    connection = sqlite3.connect(path)
    (version,) = connection.execute("pragma user_version").fetchone()
    connection.execute("pragma user_version = 99")
    connection.close()
    before = path.read_bytes()
    said = refused(daemon)
    assert "99" in said
    assert "install" in said
    assert path.read_bytes() == before
    assert not daemon.socket.exists()
    connection = sqlite3.connect(path)
    connection.execute(f"pragma user_version = {version}")
    connection.close()
    daemon.start()
    assert restore(daemon, project, made["id"])["plan"]["delete"] == []


def test_V4_newer_segments_are_refused_and_not_changed(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"file", b"one\n")
    daemon.add(project)
    assert daemon.stop() == 0
    path = sorted((daemon.data_dir / "content_pool").glob("*.seg"))[-1]
    old = path.read_bytes()
    path.write_bytes(old[:8] + (99).to_bytes(2, "little") + old[10:])
    before = path.read_bytes()
    said = refused(daemon)
    assert "99" in said
    assert path.read_bytes() == before
    path.write_bytes(old)
    daemon.start()


def test_V4_of_a_newer_state_database_reads_answer_and_writes_do_not(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"file", b"one\n")
    daemon.add(project)
    daemon.call("settings.set", key="strategy", value="manual", project=project, scope="project")
    assert daemon.stop() == 0
    path = daemon.data_dir / "state.db"
    connection = sqlite3.connect(path)
    connection.execute("pragma user_version = 99")
    connection.close()
    daemon.start()
    settings = daemon.call("settings.get", project=project)["settings"]
    assert settings["strategy"]["value"] == "manual"
    said = daemon.client("settings", "set", "strategy", "smart", cwd=project)
    assert said.returncode == 4
    assert "newer" in said.stderr
    assert daemon.call("settings.get", project=project)["settings"]["strategy"]["value"] == "manual"
    made = take(daemon, project)
    put(project, b"file", b"two\n")
    restore(daemon, project, made["id"])


def test_V4_a_damaged_catalogue_is_set_aside_and_made_again(daemon: DaemonFixture, project: Path) -> None:
    for number in range(5):
        put(project, b"f%d" % number, b"%d\n" % number)
    daemon.add(project)
    made, tree = take(daemon, project, "the one"), snapshot(project)
    daemon.call("checkpoint.pin", project=project, id=made["id"])
    put(project, b"f1", b"changed\n")
    take(daemon, project)
    listed = daemon.call("checkpoint.list", project=project)
    assert daemon.stop() == 0
    path = daemon.data_dir / "catalogue.db"
    for beside in daemon.data_dir.glob("catalogue.db-*"):
        beside.unlink()
    path.write_bytes(b"this is no database" * 1000)
    before = path.read_bytes()
    daemon.start()
    (warning,) = daemon.call("daemon.status")["warnings"]
    assert "catalogue.db.damaged" in warning and warning in daemon.log()
    assert path.with_suffix(".db.damaged").read_bytes() == before, "never starting clean"
    daemon.until(lambda: watching(daemon, project))
    assert daemon.call("checkpoint.list", project=project) == listed
    restore(daemon, project, made["id"])
    assert_tree(project, tree)
    assert daemon.call("store.verify")["clean"]


def test_a_store_is_verified_beside_what_is_written_to_it(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"f", b"0\n")
    daemon.add(project)
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            put(project, b"f", b"%d\n" % number)
            take(daemon, project)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [daemon.call("store.verify") for _ in range(40)]
    finally:
        ended.set()
        writer.join()
    assert [each for each in found if not each["clean"]] == []


def test_V4_a_state_database_that_cannot_be_read_is_refused(daemon: DaemonFixture) -> None:
    assert daemon.stop() == 0
    path = daemon.data_dir / "state.db"
    for beside in daemon.data_dir.glob("state.db-*"):
        beside.unlink()
    path.write_bytes(b"this is no database" * 1000)
    daemon.start(wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(30) == 9
    assert "state.db" in daemon.log()
    assert path.read_bytes().startswith(b"this is no database")


# V5: the clock

SHIFT = """
import os, time
_real = time.time_ns
def _shifted():
    try:
        with open(os.environ["SHIFT_FILE"]) as file:
            return _real() + int(file.read() or 0)
    except OSError:
        return _real()
time.time_ns = _shifted
"""


def test_V5_a_clock_that_is_set_back_changes_no_order(daemon_factory: Callable[..., DaemonFixture]) -> None:
    daemon = daemon_factory(start=False)
    shim = daemon.directory / "shim"
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(SHIFT)
    shift = daemon.directory / "shift"
    daemon.env["SHIFT_FILE"] = str(shift)
    daemon.env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(shim), daemon.env.get("PYTHONPATH", "")]))
    project = daemon.projects / "project"
    put(project, b"file", b"0\n")
    daemon.start()
    daemon.add(project)
    hour = 3600 * 10**9
    made = []
    for number, offset in enumerate((0, -2 * hour, -2 * hour, -48 * hour, 0, 5 * hour, -1 * hour), 1):
        shift.write_text(str(offset))
        put(project, b"file", b"%d\n" % number)
        made.append(take(daemon, project))
        if number in (3, 5):
            daemon.restart()
    times = [item["timestamp"] for item in made]
    assert times == sorted(times)
    assert len(set(times)) == len(times)
    assert [item["ordinal"] for item in made] == sorted(item["ordinal"] for item in made)
    listed = [item["id"] for item in daemon.call("checkpoint.list", project=project)["checkpoints"]]
    assert [name for name in reversed(listed) if name in {item["id"] for item in made}] == [item["id"] for item in made]
    moments = [(row[0]) for row in rows(daemon, b"file")]
    assert moments == sorted(moments)
    for number, item in enumerate(made, 1):
        restore(daemon, project, item["id"])
        assert (project / "file").read_bytes() == b"%d\n" % number
    assert_stored(daemon, project)
    assert daemon.call("store.verify")["clean"]


def test_a_subscriber_that_is_gone_is_forgotten(daemon: DaemonFixture, project: Path) -> None:
    def sockets() -> int:
        return Path("/proc/net/unix").read_text().count(f" {daemon.socket}\n")

    daemon.call("project.add", project=project)
    before = sockets()
    staying = daemon.connect(10)
    staying.call("events.subscribe", topics=["checkpoint"])
    staying.write_no_more()
    for topics in (["checkpoint"], ["capture"], []) * 5:
        with daemon.connect(10) as leaving:
            leaving.call("events.subscribe", topics=topics)
    daemon.until(lambda: sockets() == before + 1, what="connections of subscribers are left")
    made = take(daemon, project)
    event = staying.read()
    assert (event["params"]["topic"], event["params"]["id"]) == ("checkpoint", made["id"])
    staying.close()
    daemon.until(lambda: take(daemon, project) and sockets() == before, what="half a connection is left")
