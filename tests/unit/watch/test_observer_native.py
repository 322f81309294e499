"""watchdog's own observer behind our interface: what is ours about it, the cookie above all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from watchdog.events import FileSystemEventHandler

from mulligan.clock import Clock
from mulligan.model import RelPath
from mulligan.watch.generic import GenericObserver

pytestmark = pytest.mark.disk


@pytest.fixture
def observer(tmp_path: Path) -> Iterator[GenericObserver]:
    (tmp_path / "seen").mkdir()
    (tmp_path / "unseen").mkdir()
    made = GenericObserver(os.fsencode(tmp_path), Clock().now)
    made.start(lambda: None)
    made.watch(b"")
    made.watch(b"seen")
    yield made
    made.stop()


def test_the_cookie_comes_after_what_was_written_before_it(observer: GenericObserver, tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"seen/file{number}").write_text("x")
        (tmp_path / f"unseen/file{number}").write_text("x")
        assert observer.barrier(10)
        told = observer.drain().entries
        assert RelPath(b"seen/file%d" % number) in told
        assert [path for path in told if path.startswith((b"unseen/", b".mulligan-"))] == []


def test_no_cookie_is_left_behind(observer: GenericObserver, tmp_path: Path) -> None:
    assert observer.barrier(10)
    assert sorted(os.listdir(tmp_path)) == ["seen", "unseen"]


def test_a_barrier_whose_event_does_not_come_is_not_kept(tmp_path: Path) -> None:
    class Deaf:
        """An observer that tells of nothing."""

        def schedule(self, handler: FileSystemEventHandler, path: str, *, recursive: bool) -> None:
            self.asked = (handler, path, recursive)

        def start(self) -> None:
            self.started = True

    observer = GenericObserver(os.fsencode(tmp_path), Clock().now, Deaf)
    observer.start(lambda: None)
    observer.watch(b"")
    assert not observer.barrier(0.05)
    assert os.listdir(tmp_path) == []


def test_a_root_that_is_not_there_is_gone(tmp_path: Path) -> None:
    observer = GenericObserver(os.fsencode(tmp_path / "nothing"), Clock().now)
    observer.start(lambda: None)
    assert observer.root_gone
    assert not observer.barrier(0.05)
    observer.stop()
