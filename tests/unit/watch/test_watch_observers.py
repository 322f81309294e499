"""Observer, reconciler and store together, for every observer: behind a barrier the store is what is on disk.

`test_observer_conformance.py` holds the observers to their interface; here the real reader of their changes is used.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mulligan.model import Kind
from mulligan.restore.exchange import exchange
from mulligan.watch.generic import PolledObserver
from mulligan.watch.inotify import InotifyObserver
from mulligan.watch.inotify_reader import CtypesReader, Reader, WatchdogReader
from support.journaling import Journal, MakeObserver
from support.trees import put

INOTIFY: dict[str, Callable[[], Reader]] = {"watchdog": WatchdogReader, "ctypes": CtypesReader}
KINDS: dict[str, MakeObserver] = {
    "watchdog": lambda root, now: InotifyObserver(root, now, WatchdogReader()),
    "ctypes": lambda root, now: InotifyObserver(root, now, CtypesReader()),
    "polled": lambda root, now: PolledObserver(root, now, seconds=3600),
}
QUEUE = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text()) if sys.platform == "linux" else 0
AT_FDCWD = -100


@pytest.fixture(params=KINDS)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path, KINDS[request.param])
    made.tick = 10_000_000 if request.param == "polled" else 0
    yield made
    made.close()


@pytest.fixture(params=INOTIFY)
def inotify(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path, KINDS[request.param])
    yield made
    made.close()


WRITER = """
import os, random, sys
root, seed = os.fsencode(sys.argv[1]), int(sys.argv[2])
rng = random.Random(seed)
names = [b"a", b"b", b"c", b"d"]
def place():
    return os.path.join(root, *[rng.choice(names) for _ in range(rng.randrange(1, 4))])
