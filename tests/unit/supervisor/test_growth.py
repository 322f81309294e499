"""The growth that `status` warns by is reckoned when something was stored, and not otherwise."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mulligan.control.handlers import usage
from mulligan.control.library import Library
from mulligan.errors import MulliganError
from mulligan.store.store import Store
from mulligan.supervisor.growth import Growth
from support.storing import add_project, opened, write


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path / "store") as made:
        add_project(made)
        yield made


@pytest.fixture
def services(store: Store) -> Any:
    def library(project: int) -> Library:
        return Library(store.directory, store.catalogue(), store.contents, project, 0)

    return SimpleNamespace(store=store, budget=1 << 30, library=library, growth=-1)


def test_it_is_reckoned_once_for_what_is_there(store: Store, services: Any) -> None:
    job = Growth(services)
    asyncio.run(job.look())
    assert services.growth is None  # of less than a day
    services.growth = -1
    asyncio.run(job.look())
    assert services.growth == -1
    write(store, {b"a": b"1"})
    asyncio.run(job.look())
    assert services.growth is None


def test_a_failure_is_told_and_tried_again(
    services: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> dict[str, Any]:
        raise MulliganError("an answering process ended with status 1")

    monkeypatch.setattr(usage, "answer", fails)
    job = Growth(services)
    for _ in range(2):
        asyncio.run(job.look())
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "the growth of the store is not known: an answering process ended with status 1"
    ] * 2
