"""Checkpoints and restores end to end: a real daemon, real trees, through the socket. Names are those of the cases."""

from __future__ import annotations

import base64
import os
import random
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError, in_parallel
from support.trees import ODD_NAMES, assert_tree, make_odd_tree, make_tree, put, snapshot


def take(daemon: DaemonFixture, project: Path, text: str = "") -> dict[str, Any]:
    """A checkpoint by hand."""
    made: dict[str, Any] = daemon.call("checkpoint.create", project=project, description=text)["checkpoint"]
    return made


def restore(daemon: DaemonFixture, project: Path, name: str, **options: Any) -> dict[str, Any]:
    return daemon.call("checkpoint.restore", project=project, id=name, confirmed=True, **options)


def listed(daemon: DaemonFixture, project: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.call("checkpoint.list", project=project)["checkpoints"]
    return found


def test_R1_every_checkpoint_is_a_complete_tree(daemon: DaemonFixture, project: Path) -> None:
    for number in range(10):
        put(project, b"f%d" % number, b"first %d\n" % number)
    daemon.add(project)
    first = take(daemon, project)
    one = snapshot(project)
    put(project, b"f3", b"second 3\n")
    second = take(daemon, project)
    two = snapshot(project)
    assert second["metadata"]["file_changes"] == 1
    assert len(daemon.call("checkpoint.show", project=project, id=second["id"])["files"]) == 10
    for path in list(one):
        os.unlink(os.path.join(os.fsencode(project), path))
    restore(daemon, project, second["id"])
    assert_tree(project, two)
    restore(daemon, project, first["id"])
    assert_tree(project, one)


@pytest.mark.disk
def test_R2_bytes_and_modes_come_back_exactly(daemon: DaemonFixture, project: Path) -> None:
    make_odd_tree(project)
    put(project, b"large", random.Random(1).randbytes(3 << 20))
    for mode in (0o600, 0o755, 0o444, 0o400, 0o777):
        put(project, b"mode%o" % mode, b"mode\n", mode)
    daemon.add(project)
    made = take(daemon, project)
    before = snapshot(project)
    assert made["complete"]
    for path, (kind, _, _) in sorted(before.items(), reverse=True):
        place = os.path.join(os.fsencode(project), path)
        if kind == "file":
            os.chmod(place, 0o644)
            with open(place, "wb") as stream:
                stream.write(b"overwritten")
    restore(daemon, project, made["id"])
    assert_tree(project, before)


def test_R2_what_was_deleted_comes_back_exactly(daemon: DaemonFixture, project: Path) -> None:
    make_odd_tree(project)
    daemon.add(project)
    made = take(daemon, project)
    before = snapshot(project)
    subprocess.run(["find", str(project), "-mindepth", "1", "-delete"], check=True)
    restore(daemon, project, made["id"])
    assert_tree(project, before)


def test_R3_what_was_ignored_meanwhile_is_kept(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"code.py", b"code\n")
    daemon.add(project)
    made = take(daemon, project)
    put(project, b".gitignore", b"data/\n")
    put(project, b"data/precious", b"never captured\n")
    put(project, b"code.py", b"other code\n")
    done = restore(daemon, project, made["id"])
    assert (project / "data/precious").read_bytes() == b"never captured\n"
    assert (project / "code.py").read_bytes() == b"code\n"
    assert not (project / ".gitignore").exists()
    assert not any(item["path"].startswith("data") for item in _paths(done["plan"]["delete"]))


def test_R3_what_was_captured_before_it_was_ignored_is_kept(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"code.py", b"code\n")
    daemon.add(project)
    made = take(daemon, project)
    put(project, b"data/one", b"captured\n")
    daemon.call("watch.sync", project=project)
    put(project, b".gitignore", b"data/\n")
    put(project, b"data/two", b"never captured\n")
    done = daemon.client("restore", made["id"], "--yes", "--project", str(project))
    assert (project / "data/two").read_bytes() == b"never captured\n"
    assert "\n  kept data: " in done.stdout, "what stays is named"


@pytest.mark.disk
def test_R5_a_hard_link_to_an_outside_file_is_broken_not_written_through(daemon: DaemonFixture, project: Path) -> None:
    outside = daemon.directory / "package-store"
    outside.write_bytes(b"as shipped\n")
    os.link(outside, project / "linked")
    daemon.add(project)
    made = take(daemon, project)
    (project / "linked").unlink()
    outside_too = daemon.directory / "other-version"
    outside_too.write_bytes(b"another version\n")
    os.link(outside_too, project / "linked")
    inode = outside_too.stat().st_ino
    restore(daemon, project, made["id"])
    assert (project / "linked").read_bytes() == b"as shipped\n"
    assert (project / "linked").stat().st_ino != inode
    assert outside_too.read_bytes() == b"another version\n"
    assert outside.read_bytes() == b"as shipped\n"


def test_R6_a_missing_project_gives_no_checkpoint(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"a\n")
    daemon.add(project)
    made = take(daemon, project)
    project.rename(project.with_name("elsewhere"))
    with pytest.raises(RpcError) as caught:
        take(daemon, project)
    assert caught.value.number == -32000
    assert caught.value.code
    project.with_name("elsewhere").rename(project)
    daemon.until(lambda: _state(daemon, project) == "watching")
    assert [item["id"] for item in listed(daemon, project) if item["trigger"] == "manual"] == [made["id"]]
    assert_tree(project, {b"a": snapshot(project)[b"a"]})


def test_R6_an_unreadable_directory_makes_it_incomplete_and_is_kept(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"a\n")
    put(project, b"locked/secret", b"secret\n")
    os.chmod(project / "locked", 0)
    try:
        daemon.add(project)
        made = take(daemon, project)
        assert not made["complete"]
        assert any(item["path"].startswith("locked") for item in made["incomplete_paths"])
        put(project, b"a", b"changed\n")
        restore(daemon, project, made["id"])
    finally:
        os.chmod(project / "locked", 0o755)
    assert (project / "a").read_bytes() == b"a\n"
    assert (project / "locked/secret").read_bytes() == b"secret\n"


def test_R6_an_unreadable_file_is_never_restored_as_empty(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"readable", b"a\n")
    put(project, b"unreadable", b"bytes\n", 0)
    daemon.add(project)
    made = take(daemon, project)
    assert [item["path"] for item in made["incomplete_paths"]] == ["unreadable"]
    restore(daemon, project, made["id"])
    assert (project / "unreadable").read_bytes() == b"bytes\n"
    said = daemon.client("checkpoint", "--project", str(project), "-m", "incomplete")
    assert said.returncode == 3
    assert "unreadable" in said.stdout + said.stderr


def test_R7_a_deletion_is_a_fact_and_the_short_lived_is_no_trouble(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"kept", b"kept\n")
    put(project, b"gone", b"gone\n")
    daemon.add(project)
    first = take(daemon, project)
    (project / "gone").unlink()
    put(project, b"short", b"lived\n")
    daemon.call("watch.sync", project=project)
    (project / "short").unlink()
    second = take(daemon, project)
    assert second["metadata"]["deleted"] == 1
    diff = daemon.call("checkpoint.diff", project=project, **{"from": first["id"], "to": second["id"]})
    assert [item["path"] for item in diff["deleted_files"]] == ["gone"]
    assert diff["added_files"] == diff["modified_files"] == []
    after = snapshot(project)
    restore(daemon, project, first["id"])
    assert (project / "gone").read_bytes() == b"gone\n"
    restore(daemon, project, second["id"])
    assert_tree(project, after)


def test_R9_undo_and_redo_of_a_restore(daemon: DaemonFixture, project: Path) -> None:
    make_odd_tree(project)
    daemon.add(project)
    first = take(daemon, project)
    one = snapshot(project)
    put(project, b"a/b.txt", b"the second state\n")
    take(daemon, project)
    put(project, b"a/b.txt", b"by hand, in no checkpoint\n")
    put(project, b"by hand", b"new\n")
    (project / "link").unlink()
    three = snapshot(project)
    done = restore(daemon, project, first["id"])
    assert_tree(project, one)
    daemon.call("operation.undo", project=project, confirmed=True)
    assert_tree(project, three)
    daemon.call("operation.redo", project=project, confirmed=True)
    assert_tree(project, one)
    daemon.call("operation.undo", project=project, confirmed=True)
    assert_tree(project, three)
    before = next(item for item in listed(daemon, project) if item["id"] == done["pre_restore_checkpoint_id"])
    assert before["trigger"] == "pre_restore"
    restore(daemon, project, before["id"])
    assert_tree(project, three)


def test_R9_undo_keeps_what_was_changed_since(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"one\n")
    put(project, b"b", b"one\n")
    daemon.add(project)
    first = take(daemon, project)
    put(project, b"a", b"two\n")
    put(project, b"b", b"two\n")
    restore(daemon, project, first["id"])
    put(project, b"b", b"by hand since\n")
    said = daemon.client("undo", "--project", str(project), "--yes")
    assert said.returncode == 3, said.stderr
    assert (project / "a").read_bytes() == b"two\n"
    assert (project / "b").read_bytes() == b"by hand since\n"


def test_nothing_to_undo_is_not_found(daemon: DaemonFixture, project: Path) -> None:
    daemon.add(project)
    said = daemon.client("undo", "--project", str(project), "--yes")
    assert said.returncode == 5
    assert said.stdout == ""


def _as_file(root: Path) -> None:
    put(root, b"x", b"a file\n")


def _as_directory(root: Path) -> None:
    put(root, b"x/inside", b"inside\n", 0o600)


def _as_empty_directory(root: Path) -> None:
    (root / "x").mkdir(mode=0o750)


def _as_link(root: Path) -> None:
    (root / "x").symlink_to("elsewhere")


def _as_nothing(root: Path) -> None:
    assert not os.path.lexists(root / "x")


SHAPES = [_as_file, _as_directory, _as_empty_directory, _as_link, _as_nothing]


@pytest.mark.disk
def test_R11_one_name_as_every_kind(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"beside", b"untouched\n")
    daemon.add(project)
    states = []
    for shape in SHAPES:
        subprocess.run(["rm", "-rf", str(project / "x")], check=True)
        shape(project)
        states.append((take(daemon, project)["id"], snapshot(project)))
    for first in range(len(states)):
        for second in range(len(states)):
            restore(daemon, project, states[first][0])
            assert_tree(project, states[first][1])
            restore(daemon, project, states[second][0])
            assert_tree(project, states[second][1])


@pytest.mark.disk
@pytest.mark.parametrize(("old", "new"), [("Name", "name"), ("caf\u00e9", "cafe\u0301")])
def test_R11_a_rename_by_case_or_by_normal_form(daemon: DaemonFixture, project: Path, old: str, new: str) -> None:
    put(project, old.encode(), b"one\n")
    daemon.add(project)
    first = take(daemon, project)
    (project / old).rename(project / new)
    second = take(daemon, project)
    restore(daemon, project, first["id"])
    assert os.listdir(os.fsencode(project)) == [old.encode()]
    restore(daemon, project, second["id"])
    assert os.listdir(os.fsencode(project)) == [new.encode()]


@pytest.mark.disk
def test_R12_odd_names_are_all_distinct(daemon: DaemonFixture, project: Path) -> None:
    make_odd_tree(project)
    daemon.add(project)
    made = take(daemon, project)
    before = snapshot(project)
    files = daemon.call("checkpoint.show", project=project, id=made["id"])["files"]
    shown = {_bytes(item, "file_path"): item for item in files}
    assert {path for path, (kind, _, _) in before.items() if kind == "file"} <= shown.keys()
    for path, (kind, mode, value) in before.items():
        if kind == "file":
            assert (shown[path]["hash"], shown[path]["permissions"]) == (value.hex(), mode), path
    for number, name in enumerate(ODD_NAMES):
        put(project, name, b"changed %d\n" % number)
    restore(daemon, project, made["id"])
    assert_tree(project, before)


def test_R12_single_odd_paths_can_be_restored(daemon: DaemonFixture, project: Path) -> None:
    names = ["-rf", "trail ", "new\nline", "a\\b.txt", "é"]
    for name in names:
        put(project, name.encode(), b"one\n")
    daemon.add(project)
    made = take(daemon, project)
    for name in names:
        (project / name).write_bytes(b"two\n")
    for number, name in enumerate(names):
        restore(daemon, project, made["id"], paths=[name])
        contents = sorted((project / each).read_bytes() for each in names)
        assert contents == sorted([b"one\n"] * (number + 1) + [b"two\n"] * (len(names) - number - 1))


@pytest.mark.disk
def test_R13_what_did_not_change_is_not_touched(daemon: DaemonFixture, project: Path) -> None:
    modes = (0o644, 0o600, 0o755, 0o444, 0o711)
    for number in range(100):
        put(project, b"d%d/f%d" % (number % 7, number), b"content %d\n" % number, modes[number % len(modes)])
        os.utime(project / f"d{number % 7}/f{number}", ns=(10**18 + number, 10**18 + number * 1000))
    (project / "empty").mkdir(mode=0o711)
    daemon.add(project)
    made = take(daemon, project)

    def states() -> dict[str, tuple[int, int, int]]:
        found = {}
        for path in sorted(project.rglob("*")):
            state = path.lstat()
            if path.name != "f42":
                found[str(path)] = (state.st_ino, state.st_mode, 0 if path.is_dir() else state.st_mtime_ns)
        return found

    before, tree = states(), snapshot(project)
    put(project, b"d0/f42", b"changed\n")
    (project / "empty").rmdir()
    put(project, b"extra/file", b"extra\n")
    done = restore(daemon, project, made["id"])
    assert_tree(project, tree)
    after = states()
    del before[str(project / "empty")], after[str(project / "empty")]
    assert after == before
    assert [item["path"] for item in _paths(done["plan"]["write"])] == ["d0/f42"]


def test_R14_the_current_pointer_outlives_a_restart(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"one\n")
    daemon.add(project)
    first = take(daemon, project)
    put(project, b"a", b"two\n")
    second = take(daemon, project)
    assert second["parent_checkpoint_id"] == first["id"]
    restore(daemon, project, first["id"])
    daemon.restart()
    put(project, b"a", b"three\n")
    assert take(daemon, project)["parent_checkpoint_id"] == first["id"]


def test_R14_the_current_pointer_outlives_a_kill(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"one\n")
    daemon.add(project)
    first = take(daemon, project)
    put(project, b"a", b"two\n")
    take(daemon, project)
    restore(daemon, project, first["id"])
    daemon.restart(kill=True)
    assert take(daemon, project)["parent_checkpoint_id"] == first["id"]


def test_R18_four_clients_make_ten_checkpoints_each(daemon: DaemonFixture, project: Path) -> None:
    make_tree(project, 50, random.Random(1))
    daemon.add(project)

    def client(number: int) -> list[str]:
        ids = []
        with daemon.connect() as connection:
            for turn in range(10):
                put(project, b"client%d" % number, b"turn %d\n" % turn)
                made = connection.call("checkpoint.create", project=str(project), description=f"{number}/{turn}")
                ids.append(made["checkpoint"]["id"])
        return ids

    made = [identity for ids in in_parallel(4, client) for identity in ids]
    found = {item["id"]: item for item in listed(daemon, project)}
    manual = [item for item in found.values() if item["trigger"] == "manual"]
    assert len(set(made)) == 40
    assert {item["id"] for item in manual} == set(made)
    assert len({item["ordinal"] for item in found.values()}) == len(found)
    assert len({item["parent_checkpoint_id"] for item in manual}) == 40, "one line: nobody's parent is taken twice"
    for turn in range(10):
        for number in range(4):
            item = next(item for item in manual if item["description"] == f"{number}/{turn}")
            restore(daemon, project, item["id"], paths=[f"client{number}"])
            assert (project / f"client{number}").read_bytes() == b"turn %d\n" % turn


def test_R18_a_second_daemon_refuses_and_leaves_the_socket_alone(daemon: DaemonFixture) -> None:
    inode = daemon.socket.stat().st_ino
    second = subprocess.run(daemon.command(), env=daemon.env, capture_output=True, timeout=30, check=False)
    assert second.returncode == 75
    assert b"Traceback" not in second.stderr
    assert daemon.socket.stat().st_ino == inode
    assert daemon.call("hello", client="tests", protocol=[1])["protocol"] == 1


def test_R18_of_two_daemons_started_at_once_one_serves(daemon_factory: Callable[..., DaemonFixture]) -> None:
    daemon = daemon_factory(start=False)
    daemon.start(wait=False)
    second = subprocess.Popen(daemon.command(), env=daemon.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    first = daemon.process
    assert first is not None
    try:
        daemon.until(lambda: 75 in (first.poll(), second.poll()), what="neither daemon refuses")
        living = second if first.poll() == 75 else first
        daemon.process = living
        daemon.until(daemon.answers, what="the other one does not answer")
        assert living.poll() is None
    finally:
        if daemon.process is not second:
            second.kill()
            second.wait()


def _state(daemon: DaemonFixture, project: Path) -> str:
    projects = daemon.call("daemon.status")["projects"]
    return str(next(item["state"] for item in projects if item["path"] == str(project)))


def _paths(items: list[Any]) -> list[dict[str, Any]]:
    """Plans list paths as text or as objects with `path`."""
    return [item if isinstance(item, dict) else {"path": item} for item in items]


def _bytes(item: dict[str, Any], key: str) -> bytes:
    coded = item.get(f"{key}_b64") or item.get("path_b64")
    return base64.b64decode(coded) if coded else item[key].encode()


@pytest.mark.parametrize("point", ["", "restore.before_done", "restore.before_done_commit"])
def test_R8_the_rows_of_a_big_restore_are_made_once(daemon: DaemonFixture, project: Path, point: str) -> None:
    """Most of them go ahead of the operation's end; whoever finishes it after a kill finds them made."""
    for number in range(2500):
        put(project, b"d%d/f%d" % (number % 7, number), b"old %d" % number)
    daemon.add(project)
    first, wanted = take(daemon, project), snapshot(project)
    for number in range(2500):
        put(project, b"d%d/f%d" % (number % 7, number), b"new %d" % number)
    second, before = take(daemon, project), snapshot(project)
    if point:
        daemon.stop()
        daemon.arm(f"{point}=kill")
        daemon.start()
        with pytest.raises((OSError, RpcError, EOFError)):
            restore(daemon, project, first["id"])
        assert daemon.faults_hit() == [point]
        daemon.arm("")
        daemon.restart(kill=True)
    else:
        assert restore(daemon, project, first["id"])["verified"]
    assert_tree(project, wanted)
    found = daemon.call("checkpoint.diff", project=project, **{"from": second["id"]})
    assert len(found["modified_files"]) == 2500
    with closing(sqlite3.connect(daemon.data_dir / "catalogue.db")) as catalogue:
        query = "select count(*) from row where kind = 1 and seq > (select seq from checkpoint where id = ?)"
        (made,) = catalogue.execute(query, (second["id"],)).fetchone()
    assert made == 2500
    daemon.call("operation.undo", project=project, confirmed=True)
    assert_tree(project, before)
