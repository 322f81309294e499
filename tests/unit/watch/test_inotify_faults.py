"""What goes wrong with inotify, and what is left of it: overflows, limits, moves at a bad moment, a dying thread."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mulligan.clock import Clock
from mulligan.model import RelPath
from mulligan.watch.inotify import InotifyObserver
from mulligan.watch.inotify_reader import CtypesReader, Reader, WatchdogReader
from mulligan.watch.observer import file_system_of, make_observer
from support.watching import Keeper, on_disk, wait_until

READERS: dict[str, Callable[[], Reader]] = {"watchdog": WatchdogReader, "ctypes": CtypesReader}
QUEUE = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text()) if sys.platform == "linux" else 0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture(params=READERS)
def observer(request: pytest.FixtureRequest, root: Path) -> Iterator[InotifyObserver]:
    made = InotifyObserver(os.fsencode(root), Clock().now, READERS[request.param]())
    made.start(lambda: None)
    yield made
    made.stop()


@pytest.fixture
def keeper(root: Path, observer: InotifyObserver) -> Keeper:
    (root / "d/sub").mkdir(parents=True)
    (root / "d/file").write_text("before\n")
    keeper = Keeper(root, observer)
    keeper.compare()
    keeper.sync()
    return keeper


def flood(observer: InotifyObserver, directory: Path, count: int) -> None:
    """Make files while nobody reads."""
    assert count > QUEUE, f"{count} events do not overflow a queue of {QUEUE}"
    with observer._lock:
        for number in range(count):
            os.close(os.open(directory / f"f{number}", os.O_CREAT | os.O_WRONLY))


def test_W3_an_overflow_is_told_and_nothing_is_missed_after_it(keeper: Keeper, root: Path) -> None:
    observer = keeper.observer
    assert isinstance(observer, InotifyObserver)
    flood(observer, root / "d", 60_000)
    (root / "d/file").write_text("edited in place\n")
    (root / "d/f17").unlink()
    keeper.sync()
    assert keeper.overflows == 1
    assert keeper.known == on_disk(keeper.root)
    (root / "d/sub/later").write_text("not deaf\n")
    keeper.sync()
    assert keeper.known == on_disk(keeper.root)
    assert keeper.overflows == 1


def test_W3_a_move_that_an_overflow_swallowed_does_not_leave_a_stale_name(keeper: Keeper, root: Path) -> None:
    observer = keeper.observer
    assert isinstance(observer, InotifyObserver)
    flood(observer, root, QUEUE + 4000)
    outside = root.parent / "outside"
    (root / "d").rename(outside)
    observer.barrier(10)
    assert observer.drain().overflow
    (outside / "sub/secret").write_text("outside\n")
    (outside / "secret").write_text("outside\n")
    observer.barrier(10)
    assert [path for path in observer.drain().entries if b"secret" in path] == []


def test_giving_back_more_watches_than_the_queue_holds_overflows_nothing(observer: InotifyObserver, root: Path) -> None:
    count = QUEUE + 2000
    (root / "x").mkdir()
    observer.watch(b"")
    observer.watch(b"x")
    for number in range(count):
        (root / f"x/d{number}").mkdir()
        observer.watch(b"x/d%d" % number)
    observer.barrier(10)
    observer.drain()
    assert observer.watched == count + 2
    (root / "x").rename(root.parent / "x")
    observer.barrier(10)
    assert observer.watched == 1
    assert wait_until(lambda: not observer._retired)
    observer.barrier(10)
    assert not observer.drain().overflow


def test_nothing_is_watched_through_a_link(observer: InotifyObserver, root: Path) -> None:
    outside = root.parent / "outside"
    (outside / "sub").mkdir(parents=True)
    (root / "d").symlink_to(outside)
    observer.watch(b"")
    assert not observer.watch(b"d/sub")
    (outside / "sub/secret").write_text("outside\n")
    observer.barrier(10)
    assert observer.drain().entries == {}


class MovesMeanwhile:
    """A reader under which something happens between the opening of a directory and its watch."""

    def __init__(self, inner: Reader, meanwhile: Callable[[], object]) -> None:
        self._inner, self._meanwhile, self.fd = inner, meanwhile, inner.fd
        self.remove, self.parse, self.close = inner.remove, inner.parse, inner.close

    def add(self, path: bytes, mask: int) -> int:
        """Let it happen, then watch."""
        self._meanwhile()
        return self._inner.add(path, mask)


@pytest.mark.parametrize("reader", READERS)
def test_W12_a_directory_moved_away_between_opening_and_watching_is_not_watched(root: Path, reader: str) -> None:
    outside = root.parent / "outside"
    (root / "d").mkdir()

    def move() -> None:
        if (root / "d").is_dir() and armed:
            (root / "d").rename(outside)

    armed: list[bool] = []
    observer = InotifyObserver(os.fsencode(root), Clock().now, MovesMeanwhile(READERS[reader](), move))
    observer.start(lambda: None)
    try:
        observer.watch(b"")
        armed.append(True)
        assert not observer.watch(b"d")
        assert not observer.is_watched(b"d")
        observer.barrier(10)
        observer.drain()
        (outside / "secret").write_text("outside\n")
        observer.barrier(10)
        assert observer.drain().entries == {}
    finally:
        observer.stop()


def test_a_directory_whose_name_is_longer_than_a_path_may_be_is_watched(observer: InotifyObserver, root: Path) -> None:
    fd = os.open(root, os.O_RDONLY)
    names = [b"n" * 200] * 25
    for name in names:
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    deep = b"/".join(names)
    assert observer.watch(deep)
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    observer.barrier(10)
    assert RelPath(deep + b"/file") in observer.drain().entries


def test_a_directory_that_may_be_readable_again_is_to_be_reconciled(keeper: Keeper, root: Path) -> None:
    (root / "d/sub").chmod(0)
    keeper.observer.forget(RelPath(b"d/sub"))
    keeper.observer.barrier(10)
    keeper.observer.drain()
    (root / "d/sub").chmod(0o755)
    keeper.observer.barrier(10)
    assert RelPath(b"d/sub") in keeper.observer.drain().directories


def test_a_barrier_is_exact_while_others_write_without_a_pause(observer: InotifyObserver, root: Path) -> None:
    (root / "noise").mkdir()
    (root / "mine").mkdir()
    for directory in (b"", b"noise", b"mine"):
        observer.watch(directory)
    noise = subprocess.Popen(
        [sys.executable, "-c", "import itertools, sys\nfor n in itertools.count(): open(sys.argv[1], 'w').close()",
         str(root / "noise/n")],
    )  # fmt: skip
    try:
        whole, missed = 0, 0
        for number in range(500):
            (root / f"mine/f{number % 50}").write_text(str(number))
            assert observer.barrier(10)
            changes = observer.drain()
            if changes.overflow:  # on a busy machine the noise fills the queue; then it is told, and names are lost
                for directory in (b"", b"noise", b"mine"):
                    observer.watch(directory)
                continue
            whole += 1
            missed += RelPath(b"mine/f%d" % (number % 50)) not in changes.entries
        assert missed == 0
        assert whole > 100
    finally:
        noise.kill()
        noise.wait()


def test_a_thread_that_dies_leaves_nobody_believing_that_all_is_seen(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda failure: told.append(str(failure.exc_value)))
    clock, broken, woken = Clock(), [], threading.Event()

    def now() -> int:
        if broken:
            raise RuntimeError("no time")
        return clock.now()

    observer = InotifyObserver(os.fsencode(root), now, CtypesReader())
    observer.start(woken.set)
    observer.watch(b"")
    broken.append(True)
    (root / "file").write_text("x")
    assert woken.wait(10)
    assert observer.drain().overflow
    observer.stop()
    assert told == ["no time"]


def test_watching_twice_warns_of_nothing_and_no_queue_is_inherited(observer: InotifyObserver, root: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert observer.watch(b"")
    assert not os.get_inheritable(observer._reader.fd)


LIMITED = """
import os, sys
from mulligan.clock import Clock
from mulligan.watch.observer import make_observer
root = os.fsencode(sys.argv[1])
observer = make_observer(root, Clock().now)
observer.start(lambda: None)
watched = [observer.watch(b"d%d" % number) for number in range(40)]
print(type(observer).__name__, sum(watched), repr(observer.limit_reached), sep="|")
for number in range(35):
    observer.forget(b"d%d" % number)
