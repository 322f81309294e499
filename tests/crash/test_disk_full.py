"""A full disk: the reserve lets the last facts through, reading and restoring go on, and nothing is lost or forged.

Where a file system may be mounted the disk is really full; everywhere the fault points say so.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError
from support.trees import assert_tree, put, snapshot


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 100 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=100m", "none", str(place)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> Path:
    """Take all the room that is left, to the last block."""
    ballast = place / f"ballast{len(list(place.glob('ballast*')))}"
    with ballast.open("wb", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError as error:
                assert error.errno == errno.ENOSPC
                size = size // 2 if size > 512 else 0
    return ballast


def take(daemon: DaemonFixture, project: Path) -> str:
    made: str = daemon.call("checkpoint.create", project=project)["checkpoint"]["id"]
    return made


def tree_entries(daemon: DaemonFixture, project: Path, checkpoint: str) -> dict[str, Any]:
    files = daemon.call("checkpoint.show", project=project, id=checkpoint)["files"]
    return {found["file_path"]: found["hash"] for found in files if not found["is_deleted"]}


def test_V3_list_restore_and_a_restart_work_on_a_full_disk(
    small_disk: Path, daemon_factory: Callable[..., DaemonFixture]
) -> None:
    daemon = daemon_factory(base=str(small_disk))
    project = daemon.projects / "p"
    for number in range(20):
        put(project, b"d/f%d" % number, b"first %d\n" % number * 20)
    daemon.add(project)
    first = take(daemon, project)
    one = snapshot(project)
    for number in range(20):
        put(project, b"d/f%d" % number, b"second %d\n" % number * 30)
    second = take(daemon, project)
    two = snapshot(project)
    reserve = daemon.data_dir / "content_pool" / "reserve"
    assert reserve.exists()

    fill(small_disk)
    assert len(daemon.call("checkpoint.list", project=project)["checkpoints"]) == 3
    done = daemon.call("checkpoint.restore", project=project, id=first, confirmed=True)
    assert done["pre_restore_checkpoint_id"]
    assert_tree(project, one)
    assert not reserve.exists(), "it was given up"
    assert daemon.call("store.gc")["freed_bytes"] >= 0

    daemon.restart(kill=True)
    daemon.until(lambda: daemon._watching(project))
    assert {first, second} <= {each["id"] for each in daemon.call("checkpoint.list", project=project)["checkpoints"]}
    assert daemon.call("store.verify")["clean"]
    daemon.call("checkpoint.restore", project=project, id=second, confirmed=True)
    assert_tree(project, two)


def test_V3_what_found_no_room_is_captured_when_there_is_some(
    small_disk: Path, daemon_factory: Callable[..., DaemonFixture], tmp_path: Path
) -> None:
    daemon = daemon_factory(base=str(small_disk))
    project = tmp_path / "project"  # on another disk, which has room
    for number in range(5):
        put(project, b"f%d" % number, b"first\n")
    daemon.add(project)
    first = take(daemon, project)
    (daemon.data_dir / "content_pool" / "reserve").unlink()
    ballast = fill(small_disk)
    refusals = 0
    for number in range(5):
        put(project, b"f%d" % number, os.urandom(200_000))
        try:
            take(daemon, project)
        except RpcError as error:
            assert error.code == "disk_full", error
            refusals += 1
    assert refusals == 5
    assert daemon.call("daemon.status")["projects"][0]["path"] == str(project)
    assert next(each["id"] for each in daemon.call("checkpoint.list", project=project)["checkpoints"]) == first
    ballast.unlink()
    made = take(daemon, project)
    wanted = {os.fsdecode(path): value.hex() for path, (_, _, value) in snapshot(project).items()}
    assert tree_entries(daemon, project, made) == wanted, "no change may be forgotten because it once found no room"
    assert daemon.call("store.verify")["clean"]
    daemon.restart(kill=True)
    daemon.until(lambda: daemon._watching(project))
    assert tree_entries(daemon, project, made) == wanted


def test_what_one_refused_batch_held_is_in_the_next_checkpoint(daemon_factory: Callable[..., DaemonFixture]) -> None:
    """The request that hits the full disk is refused; the next one must not forget what that one had taken."""
    daemon = daemon_factory(start=False)
    project = daemon.projects / "p"
    put(project, b"f", b"first\n")
    daemon.start()
    daemon.add(project)
    for count in range(1, 9):
        assert daemon.stop() == 0
        daemon.arm(f"segment.write=enospc@{count}")
        daemon.start()
        daemon.until(lambda: daemon._watching(project))
        (daemon.data_dir / "content_pool" / "reserve").unlink(missing_ok=True)
        refused = False
        for number in range(8):
            put(project, b"f", b"count %d, number %d\n" % (count, number))
            put(project, b"new%d" % number, b"new %d\n" % count)
            try:
                made = take(daemon, project)
            except RpcError as error:
                assert error.code == "disk_full"
                refused = True
                continue
            wanted = {os.fsdecode(path): value.hex() for path, (_, _, value) in snapshot(project).items()}
            assert tree_entries(daemon, project, made) == wanted
            if refused:
                break
        daemon.arm("")
    assert daemon.faults_hit(), "no point was hit"


def test_R8_a_restore_that_finds_no_room_changes_nothing(
    small_disk: Path, daemon_factory: Callable[..., DaemonFixture]
) -> None:
    daemon = daemon_factory(base=str(small_disk), config="budget_bytes: 64 MiB\n")
    project = daemon.projects / "p"
    put(project, b"large", os.urandom(12 << 20))
    put(project, b"small", b"first\n")
    daemon.add(project)
    first = take(daemon, project)
    one = snapshot(project)
    put(project, b"small", b"second\n")
    (project / "large").unlink()
    take(daemon, project)
    two = snapshot(project)
    ballast = fill(small_disk)
    with pytest.raises(RpcError):  # 12 MiB do not fit into the reserve
        daemon.call("checkpoint.restore", project=project, id=first, confirmed=True)
    assert_tree(project, two)
    ballast.unlink()
    daemon.call("checkpoint.restore", project=project, id=first, confirmed=True)
    assert_tree(project, one)
    assert daemon.call("store.verify")["clean"]
