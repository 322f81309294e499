"""The search index is built beside the daemon when it is worth a process, and not otherwise."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.store import search_index
from mulligan.store.search_index import SearchIndex
from mulligan.store.store import Store
from mulligan.supervisor import indexing
from mulligan.supervisor.indexing import Indexing
from support.storing import add_project, opened, write

BUDGET = 1 << 30


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path / "store") as made:
        add_project(made)
        yield made


def fill(store: Store, count: int) -> None:
    start = store.catalogue().meta("seq")
    write(store, {b"f%d" % number: b"words of %d\n" % number for number in range(start, start + count)})


def pending(store: Store) -> int:
    index = SearchIndex(store.directory, store.catalogue(), store.contents, BUDGET)
    try:
        return index.state().pending
    finally:
        index.close()


def test_what_is_little_starts_no_process(store: Store) -> None:
    job = Indexing(store, lambda: BUDGET)
    fill(store, 199)
    asyncio.run(job.look())
    assert not Path(store.directory, search_index.NAME).exists()
    fill(store, 1)
    asyncio.run(job.look())
    assert pending(store) == 0
    fill(store, 199)
    asyncio.run(job.look())
    assert pending(store) == 199


def test_while_a_scan_or_a_restore_makes_rows_it_is_waited_for(store: Store) -> None:
    job = Indexing(store, lambda: BUDGET)
    asyncio.run(job.look())
    fill(store, 1000)
    asyncio.run(job.look())
    assert not Path(store.directory, search_index.NAME).exists()
    fill(store, 999)
    asyncio.run(job.look())
    assert pending(store) == 0


def test_a_child_ends_with_the_job(store: Store) -> None:
    for _ in range(10):
        fill(store, 500)

    async def cancelled() -> None:
        job = asyncio.ensure_future(Indexing(store, lambda: BUDGET).look())
        while not Path(store.directory, search_index.NAME).exists():
            await asyncio.sleep(0.01)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job

    asyncio.run(cancelled())
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    commands = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children]
    assert not any(b"search_child" in command for command in commands)


def test_a_child_that_fails_is_told_of_and_tried_again(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    fill(store, 200)
    job = Indexing(store, lambda: "no number")  # type: ignore[arg-type,return-value]
    for _ in range(2):
        asyncio.run(job.look())
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "the process that builds the search index ended with status 1"
    ] * 2


def test_without_trigrams_it_is_said_once(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "lacks", lambda: "SQLite 3.31 has none")
    fill(store, 200)
    job = Indexing(store, lambda: BUDGET)
    for _ in range(2):
        asyncio.run(job.look())
    assert [record.message for record in caplog.records] == ["nothing is indexed for searches: SQLite 3.31 has none"]


def test_an_index_that_was_thrown_away_is_built_again(store: Store) -> None:
    fill(store, 300)
    job = Indexing(store, lambda: BUDGET)
    asyncio.run(job.look())
    search_index.remove(str(Path(store.directory, search_index.NAME)))
    asyncio.run(job.look())
    assert pending(store) == 0
