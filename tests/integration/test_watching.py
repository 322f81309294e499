"""Watching through a real daemon: whatever happens in a tree, behind the barrier the store equals the disk."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

from mulligan.restore.exchange import exchange
from support.daemon import DaemonFixture, stopped
from support.stored import assert_stored, reader, status
from support.trees import put, snapshot

QUEUE = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text()) if sys.platform == "linux" else 0
AT_FDCWD = -100


def swap(one: Path, other: Path) -> None:
    """Exchange two names in one step."""
    exchange(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other))


def _sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


# W2: what appears while one looks


def test_W2_new_directories_and_an_immediate_write_are_seen(daemon: DaemonFixture, project: Path) -> None:
    daemon.add(project)
    for number in range(300):
        put(project, b"n%d/b/c/d/file" % number, b"%d\n" % number)
    assert_stored(daemon, project)
    for number in range(300):
        put(project, b"n%d/b/c/d/file" % number, b"again %d\n" % number)
    assert_stored(daemon, project)
    assert status(daemon, project)["rescans"] == 0, "by events, not by the safety net"


def test_W2_a_watched_directory_is_deleted_and_made_again(daemon: DaemonFixture, project: Path) -> None:
    daemon.add(project)
    for number in range(60):
        put(project, b"d/sub/file", b"%d\n" % number)
        if number % 20 == 0:
            assert_stored(daemon, project)
        shutil.rmtree(project / "d")
    assert_stored(daemon, project)
    put(project, b"d/sub/file", b"the last\n")
    assert_stored(daemon, project)
    put(project, b"d/sub/file", b"not deaf\n")
    assert_stored(daemon, project)


def test_W2_a_filled_directory_is_moved_in_and_out_and_in(daemon: DaemonFixture, project: Path) -> None:
    daemon.add(project)
    outside = daemon.directory / "outside"
    for number in range(50):
        put(outside, b"deep/d%d/file" % (number % 7), b"%d\n" % number)
        put(outside, b"deep/d%d/f%d" % (number % 7, number), b"%d\n" % number)
    outside.rename(project / "in")
    assert_stored(daemon, project)
    put(project, b"in/deep/d3/file", b"changed inside\n")
    assert_stored(daemon, project)
    tree = snapshot(project)
    (project / "in").rename(outside)
    gone = assert_stored(daemon, project)
    assert gone["metadata"]["deleted"] == len([entry for entry in tree.values() if entry[0] == "file"])
    put(outside, b"deep/d3/file", b"changed outside\n")
    outside.rename(project / "again")
    assert_stored(daemon, project)
    assert (project / "again/deep/d3/file").read_bytes() == b"changed outside\n"


def test_W2_200_atomic_saves(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"file", b"before\n")
    daemon.add(project)
    for number in range(200):
        put(project, b"file.new", b"version %d\n" % number)
        (project / "file.new").rename(project / "file")
    assert_stored(daemon, project)
    assert (project / "file").read_bytes() == b"version 199\n"


# W3: the queue is long, or overflows


def test_W2_the_barrier_waits_for_all_that_is_queued(daemon: DaemonFixture, project: Path) -> None:
    daemon.add(project)
    count = min(5000, QUEUE // 3)
    with daemon.connect() as connection:
        connection.call("hello", client="tests", protocol=[1])
        with stopped(daemon):
            for number in range(count):
                os.close(os.open(project / f"new{number}", os.O_CREAT | os.O_WRONLY))
            request = {"jsonrpc": "2.0", "id": 7, "method": "checkpoint.create", "params": {"project": str(project)}}
            connection._socket.sendall(json.dumps(request).encode() + b"\n")
        made = connection.read()["result"]["checkpoint"]
    assert made["metadata"]["added"] == count
    assert status(daemon, project)["overflows"] == 0


def test_W3_after_an_overflow_the_store_equals_the_disk(daemon: DaemonFixture, project: Path) -> None:
    for number in range(20):
        put(project, b"d/f%d" % number, b"%d\n" % number)
    daemon.add(project)
    with stopped(daemon):
        for number in range(max(20_000, QUEUE)):
            os.close(os.open(project / f"new{number}", os.O_CREAT | os.O_WRONLY))
        put(project, b"d/f3", b"edited in place\n")
        (project / "d/f4").unlink()
    assert_stored(daemon, project)
    said = status(daemon, project)
    assert said["overflows"] >= 1
    assert said["rescans"] >= 1
    put(project, b"d/f5", b"not deaf\n")
    assert_stored(daemon, project)
    assert status(daemon, project)["overflows"] == said["overflows"]


# W12: directories exchanged and replaced


def test_W12_exchanged_directories_are_heard_under_their_own_names(daemon: DaemonFixture, project: Path) -> None:
    for number in range(10):
        put(project, b"one/sub/f%d" % number, b"one %d\n" % number)
        put(project, b"two/sub/f%d" % number, b"two %d\n" % number)
    daemon.add(project)
    assert_stored(daemon, project)
    swap(project / "one", project / "two")
    put(project, b"one/sub/f1", b"in the second under the first name\n")
    put(project, b"two/sub/f2", b"in the first under the second name\n")
    assert_stored(daemon, project)
    for turn in range(5):
        swap(project / "one/sub", project / "two/sub")
        put(project, b"one/sub/new%d" % turn, b"%d\n" % turn)
        put(project, b"two/sub/f3", b"turn %d\n" % turn)
    assert_stored(daemon, project)
    put(project, b"one/sub/f4", b"not deaf\n")
    put(project, b"two/sub/f4", b"not deaf either\n")
    assert_stored(daemon, project)
    assert status(daemon, project)["rescans"] == 0


def test_W12_a_directory_moved_out_and_another_moved_in_under_its_name(daemon: DaemonFixture, project: Path) -> None:
    outside = daemon.directory / "outside"
    put(project, b"d/sub/file", b"the first\n")
    put(outside, b"sub/file", b"the second\n")
    put(outside, b"sub/more", b"more\n")
    daemon.add(project)
    gone = daemon.directory / "gone"
    (project / "d").rename(gone)
    outside.rename(project / "d")
    put(gone, b"sub/file", b"a secret outside of the project\n")
    put(project, b"d/sub/file", b"inside\n")
    assert_stored(daemon, project)
    put(gone, b"sub/secret", b"another secret\n")
    put(project, b"d/sub/other", b"inside too\n")
    assert_stored(daemon, project)
    catalogue = reader(daemon)
    try:
        for secret in (b"a secret outside of the project\n", b"another secret\n"):
            assert catalogue.place(_sha(secret)) is None, "nothing outside is captured"
    finally:
        catalogue.close()
