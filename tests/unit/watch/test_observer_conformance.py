"""What every observer does, whatever it is built on.

watchdog's own observer is not among them: on Linux it keeps the names of directories that were moved away, and loses
events. Nothing uses it here; `test_observer_native.py` holds what is ours about it.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from mulligan.clock import Clock
from mulligan.model import RelPath
from mulligan.watch.generic import PolledObserver
from mulligan.watch.inotify import InotifyObserver
from mulligan.watch.inotify_reader import CtypesReader, WatchdogReader
from mulligan.watch.observer import Observer
from support.watching import Keeper, elsewhere, on_disk, wait_until

pytestmark = pytest.mark.disk

Make = Callable[[bytes, Callable[[], int]], Observer]

KINDS: dict[str, Make] = {
    "watchdog": lambda root, now: InotifyObserver(root, now, WatchdogReader()),
    "ctypes": lambda root, now: InotifyObserver(root, now, CtypesReader()),
    "polled": lambda root, now: PolledObserver(root, now, seconds=3600),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def observer(kind: str, root: Path) -> Iterator[Observer]:
    made = KINDS[kind](os.fsencode(root), Clock().now)
    made.start(lambda: None)
    yield made
    made.stop()


@pytest.fixture
def keeper(root: Path, observer: Observer) -> Keeper:
    (root / "old").mkdir()
    (root / "old/file").write_text("old\n")
    keeper = Keeper(root, observer)
    keeper.compare()
    keeper.sync()
    keeper.reported.clear()
    return keeper


def assert_equal(keeper: Keeper) -> None:
    keeper.sync()
    assert keeper.known == on_disk(keeper.root)


def test_nothing_is_told_of_a_tree_that_nobody_touches(keeper: Keeper) -> None:
    keeper.sync()
    assert keeper.reported == set()
    assert keeper.observer.watched == 2


def test_what_stood_there_before_the_watch_is_not_told_as_new(observer: Observer, root: Path) -> None:
    (root / "old").mkdir()
    (root / "old/file").write_text("old\n")
    observer.watch(RelPath(b""))
    observer.watch(RelPath(b"old"))
    assert observer.barrier(10)
    assert observer.drain().entries == {}
    (root / "old/file").write_text("changed\n")
    (root / "old/new").write_text("new\n")
    assert observer.barrier(10)
    assert set(observer.drain().entries) == {b"old/file", b"old/new"}


def test_what_vanishes_right_after_the_watch_is_told(observer: Observer, root: Path) -> None:
    (root / "file").write_text("old\n")
    observer.watch(RelPath(b""))
    (root / "file").unlink()
    assert observer.barrier(10)
    assert set(observer.drain().entries) == {b"file"}


def test_every_change_of_a_file_is_told_after_a_barrier(keeper: Keeper, root: Path) -> None:
    (root / "old/new").write_text("1\n")
    assert_equal(keeper)
    (root / "old/new").write_text("longer\n")
    assert_equal(keeper)
    (root / "old/new").rename(root / "moved")
    assert_equal(keeper)
    (root / "moved").chmod(0o600)
    (root / "link").symlink_to("moved")
    (root / "old/file").unlink()
    assert_equal(keeper)
    assert {b"old/new", b"moved", b"link", b"old/file"} <= keeper.reported


def test_arrival_is_journal_time_and_a_deletion_is_finished(kind: str, root: Path) -> None:
    clock = Clock()
    observer = KINDS[kind](os.fsencode(root), clock.now)
    observer.start(lambda: None)
    try:
        (root / "file").write_text("x")
        observer.watch(RelPath(b""))
        observer.barrier(10)
        observer.drain()
        before = clock.now()
        (root / "file").unlink()
        assert observer.barrier(10)
        touch = observer.drain().entries[RelPath(b"file")]
        assert before < touch.first <= touch.last < clock.now()
        assert touch.finished
    finally:
        observer.stop()


def test_the_taker_is_woken(kind: str, root: Path) -> None:
    woken = threading.Event()
    make = partial(PolledObserver, seconds=0.05) if kind == "polled" else KINDS[kind]
    observer = make(os.fsencode(root), Clock().now)
    observer.start(woken.set)
    try:
        observer.watch(RelPath(b""))
        (root / "file").write_text("x")
        assert woken.wait(10)
    finally:
        observer.stop()


def test_a_directory_that_nobody_asked_for_is_passed_over(keeper: Keeper, root: Path) -> None:
    (root / "ignored").mkdir()
    assert keeper.observer.barrier(10)
    keeper.observer.drain()
    (root / "ignored/file").write_text("x")
    assert keeper.observer.barrier(10)
    assert [path for path in keeper.observer.drain().entries if path.startswith(b"ignored/")] == []


def test_a_forgotten_directory_and_all_below_it_are_passed_over(keeper: Keeper, root: Path) -> None:
    (root / "old/deep").mkdir()
    keeper.sync()
    assert keeper.observer.is_watched(RelPath(b"old/deep"))
    keeper.observer.forget(RelPath(b"old"))
    assert not keeper.observer.is_watched(RelPath(b"old/deep"))
    assert keeper.observer.watched == 1
    (root / "old/deep/file").write_text("x")
    assert keeper.observer.barrier(10)
    assert [path for path in keeper.observer.drain().entries if path.startswith(b"old/")] == []


def test_what_is_no_directory_cannot_be_watched(observer: Observer, root: Path) -> None:
    (root / "file").write_text("x")
    (root / "link").symlink_to(root.parent)
    assert not observer.watch(RelPath(b"file"))
    assert not observer.watch(RelPath(b"link"))
    assert not observer.watch(RelPath(b"nothing"))
    assert observer.watch(RelPath(b""))
    assert observer.watch(RelPath(b""))
    assert observer.watched == 1


def test_W2_directories_made_and_filled_at_once(keeper: Keeper, root: Path, kind: str) -> None:
    for number in range(300 if kind in ("watchdog", "ctypes") else 30):
        (root / f"w{number}/b/c/d").mkdir(parents=True)
        (root / f"w{number}/b/c/d/file").write_text(f"{number}\n")
        if number % 10 == 0:
            assert_equal(keeper)
    assert_equal(keeper)


def test_W2_a_watched_directory_is_deleted_and_made_again(keeper: Keeper, root: Path) -> None:
    for number in range(20):
        for path in (root / "old").iterdir():
            path.unlink()
        (root / "old").rmdir()
        (root / "old").mkdir()
        (root / "old/file").write_text(f"{number}\n")
        assert_equal(keeper)
    (root / "old/later").write_text("later\n")
    assert_equal(keeper)


def test_W2_a_filled_directory_is_moved_in(keeper: Keeper, root: Path) -> None:
    (root.parent / "filled/sub").mkdir(parents=True)
    (root.parent / "filled/sub/file").write_text("x\n")
    (root.parent / "filled").rename(root / "filled")
    assert_equal(keeper)
    (root / "filled/sub/file").write_text("changed\n")
    assert_equal(keeper)


def test_W2_two_hundred_atomic_saves(keeper: Keeper, root: Path) -> None:
    for number in range(200):
        (root / "old/.new").write_text(f"version {number}\n")
        (root / "old/.new").replace(root / "old/file")
    assert_equal(keeper)


def exchange(one: Path, other: Path) -> None:
    """renameat2(RENAME_EXCHANGE)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2) != 0:
        pytest.skip(f"no exchange here: {os.strerror(ctypes.get_errno())}")


