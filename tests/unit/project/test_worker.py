"""A worker's life: what it says of itself when it no longer watches."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.errors import BusyError, RefusedError
from mulligan.events import Bus
from mulligan.journal.capture import Limits
from mulligan.project.worker import ProjectWorker
from mulligan.store.store import Store
from mulligan.watch.ignore import IgnoreRules
from mulligan.watch.observer import make_observer
from support.storing import add_project, opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path / "store") as store:
        yield store


def started(store: Store, root: Path) -> ProjectWorker:
    root.mkdir()
    project = add_project(store, path=os.fsencode(root))
    worker = ProjectWorker(store, project, Bus(store.clock.now), Limits(1 << 20), IgnoreRules, make_observer)
    worker.start()
    worker.call(worker.sync).result()
    assert worker.health.state == "watching"
    return worker


def test_who_was_stopped_is_not_watching(store: Store, tmp_path: Path) -> None:
    worker = started(store, tmp_path / "project")
    worker.stop()
    assert (worker.health.state, worker.observer) == ("stopped", None)


@pytest.mark.parametrize("paused", [False, True])
def test_what_still_waits_when_a_worker_stops_is_refused_and_nothing_begins_anew(
    store: Store, tmp_path: Path, paused: bool
) -> None:
    worker = started(store, tmp_path / "project")
    if paused:
        worker.call(worker.pause).result()
    gate, busy = threading.Event(), threading.Event()

    def work() -> None:
        busy.set()
        gate.wait()

    worker.call(work)
    waiting = [worker.call(worker.sync), worker.call(worker.resume)]
    stopping = threading.Thread(target=worker.stop)
    busy.wait()
    stopping.start()
    with pytest.raises(BusyError, match="stopping"):
        while True:  # until nothing new is taken
            waiting.append(refused := worker.call(lambda: None))
            if refused.done():
                waiting.pop().result()
    gate.set()
    stopping.join()
    assert isinstance(waiting[0].exception(), RefusedError if paused else BusyError)
    assert waiting[1].exception() is None
    assert (worker.health.state, worker.observer) == ("paused" if paused else "stopped", None)


def test_who_is_paused_or_gone_stays_so_when_stopped(store: Store, tmp_path: Path) -> None:
    worker = started(store, tmp_path / "project")
    worker.call(worker.pause).result()
    worker.stop()
    assert worker.health.state == "paused"


def test_a_worker_that_died_takes_nothing_up_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = started(store, tmp_path / "project")
    monkeypatch.setattr(worker, "_check_root", lambda: 1 / 0)
    worker.call(lambda: None)
    worker._thread.join()
    monkeypatch.undo()
    assert (worker.health.state, worker.observer) == ("failed", None)
    with pytest.raises(BusyError):
        worker.call(worker.sync).result()
