"""Restores under hard conditions: damaged contents, hostile names, databases, what was unknown then."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mulligan.store.catalogue import Place
from mulligan.store.segments import RECORD_HEADER_SIZE, segment_path
from support.daemon import DaemonFixture, RpcError
from support.stored import assert_stored, reader, restore, status, take
from support.trees import assert_tree, put, snapshot


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def reasons(done: dict[str, Any]) -> dict[str, str]:
    """{path: why it was left as it is}."""
    found: dict[str, str] = done["plan"]["reasons"]
    return found


# R16, as far as it goes without retention


def test_R16_a_branched_timeline_stays_one_tree_and_every_node_restores(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"f", b"0\n")
    daemon.add(project)
    trees, parents, current = {}, {}, None
    for number in range(1, 9):
        if number % 3 == 0:
            current = sorted(trees, key=lambda name: trees[name])[number // 3 - 1]
            restore(daemon, project, current)
        put(project, b"f", b"%d\n" % number)
        made = take(daemon, project)
        trees[made["id"]], parents[made["id"]] = b"%d\n" % number, made["parent_checkpoint_id"]
        if current is not None:
            assert made["parent_checkpoint_id"] == current
        current = made["id"]
    known = {item["id"] for item in daemon.call("checkpoint.list", project=project)["checkpoints"]}
    assert all(parent in known for parent in parents.values())
    for name, data in trees.items():
        restore(daemon, project, name)
        assert (project / "f").read_bytes() == data
        assert daemon.call("checkpoint.list", project=project)["current_checkpoint_id"] == name


# R17: the store is damaged


def place_of(daemon: DaemonFixture, data: bytes) -> Place:
    catalogue = reader(daemon)
    try:
        found = catalogue.place(sha(data))
        assert found is not None
        return found
    finally:
        catalogue.close()


def flip(daemon: DaemonFixture, data: bytes) -> None:
    """Change one byte of a stored content."""
    place = place_of(daemon, data)
    with open(segment_path(str(daemon.data_dir / "content_pool"), place.segment), "r+b") as file:
        file.seek(place.offset + RECORD_HEADER_SIZE + place.stored // 2)
        old = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([old[0] ^ 0x40]))


def test_R17_a_damaged_content_stops_the_restore_before_anything_is_touched(
    daemon: DaemonFixture, project: Path
) -> None:
    precious = random.Random(1).randbytes(5000)
    put(project, b"precious", precious)
    put(project, b"fine", b"fine\n")
    put(project, b"later gone", b"gone\n")
    daemon.add(project)
    made = take(daemon, project)
    target = snapshot(project)
    put(project, b"precious", b"overwritten\n")
    put(project, b"fine", b"changed\n")
    (project / "later gone").unlink()
    take(daemon, project)
    before = snapshot(project)
    flip(daemon, precious)
    with pytest.raises(RpcError) as caught:
        restore(daemon, project, made["id"])
    assert caught.value.code == "integrity"
    assert "precious" in str(caught.value)
    assert_tree(project, before)
    said = daemon.client("restore", made["id"], "--yes", "--project", str(project))
    assert said.returncode == 9
    assert "precious" in said.stderr
    assert "--force" in said.stderr
    assert_tree(project, before)
    checked = daemon.client("verify")
    assert checked.returncode == 9
    assert "precious" in checked.stdout + checked.stderr
    forced = daemon.client("restore", made["id"], "--yes", "--force", "--project", str(project))
    assert forced.returncode == 3
    assert "precious" in forced.stdout + forced.stderr
    assert_tree(project, {**target, b"precious": before[b"precious"]})
    # the same content comes by again: it is whole afterwards
    put(project, b"found in a backup", precious)
    assert_stored(daemon, project)
    assert daemon.call("store.verify")["clean"]
    assert daemon.client("verify").returncode == 0
    restore(daemon, project, made["id"])
    assert_tree(project, target)


def test_R17_a_damaged_base_of_a_delta_is_found_and_named(daemon: DaemonFixture, project: Path) -> None:
    lines = [b"line %d of a file that is edited %d\n" % (number, number * 7919) for number in range(400)]
    first = b"".join(lines)
    put(project, b"edited", first)
    daemon.add(project)
    states = [(take(daemon, project), first)]
    for turn in range(3):
        lines[turn * 50] = b"edited in turn %d\n" % turn
        put(project, b"edited", b"".join(lines))
        states.append((take(daemon, project), b"".join(lines)))
    assert place_of(daemon, states[1][1]).base, "the versions are deltas of one another"
    flip(daemon, first)
    put(project, b"edited", b"something else\n")
    for made, _ in states:
        with pytest.raises(RpcError) as caught:
            restore(daemon, project, made["id"])
        assert caught.value.code == "integrity"
        assert (project / "edited").read_bytes() == b"something else\n"
    put(project, b"edited", first)
    assert_stored(daemon, project)
    for made, data in states:
        restore(daemon, project, made["id"])
        assert (project / "edited").read_bytes() == data


@pytest.mark.parametrize("how", ["truncated", "deleted"])
def test_R17_a_segment_of_a_baseline_is_gone(daemon: DaemonFixture, project: Path, how: str) -> None:
    rng = random.Random(2)
    for number in range(600):
        put(project, b"d%d/f%d" % (number % 20, number), rng.randbytes(300))
    daemon.add(project)
    made, target = take(daemon, project), snapshot(project)
    contents = {
        path: (project / os.fsdecode(path)).read_bytes() for path, entry in target.items() if entry[0] == "file"
    }
    put(project, b"log", b"in the log's own segment\n")
    second, with_log = take(daemon, project), snapshot(project)
    subprocess.run(["find", str(project), "-mindepth", "1", "-delete"], check=True)
    assert_stored(daemon, project)
    pool = daemon.data_dir / "content_pool"
    victims = {place_of(daemon, data).segment for data in contents.values()}
    assert place_of(daemon, b"in the log's own segment\n").segment not in victims
    assert daemon.stop() == 0
    for number in victims:
        path = Path(segment_path(str(pool), number))
        path.unlink() if how == "deleted" else os.truncate(path, path.stat().st_size // 2)
    daemon.start()
    daemon.until(lambda: status(daemon, project)["state"] == "watching")
    assert snapshot(project) == {}
    with pytest.raises(RpcError) as caught:
        restore(daemon, project, made["id"])
    assert caught.value.code == "integrity"
    assert snapshot(project) == {}
    report = daemon.call("store.verify")
    assert report["exit_status"] == 9
    lost = {item["path"].encode() for item in report["paths"]}
    assert (lost == contents.keys()) if how == "deleted" else (0 < len(lost) < len(contents))
    done = restore(daemon, project, second["id"], force=True)
    assert done["exit_status"] == 3
    assert {path.encode() for path in done["plan"]["skipped"]} == lost
    assert_tree(project, {path: entry for path, entry in with_log.items() if path not in lost})
    for path in lost:
        put(project, path, contents[path], target[path][1])
    assert_stored(daemon, project)
    assert daemon.call("store.verify")["clean"]
    restore(daemon, project, second["id"])
    assert_tree(project, with_log)


# R19: names from outside


@pytest.mark.parametrize(
    "name",
    ["../../x", "/etc/passwd", "..", "", "a/b", "zzzz", "x' or 1=1 --", "%", "*", "latest;", "@~99", "#0", "0", "\x00",
     "prompt:0", "prompt:1", "é" * 40, "a" * 5000],
)  # fmt: skip
def test_R19_an_id_that_is_none_is_rejected(daemon: DaemonFixture, project: Path, name: str) -> None:
    put(project, b"file", b"one\n")
    daemon.add(project)
    take(daemon, project)
    put(project, b"file", b"two\n")
    for method in ("checkpoint.restore", "checkpoint.show", "checkpoint.diff", "checkpoint.describe", "checkpoint.pin"):
        params: dict[str, Any] = {"project": project, "id": name}
        if method == "checkpoint.restore":
            params["confirmed"] = True
        if method == "checkpoint.diff":
            params = {"project": project, "from": name}
            if not name:
                continue  # nothing given means the current one
        if method == "checkpoint.describe":
            params["description"] = "x"
        with pytest.raises(RpcError) as caught:
            daemon.call(method, **params)
        assert caught.value.code in ("not_found", "usage"), (method, str(caught.value))
        assert len(str(caught.value)) < 500, "the message repeats no flood"
    assert (project / "file").read_bytes() == b"two\n"


def test_R19_paths_outside_of_the_project_are_rejected(daemon: DaemonFixture, project: Path) -> None:
    outside = daemon.directory / "outside"
    put(outside, b"file", b"outside\n")
    (project / "link").symlink_to(outside)
    put(project, b"file", b"inside\n")
    daemon.add(project)
    made = take(daemon, project)
    for path in ("../outside/file", str(outside / "file"), "/etc/passwd", "a/../../outside/file", "..", "a\0b"):
        with pytest.raises(RpcError) as caught:
            restore(daemon, project, made["id"], paths=[path])
        assert caught.value.code == "usage", path
    with pytest.raises(RpcError) as caught:
        restore(daemon, project, made["id"], paths_b64=["not base64!"])
    assert caught.value.code == "usage"
    (outside / "file").write_bytes(b"changed outside\n")
    restore(daemon, project, made["id"], paths=["link/file"])
    assert (outside / "file").read_bytes() == b"changed outside\n"
    for words in (["restore", made["id"], "../outside/file", "--yes"], ["restore", made["id"], "/etc/passwd", "--yes"]):
        said = daemon.client(*words, "--project", str(project))
        assert said.returncode == 2, said.stderr
        assert "outside" in said.stderr


# R20: what was unknown then is kept


@pytest.mark.parametrize("seen_between", [False, True])
def test_R20_from_before_a_directory_was_included_again(
    daemon: DaemonFixture, project: Path, seen_between: bool
) -> None:
    put(project, b".gitignore", b"data/\n")
    put(project, b"data/old", b"old\n")
    put(project, b"code", b"code\n")
    daemon.add(project)
    made = take(daemon, project)
    put(project, b".gitignore", b"# nothing\n")
    if seen_between:
        assert_stored(daemon, project)
    put(project, b"data/new", b"new\n")
    put(project, b"data/sub/new", b"new\n")
    put(project, b"data/old", b"changed\n")
    assert_stored(daemon, project)
    done = restore(daemon, project, made["id"])
    assert (project / ".gitignore").read_bytes() == b"data/\n"
    assert (project / "data/old").read_bytes() == b"changed\n"
    assert (project / "data/new").read_bytes() == b"new\n"
    assert (project / "data/sub/new").exists()
    kept = {"data/old", "data/new", "data/sub", "data/sub/new"}
    assert kept | {"data"} >= set(done["plan"]["kept"]) >= kept
    assert done["plan"]["delete"] == []


def test_R20_included_again_while_the_daemon_was_away(daemon: DaemonFixture, project: Path) -> None:
    put(project, b".gitignore", b"data/\n")
    put(project, b"data/old", b"old\n")
    daemon.add(project)
    made = take(daemon, project)
    assert daemon.stop() == 0
    (project / ".gitignore").unlink()
    daemon.start()
    daemon.until(lambda: status(daemon, project)["state"] == "watching")
    assert_stored(daemon, project)
    done = restore(daemon, project, made["id"])
    assert (project / "data/old").read_bytes() == b"old\n"
    assert done["plan"]["delete"] == []


@pytest.mark.parametrize("seen_between", [False, True])
def test_R20_over_what_could_not_be_read(daemon: DaemonFixture, project: Path, seen_between: bool) -> None:
    put(project, b"locked/inner/secret", b"secret\n")
    put(project, b"unreadable", b"bytes\n", 0)
    put(project, b"code", b"code\n")
    os.chmod(project / "locked", 0)
    daemon.add(project)
    made = take(daemon, project)
    assert not made["complete"]
    os.chmod(project / "locked", 0o755)
    os.chmod(project / "unreadable", 0o644)
    if seen_between:
        assert_stored(daemon, project)
    put(project, b"locked/inner/more", b"more\n")
    put(project, b"code", b"changed\n")
    assert assert_stored(daemon, project)["complete"]
    done = restore(daemon, project, made["id"])
    assert {"locked/inner/secret", "locked/inner/more", "unreadable"} <= set(done["plan"]["kept"])
    assert done["plan"]["delete"] == done["plan"]["rmdir"] == []
    assert (project / "code").read_bytes() == b"code\n"
    assert (project / "locked/inner/secret").read_bytes() == b"secret\n"
    assert (project / "locked/inner/more").read_bytes() == b"more\n"
    assert (project / "unreadable").read_bytes() == b"bytes\n"


def test_R20_over_what_was_too_large(daemon_factory: Callable[..., DaemonFixture]) -> None:
    daemon = daemon_factory(config="max_file_bytes: 1 KiB\n")
    project = daemon.projects / "project"
    put(project, b"big", b"x" * 2000)
    put(project, b"code", b"code\n")
    daemon.add(project)
    made = take(daemon, project)
    put(project, b"big", b"small\n")
    put(project, b"code", b"changed\n")
    done = restore(daemon, project, made["id"])
    assert (project / "big").read_bytes() == b"small\n"
    assert done["plan"]["kept"] == ["big"]
    assert "too large" in reasons(done)["big"]
    small = take(daemon, project)
    put(project, b"big", b"y" * 2000)
    restore(daemon, project, small["id"])
    assert (project / "big").read_bytes() == b"small\n"
    daemon.call("operation.undo", project=project, confirmed=True)
    assert (project / "big").read_bytes() == b"y" * 2000, "what was never captured is captured before it goes"


# R21: databases

SQLITE = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("pragma journal_mode = wal")
db.execute("pragma wal_autocheckpoint = 0")
db.execute("create table if not exists t (n int)")
db.execute("insert into t values (?)", (int(sys.argv[2]),))
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def database(path: Path, number: int) -> Iterator[subprocess.Popen[str]]:
    """A process that has a database in WAL mode open, with one more row in its log."""
    process = subprocess.Popen(
        [sys.executable, "-c", SQLITE, str(path), str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()  # as a crash: the log stays beside the database
        process.wait(20)
        process.stdin.close()
        process.stdout.close()


def numbers(path: Path, copy: Path) -> list[int]:
    """What a database holds; read from a copy, because opening it changes it."""
    for suffix in ("", "-wal"):
        source = path.with_name(path.name + suffix)
        copy.with_name(copy.name + suffix).write_bytes(source.read_bytes() if source.exists() else b"")
    connection = sqlite3.connect(copy)
    try:
        return [number for (number,) in connection.execute("select n from t order by n")]
    finally:
        connection.close()
        for suffix in ("", "-wal", "-shm"):
            copy.with_name(copy.name + suffix).unlink(missing_ok=True)


def test_R21_a_database_in_use_is_skipped_and_said_and_goes_as_one_later(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"code", b"one\n")
    daemon.add(project)
    path, copy = project / "app.db", daemon.directory / "copy.db"
    with database(path, 1):
        first = take(daemon, project)
    assert numbers(path, copy) == [1]
    with database(path, 2):
        second = take(daemon, project)
        put(project, b"code", b"two\n")
        done = restore(daemon, project, first["id"])
        assert done["exit_status"] == 3
        assert (project / "code").read_bytes() == b"one\n"
        assert "in use" in reasons(done).get("app.db-wal", reasons(done).get("app.db", ""))
        assert numbers(path, copy) == [1, 2]
    restore(daemon, project, first["id"])
    assert numbers(path, copy) == [1]
    restore(daemon, project, second["id"])
    assert numbers(path, copy) == [1, 2]
    (project / "app.db-wal").unlink()
    restore(daemon, project, first["id"])
    assert numbers(path, copy) == [1]


def test_R21_a_set_of_which_one_member_is_damaged_stays_whole(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"code", b"one\n")
    daemon.add(project)
    path, copy = project / "app.db", daemon.directory / "copy.db"
    with database(path, 1):
        first = take(daemon, project)
    log = path.with_name("app.db-wal").read_bytes()
    with database(path, 2) as process:
        take(daemon, project)
        connection = sqlite3.connect(path)
        connection.execute("pragma wal_checkpoint(truncate)")
        connection.close()
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
    take(daemon, project)
    before = numbers(path, copy)
    flip(daemon, log)
    done = restore(daemon, project, first["id"], force=True)
    assert done["exit_status"] == 3
    assert set(done["plan"]["skipped"]) >= {"app.db", "app.db-wal"}
    assert numbers(path, copy) == before, "no member of the set was changed alone"