def test_W12_two_directories_are_exchanged(keeper: Keeper, root: Path) -> None:
    (root / "a/sub").mkdir(parents=True)
    (root / "b/sub").mkdir(parents=True)
    (root / "a/sub/from").write_text("a\n")
    (root / "b/sub/from").write_text("b\n")
    assert_equal(keeper)
    for number in range(10):
        exchange(root / "a", root / "b")
        (root / "a/sub/file").write_text(f"{number}\n")
        (root / "b/sub/other").write_text(f"{number}\n")
        assert_equal(keeper)
        (root / "a/sub/file").write_text(f"again {number}\n")
        (root / "b/sub/file").write_text(f"also {number}\n")
        assert_equal(keeper)


def test_W12_a_directory_moved_out_is_replaced_and_nothing_outside_is_told(keeper: Keeper, root: Path) -> None:
    (root / "x/sub").mkdir(parents=True)
    (root / "x/sub/file").write_text("first\n")
    assert_equal(keeper)
    outside = root.parent / "outside"
    (root / "x").rename(outside)
    (root / "x/sub").mkdir(parents=True)
    (root / "x/sub/file").write_text("second\n")
    (outside / "sub/secret").write_text("outside\n")
    assert_equal(keeper)
    keeper.reported.clear()
    (outside / "sub/secret2").write_text("outside\n")
    (outside / "secret3").write_text("outside\n")
    (root / "x/sub/inside").write_text("inside\n")
    assert_equal(keeper)
    assert b"x/sub/inside" in keeper.reported
    assert not [path for path in keeper.reported if b"secret" in path]
    (root / "x/sub/file").unlink()
    (root / "x/sub/inside").unlink()
    (root / "x/sub").rmdir()
    (root / "x").rmdir()
    (outside / "sub/file").unlink()
    assert_equal(keeper)
    (root / "last").write_text("not deaf\n")
    assert_equal(keeper)


