"""What is watched: roots that come, go and are replaced, limits of the system, what is left out."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mulligan.restore.exchange import exchange
from support.daemon import DaemonFixture, RpcError, stopped
from support.stored import assert_stored, restore, rows, status, take, tree_of
from support.trees import assert_tree, put, snapshot

pytestmark = pytest.mark.disk

AT_FDCWD = -100


def swap(one: Path, other: Path) -> None:
    """Exchange two names in one step."""
    exchange(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other))


# W4: the root itself


def watching(daemon: DaemonFixture, project: Path) -> bool:
    return bool(status(daemon, project)["state"] == "watching")


def missing(daemon: DaemonFixture, project: Path) -> bool:
    return bool(status(daemon, project)["state"] == "missing")


def fill(project: Path) -> None:
    put(project, b"at the top", b"at the top\n")
    for number in range(12):
        put(project, b"d%d/f%d" % (number % 3, number), b"content %d\n" % number)


@pytest.mark.parametrize("seen_missing", [False, True])
def test_W4_the_root_deleted_and_made_again_is_another_one(
    daemon: DaemonFixture, project: Path, seen_missing: bool
) -> None:
    fill(project)
    daemon.add(project)
    made, tree = take(daemon, project), snapshot(project)
    with stopped(daemon):
        shutil.rmtree(project)
        if not seen_missing:
            project.mkdir()
            put(project, b"fresh", b"fresh\n")
    if seen_missing:
        daemon.until(lambda: missing(daemon, project))
        with pytest.raises(RpcError):
            take(daemon, project)
        project.mkdir()
        put(project, b"fresh", b"fresh\n")
    daemon.until(lambda: watching(daemon, project))
    later = assert_stored(daemon, project)
    assert later["metadata"]["deleted"] == 0, "that the root was replaced is no deletion"
    assert later["complete"]
    restore(daemon, project, made["id"], paths=["d0", "d1", "d2", "at the top"])
    assert_tree(project, {**tree, b"fresh": snapshot(project)[b"fresh"]})
    restore(daemon, project, later["id"])
    assert_tree(project, {**tree, b"fresh": snapshot(project)[b"fresh"]})
    assert status(daemon, project)["gaps"][-1]["reason"] == "another root"


def test_W4_the_root_replaced_while_the_daemon_was_stopped(daemon: DaemonFixture, project: Path) -> None:
    fill(project)
    daemon.add(project)
    take(daemon, project)
    assert daemon.stop() == 0
    shutil.rmtree(project)
    project.mkdir()
    daemon.start()
    daemon.until(lambda: watching(daemon, project))
    later = take(daemon, project)
    assert later["metadata"]["deleted"] == 0


def test_W4_the_root_renamed_away_and_back(daemon: DaemonFixture, project: Path) -> None:
    fill(project)
    daemon.add(project)
    made, tree = take(daemon, project), snapshot(project)
    away = project.with_name("away")
    project.rename(away)
    daemon.until(lambda: missing(daemon, project))
    put(away, b"d0/f0", b"changed while away\n")
    with pytest.raises(RpcError):
        take(daemon, project)
    away.rename(project)
    daemon.until(lambda: watching(daemon, project))
    later = assert_stored(daemon, project)
    assert later["metadata"]["deleted"] == 0
    assert status(daemon, project)["gaps"]
    restore(daemon, project, made["id"])
    assert_tree(project, tree)
    put(project, b"d0/f0", b"not deaf\n")
    assert_stored(daemon, project)


def test_W4_the_root_moved_away_and_back_before_anybody_looked_is_the_same(
    daemon: DaemonFixture, project: Path
) -> None:
    fill(project)
    daemon.add(project)
    take(daemon, project)
    away = project.with_name("away")
    with stopped(daemon):
        project.rename(away)
        put(away, b"d0/f0", b"changed while away\n")
        away.rename(project)
    daemon.until(lambda: watching(daemon, project) and status(daemon, project)["gaps"])
    assert [gap["reason"] for gap in status(daemon, project)["gaps"]] == ["away"]
    later = assert_stored(daemon, project)
    assert (later["metadata"]["file_changes"], later["metadata"]["deleted"]) == (1, 0)
    put(project, b"d0/f1", b"not deaf\n")
    assert_stored(daemon, project)


def test_W4_another_directory_in_the_roots_place_and_the_old_one_back(daemon: DaemonFixture, project: Path) -> None:
    """As an unmounted volume: an empty directory stands there for a while."""
    fill(project)
    daemon.add(project)
    made, tree = take(daemon, project), snapshot(project)
    other = project.with_name("other")
    other.mkdir()
    swap(project, other)
    empty = take(daemon, project)
    assert empty["metadata"]["deleted"] == 0
    assert empty["metadata"]["snapshot_size"] == 0
    swap(project, other)
    assert_stored(daemon, project)
    done = restore(daemon, project, empty["id"])
    assert_tree(project, tree)
    assert done["plan"]["delete"] == []
    (project / "d0/f0").unlink()
    assert_stored(daemon, project)
    restore(daemon, project, made["id"])
    assert_tree(project, tree)


def test_W4_a_root_that_may_not_be_read_pauses_and_deletes_nothing(daemon: DaemonFixture, project: Path) -> None:
    fill(project)
    daemon.add(project)
    made, tree = take(daemon, project), snapshot(project)
    os.chmod(project, 0)
    try:
        with pytest.raises(RpcError) as caught:
            take(daemon, project)
        assert caught.value.code
    finally:
        os.chmod(project, 0o755)
    daemon.until(lambda: watching(daemon, project))
    later = daemon.until(lambda: _taken(daemon, project))
    assert (later["metadata"]["file_changes"], later["complete"]) == (0, True)
    put(project, b"d0/f0", b"changed\n")
    restore(daemon, project, made["id"])
    assert_tree(project, tree)


def _taken(daemon: DaemonFixture, project: Path) -> dict[str, Any] | None:
    try:
        return take(daemon, project)
    except RpcError:
        return None


# W5: limits of the system


class LimitedDaemon(DaemonFixture):
    """A daemon in a user namespace of its own, with a lower limit."""

    limit = ("max_inotify_watches", 25)

    def command(self, *words: str) -> list[str]:
        script = f'echo {self.limit[1]} > /proc/sys/user/{self.limit[0]} && exec "$@"'
        return ["unshare", "-Ur", "sh", "-c", script, "sh", *super().command(*words)]


def limited(name: str, value: int) -> LimitedDaemon:
    tried = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", f"echo {value} > /proc/sys/user/{name}"], capture_output=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"no user namespace with limits here: {tried.stderr.decode()[-100:].strip()}")
    made = LimitedDaemon()
    made.limit = (name, value)
    return made


@pytest.mark.parametrize(
    ("name", "value", "sysctl"),
    [
        ("max_inotify_watches", 25, "fs.inotify.max_user_watches"),
        ("max_inotify_instances", 0, "fs.inotify.max_user_instances"),
    ],
)
def test_W5_what_cannot_be_watched_is_scanned_and_said(name: str, value: int, sysctl: str) -> None:
    daemon = limited(name, value)
    try:
        project = daemon.projects / "project"
        for number in range(40):
            put(project, b"d%d/file" % number, b"%d\n" % number)
        daemon.start()
        daemon.add(project)
        assert sysctl in status(daemon, project)["watch_limit"]
        warnings = daemon.call("daemon.status")["warnings"]
        assert any(sysctl in warning for warning in warnings)
        for number in range(40):
            put(project, b"d%d/file" % number, b"changed %d\n" % number)
        assert_stored(daemon, project)
        for number in range(39):
            put(project, b"d%d/file" % number, b"found by the scan %d\n" % number)
        (project / "d39/file").unlink()

        def found() -> bool:
            last = [rows(daemon, b"d%d/file" % number)[-1][1:3] for number in range(40)]
            wanted = [(1, _sha(b"found by the scan %d\n" % number)) for number in range(39)]
            return last == [*wanted, (0, b"")]

        daemon.until(found, 30, "nobody scans")
    finally:
        daemon.close()


def _sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


# W6: what should not be watched, and what must not feed on itself


def test_W6_home_root_and_the_store_are_refused_with_the_reason(daemon: DaemonFixture) -> None:
    inside, state, runtime = (
        place / "tree" for place in (daemon.data_dir, daemon.state_dir, daemon.directory / "run" / "mulligan")
    )
    for place in (inside, state, runtime):
        place.mkdir(parents=True)
    reasons = {
        "/": "home",
        str(daemon.home): "home",
        str(daemon.directory): "home",
        str(daemon.data_dir): "store",
        str(inside): "store",
        str(daemon.state_dir): "lies in mulligan's own state directory",
        str(state): "lies in mulligan's own state directory",
        str(runtime): "lies in mulligan's own runtime directory",
        str(daemon.socket.parent): "holds mulligan's own runtime directory",
    }
    for path, reason in reasons.items():
        with pytest.raises(RpcError) as caught:
            daemon.call("project.add", project=path)
        assert caught.value.code == "refused"
        assert reason in str(caught.value), path
        assert caught.value.hint
        said = daemon.client("project", "add", path)
        assert said.returncode == 4, said.stderr
        assert reason in said.stderr
    assert daemon.call("daemon.status")["projects"] == []


OWN = {
    "MULLIGAN_DATA_DIR": ("data", "holds mulligan's own store"),
    "MULLIGAN_STATE_DIR": ("state", "holds mulligan's own state directory"),
    "MULLIGAN_STATE_DB": ("settings.db", "holds mulligan's own settings"),
    "XDG_RUNTIME_DIR": ("run", "holds mulligan's own runtime directory"),
}


@pytest.mark.parametrize("variable", OWN)
def test_W6_a_tree_that_holds_what_is_mulligans_is_refused(
    daemon_factory: Callable[..., DaemonFixture], variable: str
) -> None:
    daemon = daemon_factory(start=False)
    project = daemon.projects / "project"
    project.mkdir()
    name, reason = OWN[variable]
    daemon.env[variable] = str(project / name)
    daemon.start()
    with pytest.raises(RpcError) as caught:
        daemon.call("project.add", project=project)
    assert caught.value.code == "refused"
    assert reason in str(caught.value)


def test_W6_what_is_mulligans_comes_into_a_tree_that_was_watched(daemon: DaemonFixture, project: Path) -> None:
    daemon.add(project)
    daemon.stop()
    daemon.env["MULLIGAN_STATE_DIR"] = str(project / "state")
    daemon.start()
    assert daemon.call("daemon.status")["projects"] == []
    assert f"{project} is not watched: it holds mulligan's own state directory" in daemon.log()


def test_W6_a_nested_project_is_a_boundary(daemon: DaemonFixture, project: Path) -> None:
    inner = project / "inner"
    put(project, b"outer", b"outer\n")
    put(inner, b"file", b"inner\n")
    daemon.add(project)
    before = assert_stored(daemon, project)
    daemon.add(inner)
    assert_stored(daemon, project, b"inner")
    assert_stored(daemon, inner)
    put(inner, b"file", b"changed\n")
    put(project, b"outer", b"changed\n")
    assert assert_stored(daemon, project, b"inner")["metadata"]["file_changes"] == 1
    assert assert_stored(daemon, inner)["metadata"]["file_changes"] == 1
    restore(daemon, project, before["id"])
    assert (project / "outer").read_bytes() == b"outer\n"
    assert (inner / "file").read_bytes() == b"changed\n", "it belongs to another project now"
    daemon.restart()
    daemon.until(lambda: watching(daemon, project) and watching(daemon, inner))
    put(inner, b"new", b"new\n")
    assert_stored(daemon, project, b"inner")
    assert_stored(daemon, inner)
    assert not any(path.startswith(b"inner") for path in tree_of(daemon, project, "latest"))
    bounded = take(daemon, project)
    daemon.call("project.remove", project=inner)
    assert_stored(daemon, project)
    restore(daemon, project, bounded["id"])
    assert (inner / "new").read_bytes() == b"new\n", "unknown then: kept"
    restore(daemon, project, before["id"])
    assert (inner / "file").read_bytes() == b"inner\n"


def test_W6_a_project_inside_that_was_there_first_is_unknown_to_the_one_around_it(
    daemon: DaemonFixture, project: Path
) -> None:
    inner = project / "deep/inner"
    put(project, b"outer", b"outer\n")
    put(inner, b"d/file", b"inner\n")
    daemon.add(inner)
    daemon.add(project)
    bounded = take(daemon, project)
    assert set(tree_of(daemon, project, bounded["id"])) == {b"outer", b"deep"}
    put(project, b"outer", b"changed\n")
    daemon.call("project.remove", project=inner)
    assert_stored(daemon, project)
    done = restore(daemon, project, bounded["id"])
    assert (inner / "d/file").read_bytes() == b"inner\n"
    assert (project / "outer").read_bytes() == b"outer\n"
    assert done["plan"]["delete"] == done["plan"]["rmdir"] == []


def test_W6_a_sparse_file_of_50_gigabytes_is_left_out_and_listed(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"code", b"code\n")
    os.truncate(_created(project / "huge"), 50 << 30)
    daemon.add(project)
    made = take(daemon, project)
    assert [(item["path"], "large" in item["reason"]) for item in made["incomplete_paths"]] == [("huge", True)]
    assert str(50 << 30) in made["incomplete_paths"][0]["reason"]
    put(project, b"code", b"changed\n")
    done = restore(daemon, project, made["id"])
    assert (project / "huge").stat().st_size == 50 << 30
    assert (project / "code").read_bytes() == b"code\n"
    assert done["plan"]["delete"] == []


def _created(path: Path) -> Path:
    path.touch()
    return path


def test_W6_many_files_in_an_ignored_directory_cost_nothing(daemon: DaemonFixture, project: Path) -> None:
    put(project, b".gitignore", b"cache/\n")
    put(project, b"code", b"code\n")
    for number in range(40_000):
        if number % 1000 == 0:
            os.makedirs(project / f"cache/d{number}")
        os.close(os.open(project / f"cache/d{number // 1000 * 1000}/f{number}", os.O_CREAT | os.O_WRONLY))
    found = daemon.add(project)
    assert (found["files"], found["watched"]) == (2, 1)
    put(project, b"cache/d0/f1", b"changed\n")
    assert_stored(daemon, project, b"cache")


def test_W6_idle_means_idle(daemon: DaemonFixture, project: Path) -> None:
    fill(project)
    daemon.add(project)
    assert_stored(daemon, project)

    def figures() -> tuple[int, int, int]:
        store, stats = daemon.call("daemon.status")["store"], daemon.call("daemon.stats")
        return store["objects"], stats["batches"], stats["events"]

    before = figures()
    threading.Event().wait(4)
    assert figures() == before