if type(observer).__name__ == "InotifyObserver":
    import time
    end = time.monotonic() + 10
    while not all([observer.watch(b"d%d" % number) for number in range(35, 40)]) and time.monotonic() < end:
        time.sleep(0.01)
    print(repr(observer.limit_reached))
observer.stop()
"""


def limited(root: Path, setting: str, value: int) -> list[str]:
    """Run with a lower limit, in a user namespace of its own."""
    script = f'echo {value} > /proc/sys/user/{setting} && exec "$0" -c "$1" "$2"'
    tried = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", script, sys.executable, LIMITED, str(root)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    if tried.returncode and ("unshare" in tried.stderr or "/proc/sys/user" in tried.stderr):
        pytest.skip(f"no user namespace with limits here: {tried.stderr.strip()[-100:]}")
    assert tried.returncode == 0, tried.stderr
    return tried.stdout.splitlines()


def test_W5_a_full_table_of_watches_is_said_with_the_setting_and_goes_away(root: Path) -> None:
    for number in range(40):
        (root / f"d{number}").mkdir()
    first, later = limited(root, "max_inotify_watches", 25)
    name, watched, limit = first.split("|")
    assert (name, watched) == ("InotifyObserver", "25")
    assert "fs.inotify.max_user_watches" in limit
    assert "25 directories are watched, 15 are not" in limit
    assert later == "''"


def test_W5_no_instance_left_is_said_with_the_setting(root: Path) -> None:
    name, _, limit = limited(root, "max_inotify_instances", 0)[0].split("|")
    assert name == "PolledObserver"
    assert "fs.inotify.max_user_instances" in limit


MOUNTS = (
    b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
    b"2 1 0:5 / /home/me/net rw shared:1 - nfs4 server:/x rw\n"
    b"3 2 8:2 / /home/me/net/local\\040disk rw - btrfs /dev/sdb rw\n"
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (b"/home/me", "ext4"), (b"/home/me/net", "nfs4"), (b"/home/me/net/a/b", "nfs4"), (b"/home/me/network", "ext4"),
        (b"/home/me/net/local disk/x", "btrfs"),
    ],
)  # fmt: skip
def test_the_file_system_of_a_path_is_that_of_its_innermost_mount(path: bytes, kind: str) -> None:
    assert file_system_of(path, MOUNTS) == kind


def test_a_local_directory_is_watched_by_inotify(root: Path) -> None:
    observer = make_observer(os.fsencode(root), Clock().now)
    assert isinstance(observer, InotifyObserver)
    observer.start(lambda: None)
    observer.stop()