def test_W12_what_happens_in_a_directory_that_was_moved_out_is_not_told(keeper: Keeper, root: Path) -> None:
    (root / "x/sub").mkdir(parents=True)
    keeper.sync()
    outside = root.parent / "outside"
    (root / "x").rename(outside)
    (outside / "secret").write_text("outside\n")
    (outside / "sub/secret").write_text("outside\n")
    assert keeper.observer.barrier(10)
    changes = keeper.observer.drain()
    assert RelPath(b"x") in changes.directories
    assert [path for path in changes.entries if b"secret" in path] == []
    assert not keeper.observer.is_watched(RelPath(b"x/sub"))


def test_writes_by_another_process_are_told_after_a_barrier(keeper: Keeper, root: Path) -> None:
    for number in range(5):
        elsewhere(
            "import os, sys\n"
            "root, number = sys.argv[1:]\n"
            "held = os.open(root + '/held' + number, os.O_CREAT | os.O_WRONLY); os.write(held, b'still open')\n"
            "open(root + '/new', 'w').close(); os.rename(root + '/new', root + '/renamed' + number)\n"
            "os.pwrite(os.open(root + '/old/file', os.O_WRONLY), number.encode(), 2)\n",
            str(root), str(number),
        )  # fmt: skip
        assert_equal(keeper)


def test_a_root_that_was_removed_or_moved_is_told(kind: str, root: Path) -> None:
    for change in (lambda: root.rename(root.parent / "elsewhere"), root.rmdir):
        root.mkdir(exist_ok=True)
        observer = KINDS[kind](os.fsencode(root), Clock().now)
        observer.start(lambda: None)
        try:
            observer.watch(RelPath(b""))
            assert not observer.root_gone
            change()
            observer.barrier(10)
            assert wait_until(lambda: observer.root_gone)  # noqa: B023 - it is called within the loop
        finally:
            observer.stop()


def test_after_the_end_nothing_is_held_and_no_barrier_is_kept(kind: str, root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    threads = threading.active_count()
    observer = KINDS[kind](os.fsencode(root), Clock().now)
    observer.start(lambda: None)
    observer.watch(RelPath(b""))
    observer.barrier(10)
    observer.stop()
    observer.stop()
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == before
    assert not observer.barrier(0.05)
