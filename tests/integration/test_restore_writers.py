"""Restores while somebody writes: no version is overwritten that nobody had captured."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.daemon import DaemonFixture
from support.stored import assert_stored, restore, rows, take
from support.trees import put

pytestmark = pytest.mark.disk


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


# R10: somebody writes in the very moment

WRITER = """
import os, sys
path, go, atomic = sys.argv[1], sys.argv[2], sys.argv[3] == "atomic"
print("ready", flush=True)
number = 0
while os.path.exists(go):
    number += 1
    data = b"version %d of a fast writer\\n" % number
    if atomic:
        with open(path + ".new", "wb") as file:
            file.write(data)
        os.rename(path + ".new", path)
    else:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(fd, data)
        os.ftruncate(fd, len(data))
        os.close(fd)
print(number, flush=True)
"""


@contextmanager
def writing(daemon: DaemonFixture, path: Path, how: str, numbers: list[int], program: str = WRITER) -> Iterator[None]:
    """A process that writes numbered versions without a pause; the last number is appended to `numbers`."""
    go = daemon.directory / "go"
    go.touch()
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path), str(go), how], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        go.unlink()
        numbers.append(int(process.stdout.readline()))
        process.wait(20)
        process.stdout.close()


@pytest.mark.parametrize("how", ["atomic", "in place"])
def test_R10_no_version_of_a_fast_writer_is_overwritten_unseen(daemon: DaemonFixture, project: Path, how: str) -> None:
    put(project, b"file", b"the target\n")
    put(project, b"other", b"the target too\n")
    daemon.add(project)
    made = take(daemon, project)
    put(project, b"other", b"changed\n")
    numbers: list[int] = []
    outcomes = []
    with writing(daemon, project / "file", how, numbers):
        for turn in range(15):
            put(project, b"other", b"changed %d\n" % turn)
            outcomes.append(restore(daemon, project, made["id"], paths=["file", "other"]))
            assert (project / "other").read_bytes() == b"the target too\n"
    last = b"version %d of a fast writer\n" % numbers[-1]
    assert (project / "file").read_bytes() == last, "nothing was restored after it"
    assert all("other" in done["plan"]["write"] for done in outcomes)
    assert any("file" in done["plan"]["write"] for done in outcomes)
    assert_stored(daemon, project)
    restore(daemon, project, made["id"])
    assert (project / "file").read_bytes() == b"the target\n"
    daemon.call("operation.undo", project=project, confirmed=True)
    assert (project / "file").read_bytes() == last


def test_R10_what_a_restore_took_away_is_in_the_journal(daemon: DaemonFixture, project: Path) -> None:
    """Whatever the restore exchanged for the target can be had again, if it was a whole version."""
    put(project, b"file", b"the target\n")
    daemon.add(project)
    made = take(daemon, project)
    numbers: list[int] = []
    for _ in range(8):
        with writing(daemon, project / "file", "atomic", numbers):
            daemon.until(lambda: (project / "file").read_bytes() != b"the target\n")
        done = restore(daemon, project, made["id"])
        last = b"version %d of a fast writer\n" % numbers[-1]
        assert done["plan"]["write"] == ["file"]
        assert (project / "file").read_bytes() == b"the target\n"
        assert sha(last) in [row[2] for row in rows(daemon, b"file")]


POLITE = """
import os, random, sys, time
path, go, target = sys.argv[1], sys.argv[2], sys.argv[3].encode()
rng = random.Random(1)
print("ready", flush=True)
number = 0
while os.path.exists(go):
    with open(path, "rb") as file:
        if file.read() != target:
            continue
    time.sleep(rng.random() * 0.012)
    number += 1
    with open(path + ".new", "wb") as file:
        file.write(b"version %d of a fast writer\\n" % number)
    os.rename(path + ".new", path)
print(number, flush=True)
"""


def test_R10_what_came_between_the_plan_and_its_write_is_captured_or_kept(daemon: DaemonFixture, project: Path) -> None:
    """Each version is written once, when the one before it was restored away, at any moment of a restore."""
    put(project, b"file", b"the target\n")
    daemon.add(project)
    made = take(daemon, project)
    numbers: list[int] = []
    with writing(daemon, project / "file", "the target\n", numbers, POLITE):
        for _ in range(120):
            restore(daemon, project, made["id"], paths=["file"])
    assert_stored(daemon, project)
    known = {row[2] for row in rows(daemon, b"file")}
    written = [b"version %d of a fast writer\n" % number for number in range(1, numbers[-1] + 1)]
    assert len(written) > 20
    assert [data for data in written if sha(data) not in known] == []
