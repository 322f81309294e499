"""A snapshot of the catalogue is written once a day, and only if something came."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.clock import NANOSECONDS
from mulligan.store.snapshot import snapshots
from mulligan.store.store import Store
from mulligan.supervisor.snapshots import Snapshots
from support.storing import add_project, opened

DAY = 24 * 3600 * NANOSECONDS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path / "store") as made:
        add_project(made)
        yield made


def look(store: Store, later: int = 0) -> list[int]:
    """What there is after a look, so much later."""
    store.clock.correction += later
    asyncio.run(Snapshots(store).look())
    return snapshots(store.pool)


def test_it_is_written_when_the_last_one_is_a_day_old(store: Store) -> None:
    assert look(store) == []
    assert look(store, DAY - NANOSECONDS * 3600) == []
    first = look(store, NANOSECONDS * 3600)
    assert first == [store.log.batch]
    assert look(store, 2 * DAY) == first, "nothing came since"
    store.log_end()
    assert look(store) == [store.log.batch, *first], "what the last one holds is two days old"
    store.log_end()
    assert len(look(store)) == 2
    for _ in range(4):
        store.log_end()
        look(store, DAY)
    assert len(snapshots(store.pool)) == 3


def test_none_is_written_while_the_store_is_reorganized_or_read_only(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with store.reorganizing():
        assert look(store, DAY) == []
    assert "is being reorganized" in caplog.text
    store.log.damage = "it is damaged"
    assert look(store) == []
    store.log.damage = ""
    assert look(store) == [store.log.batch]


def test_a_failure_is_told_and_tried_again(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("MULLIGAN_FAULTS", "snapshot.checked=enospc")
        assert look(store, DAY) == []
    assert "could not be written: [Errno 28]" in caplog.text
    assert look(store) == [store.log.batch]