for line in sys.stdin:
    for _ in range(int(line)):
        one, other = place(), place()
        try:
            match rng.randrange(8):
                case 0: os.mkdir(one)
                case 1: os.makedirs(one + b"/x/y"); open(one + b"/x/y/f", "wb").write(rng.randbytes(9))
                case 2: os.rename(one, other)
                case 3: os.unlink(one)
                case 4: os.rmdir(one)
                case 5: os.symlink(b"a", one)
                case 6: open(one + b".new", "wb").write(rng.randbytes(20)); os.replace(one + b".new", one)
                case 7: open(one, "r+b").write(rng.randbytes(5))
        except OSError:
            open(os.path.join(root, rng.choice(names) + b"%d" % rng.randrange(9)), "wb").write(rng.randbytes(30))
    print("done", flush=True)
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_the_barrier_is_exact_whatever_another_process_did_before_it(journal: Journal, seed: int) -> None:
    journal.baseline()
    rounds = 60 if isinstance(journal.observer, InotifyObserver) else 15
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(journal.root), str(seed)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert writer.stdin is not None and writer.stdout is not None
        for number in range(rounds):
            writer.stdin.write(f"{1 + number % 30}\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == "done\n"
            journal.assert_equal()
    finally:
        writer.communicate()
    assert journal.store.catalogue().project(1).files > 5


BUSY = """
import os, sys
root = sys.argv[1]
number = 0
while True:
    for name in range(5):
        with open(f"{root}/busy/{name}", "w") as file:
            file.write(str(number))
    number += 1
"""


def test_the_barrier_needs_no_pause_of_the_others(inotify: Journal) -> None:
    """A writer that never stops keeps nobody waiting, and no answer older than the question is given."""
    (inotify.root / "busy").mkdir()
    (inotify.root / "mine").mkdir()
    inotify.baseline()
    noise = subprocess.Popen([sys.executable, "-c", BUSY, str(inotify.root)])
    try:
        for number in range(60):
            put(inotify.root, b"mine/%d/%d" % (number % 7, number), b"%d\n" % number)
            put(inotify.root, b"mine/same", b"%d\n" % number)
            inotify.sync()
            assert inotify.read(b"mine/same") == b"%d\n" % number
            assert inotify.read(b"mine/%d/%d" % (number % 7, number)) == b"%d\n" % number
    finally:
        noise.kill()
        noise.wait()
    inotify.everything()
    inotify.assert_equal()


def test_W2_directories_made_and_filled_at_once(journal: Journal) -> None:
    journal.baseline()
    for number in range(300 if isinstance(journal.observer, InotifyObserver) else 40):
        put(journal.root, b"n%d/b/c/d/file" % number, b"%d\n" % number)
        if number % 40 == 39:
            journal.assert_equal()
    journal.assert_equal()
    assert journal.overflows == 0


def test_W2_deleted_recreated_moved_in_and_saved(journal: Journal) -> None:
    put(journal.root, b"d/sub/file", b"old\n")
    journal.baseline()
    for number in range(10):
        shutil.rmtree(journal.root / "d")
        put(journal.root, b"d/sub/file", b"%d\n" % number)
        journal.assert_equal()
        put(journal.root.parent, b"filled/x/y/file", b"moved in %d\n" % number)
        os.rename(journal.root.parent / "filled", journal.root / f"in{number}")
        journal.assert_equal()
        put(journal.root, b"in%d/x/y/file" % number, b"changed\n")
        journal.assert_equal()
    for number in range(200):
        put(journal.root, b"d/.new", b"version %d\n" % number)
        os.replace(journal.root / "d/.new", journal.root / "d/sub/file")
    journal.assert_equal()
    assert journal.read(b"d/sub/file") == b"version 199\n"


def test_W2_a_file_becomes_a_directory_becomes_a_link(journal: Journal) -> None:
    put(journal.root, b"x", b"file\n")
    put(journal.root.parent, b"outside/secret", b"outside\n")
    journal.baseline()
    for number in range(6):
        (journal.root / "x").unlink()
        put(journal.root, b"x/y", b"%d\n" % number)
        journal.assert_equal()
        shutil.rmtree(journal.root / "x")
        (journal.root / "x").symlink_to(journal.root.parent / "outside")
        journal.assert_equal()
        (journal.root / "x").unlink()
        put(journal.root, b"x", b"file again\n")
        journal.assert_equal()
    assert journal.store.catalogue().live(1, b"x/secret") is None


def test_W3_after_an_overflow_the_store_equals_the_disk(inotify: Journal) -> None:
    put(inotify.root, b"d/edited", b"before\n")
    put(inotify.root, b"d/deleted", b"before\n")
    inotify.baseline()
    observer = inotify.observer
    assert isinstance(observer, InotifyObserver)
    with observer._lock:  # the reader stands still
        for number in range(max(20_000, QUEUE + 2000)):
            os.close(os.open(inotify.root / f"d/f{number % 300}-{number // 2000}", os.O_CREAT | os.O_WRONLY))
        (inotify.root / "d/edited").write_text("after!\n")
        (inotify.root / "d/deleted").unlink()
        put(inotify.root, b"new/sub/file", b"made during the overflow\n")
    inotify.assert_equal()
    assert inotify.overflows == 1
    put(inotify.root, b"new/sub/file", b"not deaf\n")
    inotify.assert_equal()
    assert inotify.overflows == 1


class Limited:
    """A reader that has a few watches only, as `fs.inotify.max_user_watches` makes it."""

    def __init__(self, inner: Reader, limit: int) -> None:
        self._inner, self.limit, self._held = inner, limit, set[int]()
        self.fd, self.parse, self.close = inner.fd, inner.parse, inner.close

    def add(self, path: bytes, mask: int) -> int:
        """A watch if there is one left."""
        descriptor = self._inner.add(path, mask)
        if len(self._held | {descriptor}) > self.limit:
            self._inner.remove(descriptor)
            raise OSError(errno.ENOSPC, "No space left on device")
        self._held.add(descriptor)
        return descriptor

    def remove(self, descriptor: int) -> None:
        """Give one back."""
        self._held.discard(descriptor)
        self._inner.remove(descriptor)


@pytest.mark.parametrize("reader", INOTIFY)
def test_W5_beyond_the_limit_of_watches_scanning_finds_everything(tmp_path: Path, reader: str) -> None:
    limited = Limited(INOTIFY[reader](), 5)
    journal = Journal(tmp_path, lambda root, now: InotifyObserver(root, now, limited))
    try:
        for number in range(12):
            put(journal.root, b"d%d/sub/file" % number, b"%d\n" % number)
        journal.baseline()
        assert "fs.inotify.max_user_watches" in journal.observer.limit_reached
        assert journal.observer.watched == 5
        for number in range(12):
            put(journal.root, b"d%d/sub/file" % number, b"changed %d\n" % number)
            put(journal.root, b"d%d/new%d" % (number, number), b"new\n")
            journal.assert_equal()
        limited.limit = 1000
        journal.everything()
        assert journal.observer.limit_reached == ""
        put(journal.root, b"d11/sub/file", b"seen by an event\n")
        journal.assert_equal()
    finally:
        journal.close()


def test_W12_exchanged_moved_out_and_replaced_directories(journal: Journal) -> None:
    for name in (b"a", b"b"):
        put(journal.root, name + b"/sub/from", name)
    journal.baseline()
    outside = journal.root.parent / "outside"
    for number in range(8):
        try:
            exchange(AT_FDCWD, os.fsencode(journal.root / "a"), AT_FDCWD, os.fsencode(journal.root / "b"))
        except OSError as error:
            pytest.skip(f"no exchange here: {error}")
        put(journal.root, b"a/sub/file", b"a %d\n" % number)
        put(journal.root, b"b/sub/file", b"b %d\n" % number)
        journal.assert_equal()
        os.rename(journal.root / "b", outside)
        put(journal.root, b"b/sub/from", b"another %d\n" % number)
        put(journal.root.parent, b"outside/sub/secret", b"outside\n")
        journal.assert_equal()
        put(journal.root, b"b/sub/from", b"not deaf %d\n" % number)
        put(journal.root.parent, b"outside/sub/secret", b"outside again\n")
        journal.assert_equal()
        shutil.rmtree(outside)
    secrets = [live.path for live in journal.store.catalogue().below(1, b"") if live.path.endswith(b"secret")]
    assert secrets == []


def test_a_write_through_another_name_of_a_file_is_seen(journal: Journal) -> None:
    put(journal.root, b"a", b"one\n")
    (journal.root / "d").mkdir()
    os.link(journal.root / "a", journal.root / "d/b")
    journal.baseline()
    for number in range(5):
        put(journal.root, b"a" if number % 2 else b"d/b", b"version %d\n" % number)
        journal.assert_equal()
    assert journal.read(b"a") == journal.read(b"d/b") == b"version 4\n"


def test_nothing_happens_where_nobody_does_anything(journal: Journal) -> None:
    for number in range(30):
        put(journal.root, b"d%d/file" % number, random.Random(number).randbytes(10))
    journal.baseline()
    journal.assert_equal()
    journal.rows.clear()
    for _ in range(3):
        journal.sync()
        journal.everything()
    assert journal.rows == []
    assert journal.live(b"d3").entry.kind == Kind.DIR
