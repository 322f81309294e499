"""The catalogue of a running daemon is made anew: while work goes on, after it was lost, after the log was."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mulligan.store.segments import SEGMENT_HEADER_SIZE, segment_numbers
from support.daemon import DaemonFixture, RpcError
from support.stored import assert_stored, take, tree_of
from support.storing import forget_catalogue, group_ends, segment, tables
from support.trees import put, snapshot


@contextmanager
def going_on(work: Callable[[int], None]) -> Iterator[list[int]]:
    """Work in a thread of its own, again and again; gives how often it was done."""
    done, stop = [0], threading.Event()

    def run() -> None:
        while not stop.is_set():
            work(done[0])
            done[0] += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()


def client(daemon: DaemonFixture, *words: str) -> tuple[int, dict[str, Any]]:
    done = daemon.client(*words, "--json")
    return done.returncode, json.loads(done.stdout or done.stderr)


def appear(path: Path, data: bytes) -> None:
    """A file comes whole, so that it has one version."""
    made = path.parent.parent / path.name
    made.write_bytes(data)
    made.rename(path)


def last_segment(daemon: DaemonFixture) -> Path:
    return segment(daemon.data_dir, segment_numbers(str(daemon.data_dir / "content_pool"))[-1])


def test_B10_the_catalogue_is_made_anew_while_captures_go_on(daemon: DaemonFixture, project: Path) -> None:
    for number in range(500):
        put(project, b"many/%d" % number, b"%d\n" % number)
    daemon.add(project)
    first = take(daemon, project, "first")
    before = tree_of(daemon, project, first["id"])
    with going_on(lambda number: put(project, b"busy/%d" % (number % 50), b"%d\n" % number)) as done:
        daemon.until(lambda: done[0] > 20)
        for _ in range(3):
            status, built = client(daemon, "store", "rebuild")
            assert (status, built["lost"], built["missing_contents"], built["snapshot"]) == (0, [], 0, None)
            assert built["batches_replayed"] == built["batch"] > 3
        daemon.until(lambda: done[0] > 100)
    made = assert_stored(daemon, project)
    assert made["parent_checkpoint_id"] == first["id"]
    assert tree_of(daemon, project, first["id"]) == before
    assert daemon.call("store.verify")["clean"]
    text = daemon.client("store", "rebuild")
    assert text.returncode == 0 and text.stdout.startswith("rebuilt from the first batch and ")
    daemon.stop()
    expected = tables(daemon.data_dir / "catalogue.db")
    forget_catalogue(daemon.data_dir)
    daemon.start()
    daemon.stop()
    found = tables(daemon.data_dir / "catalogue.db")
    assert found["row"][: len(expected["row"])] == expected["row"]


def test_B10_a_deleted_catalogue_is_made_anew_at_the_start(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"f", b"one\n")
    daemon.add(project)
    made = take(daemon, project, "first")
    put(project, b"f", b"two\n")
    take(daemon, project, "second")
    listed = daemon.call("checkpoint.list", project=project)["checkpoints"]
    daemon.kill9()
    forget_catalogue(daemon.data_dir)
    daemon.start()
    daemon.until(lambda: daemon._watching(project))
    assert daemon.call("checkpoint.list", project=project)["checkpoints"] == listed
    assert daemon.call("daemon.status")["warnings"] == []
    daemon.call("checkpoint.restore", project=project, id=made["id"], confirmed=True)
    assert (project / "f").read_bytes() == b"one\n"
    assert daemon.call("store.verify")["clean"]


def test_B10_a_log_that_lost_its_end_is_read_only_until_it_is_rebuilt(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"f", b"one\n")
    daemon.add(project)
    first = take(daemon, project, "first")
    end = group_ends(last_segment(daemon))[-1]
    lost = os.urandom(2000)
    appear(project / "lost", lost)
    second = take(daemon, project, "second")
    known = snapshot(project)
    daemon.stop()
    os.truncate(last_segment(daemon), end)
    daemon.start()
    with pytest.raises(RpcError) as refused:
        daemon.until(lambda: take(daemon, project))
    assert refused.value.code in ("read_only", "busy")
    (warning,) = [each for each in daemon.call("daemon.status")["warnings"] if "read-only" in each]
    assert "mulligan store rebuild" in warning
    status, built = client(daemon, "store", "rebuild")
    assert (status, built["missing_contents"], built["lost"], built["store"]) == (9, 1, [], "")
    assert [each["path"] for each in built["paths"]] == ["lost"]
    daemon.until(lambda: daemon._watching(project), 30)
    assert not [each for each in daemon.call("daemon.status")["warnings"] if "read-only" in each]
    listed = daemon.call("checkpoint.list", project=project)["checkpoints"]
    assert second["id"] in [each["id"] for each in listed], "what was known of it stays known"
    with pytest.raises(RpcError):
        daemon.call("file.cat", project=project, id=second["id"], path=str(project / "lost"))
    put(project, b"f", b"two\n")
    appear(project / "copy", lost)  # met again
    made = assert_stored(daemon, project)
    assert made["parent_checkpoint_id"] == second["id"]
    assert tree_of(daemon, project, second["id"]) == known
    assert daemon.call("store.verify")["clean"]
    daemon.call("checkpoint.restore", project=project, id=first["id"], confirmed=True)
    daemon.restart(kill=True)
    daemon.until(lambda: daemon._watching(project), 30)
    daemon.call("operation.undo", project=project, confirmed=True)
    assert (project / "lost").read_bytes() == lost
    status, built = client(daemon, "store", "rebuild")
    assert (status, built["missing_contents"]) == (0, 0)


def test_B10_what_cannot_be_read_of_the_log_is_named(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"f", b"one\n")
    daemon.add(project)
    first = take(daemon, project, "first")
    whole = group_ends(last_segment(daemon))[-1]
    put(project, b"f", b"two\n")
    take(daemon, project, "second")
    daemon.stop()
    with last_segment(daemon).open("r+b") as file:
        file.seek(whole + 20)
        file.write(b"\0\0\0\0")
    forget_catalogue(daemon.data_dir)
    daemon.start()
    done = daemon.client("store", "rebuild")
    assert done.returncode == 9
    assert "later batches follow" in done.stdout
    daemon.until(lambda: daemon._watching(project), 30)
    listed = daemon.call("checkpoint.list", project=project)["checkpoints"]
    assert first["id"] in [each["id"] for each in listed]
    assert "second" not in [each["description"] for each in listed]
    assert_stored(daemon, project)
    assert last_segment(daemon).stat().st_size > SEGMENT_HEADER_SIZE
    daemon.restart()
    assert not daemon.call("daemon.status")["store"]["damage"]


def test_a_rebuild_beside_another_one_is_busy(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"f", b"one\n")
    daemon.arm("rebuild.loaded=wait")
    daemon.restart()
    daemon.add(project)
    answers: list[tuple[int, dict[str, Any]]] = []
    thread = threading.Thread(target=lambda: answers.append(client(daemon, "store", "rebuild")))
    thread.start()
    daemon.until(lambda: daemon.faults_hit() == ["rebuild.loaded"])
    assert client(daemon, "store", "rebuild")[0] == 8
    take(daemon, project)  # goes on meanwhile
    (daemon.directory / "gate").touch()
    thread.join()
    ((status, built),) = answers
    assert (status, built["lost"]) == (0, [])
    assert built["batches_replayed"] == built["batch"] == daemon.call("daemon.stats")["batches"], "all are in it"
