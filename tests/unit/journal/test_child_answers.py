"""What a child process answers arrives whole, however often it is stopped and whatever its environment says."""

from __future__ import annotations

import array
import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from mulligan.child import frame, read_frame
from mulligan.journal.reading_child import Answer, Request, Setup
from mulligan.model import ABSENT, Entry, Kind
from mulligan.restore import stage_child
from mulligan.restore.plan import Step
from mulligan.restore.stage import stage_name
from mulligan.restore.staging_children import StagingChildren
from mulligan.store.store import Store
from support.storing import opened

#: More answers than a pipe holds (64 KiB).
MANY = 3000


def _start(module: str, **environment: str) -> subprocess.Popen[bytes]:
    environ = os.environ | {"PYTHONUNBUFFERED": "1"} | environment
    return subprocess.Popen([sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ)


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def _stop_while_it_writes(child: subprocess.Popen[bytes]) -> None:
    """Stop and continue a child that waits in the middle of a write, because the pipe is full."""
    assert child.stdout is not None
    waiting = array.array("i", [0])

    def full() -> bool:
        fcntl.ioctl(child.stdout.fileno(), termios.FIONREAD, waiting)  # type: ignore[union-attr]
        return waiting[0] >= 1 << 16

    _until(full)
    _until(lambda: _state(child.pid) == "S")
    child.send_signal(signal.SIGSTOP)
    _until(lambda: _state(child.pid) == "T")
    child.send_signal(signal.SIGCONT)
    _until(lambda: _state(child.pid) != "T")


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc for the state of a process")
def test_a_reading_child_that_is_stopped_answers_whole(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for number in range(MANY):
        (root / f"file {number} with a long name to fill the pipe").write_bytes(b"%d" % number)
    store = Store(str(tmp_path / "store"))
    try:
        setup = Setup(os.fsencode(root), store.pool, store.catalogue_path, 1 << 40, 0)
        names = [os.fsencode(name) for name in os.listdir(root)]
        child = _start("mulligan.journal.reading_child")
        assert child.stdin is not None and child.stdout is not None
        with child.stdin as requests:
            requests.write(frame(msgspec.msgpack.encode(setup)))
            requests.write(frame(msgspec.msgpack.encode(Request(1, [(b"", names)]))))
        _stop_while_it_writes(child)
        with child.stdout as answers:
            data = read_frame(answers)
        assert data is not None
        assert len(msgspec.msgpack.decode(data, type=Answer).items) == MANY
        assert child.wait() == 0
    finally:
        store.close()


def _ask_for_one_file(child: subprocess.Popen[bytes], tmp_path: Path, store: Store) -> None:
    """Ask a reading child for a file and leave its standard input open, as whoever scans does."""
    (tmp_path / "file").write_bytes(b"data")
    setup = Setup(os.fsencode(tmp_path), store.pool, store.catalogue_path, 1 << 40, 0)
    assert child.stdin is not None
    child.stdin.write(frame(msgspec.msgpack.encode(setup)))
    child.stdin.write(frame(msgspec.msgpack.encode(Request(1, [(b"", [b"file"])]))))
    child.stdin.flush()


def test_a_reading_child_answers_when_what_it_stored_is_durable(tmp_path: Path) -> None:
    hits, gate = tmp_path / "hits", tmp_path / "gate"
    faults = {
        "MULLIGAN_FAULTS": "segment.sync=wait",
        "MULLIGAN_FAULT_LOG": str(hits),
        "MULLIGAN_FAULT_GATE": str(gate),
    }
    with opened(tmp_path / "store") as store, _start("mulligan.journal.reading_child", **faults) as child:
        assert child.stdin is not None and child.stdout is not None
        _ask_for_one_file(child, tmp_path, store)
        _until(hits.exists)
        assert select.select([child.stdout], [], [], 0)[0] == []
        gate.touch()
        data = read_frame(child.stdout)
        assert data is not None
        (item,) = msgspec.msgpack.decode(data, type=Answer).items
        assert [placed.size for placed in item.contents] == [4]
        child.stdin.close()
        assert child.wait() == 0


@pytest.mark.parametrize("point", ["segment.write", "segment.sync"])
def test_a_reading_child_that_cannot_store_ends_and_answers_nothing(tmp_path: Path, point: str) -> None:
    with (
        opened(tmp_path / "store") as store,
        _start("mulligan.journal.reading_child", MULLIGAN_FAULTS=f"{point}=enospc") as child,
    ):
        assert child.stdout is not None
        _ask_for_one_file(child, tmp_path, store)
        assert child.wait() == 1
        assert child.stdout.read() == b""


def test_staging_children_that_nothing_is_asked_of_are_ended(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        children = StagingChildren(store.pool, store.catalogue_path)
        children.start()
        processes = [child.process for child in children._children]
        assert [process.poll() for process in processes] == [None, None]
        children.stop()
        assert [process.returncode for process in processes] == [-signal.SIGKILL] * 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc for the state of a process")
def test_a_staging_child_that_is_stopped_answers_whole(tmp_path: Path) -> None:
    for place in ("stage", "stage/b1"):
        (tmp_path / place).mkdir()
    store = Store(str(tmp_path / "store"))
    try:
        entry = Entry(Kind.LINK, 0o777, target=b"x")
        jobs = [(number, Step(b"%d" % number, ABSENT, entry), stage_name(number)) for number in range(1999)]
        setup = stage_child.Setup(store.pool, store.catalogue_path, os.fsencode(tmp_path / "stage"))
        child = _start("mulligan.restore.stage_child")
        assert child.stdin is not None and child.stdout is not None
        with child.stdin as requests:
            requests.write(frame(msgspec.msgpack.encode(setup)))
            requests.write(frame(msgspec.msgpack.encode(stage_child.Chunk(jobs, last=True))))
        _stop_while_it_writes(child)
        with child.stdout as answers:
            data = read_frame(answers)
        assert child.wait() == 0
        assert data is not None
        made = msgspec.msgpack.decode(data, type=stage_child.Made)
        assert sorted(index for index, _ in made.seen) == list(range(1999)) and made.damaged == []
    finally:
        store.close()
