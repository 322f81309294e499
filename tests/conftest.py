"""Fixtures of all tests: a daemon of one's own, a project directory, and no look at the person's own files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from support.daemon import DaemonFixture

_PRIVATE = ("CLAUDE_CONFIG_DIR", "MULLIGAN_CONFIG", "MULLIGAN_SOCKET", "MULLIGAN_DATA_DIR", "MULLIGAN_STATE_DIR")

# How long an example takes says how busy the machine is.
settings.register_profile("mulligan", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mulligan")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files with few and long tests come first, so that at the end nobody waits for the last of them."""
    items.sort(key=lambda item: "property" not in item.path.parts)


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that asks for the home directory gets an empty one."""
    home = tmp_path_factory.getbasetemp() / "home"
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    for name in (*_PRIVATE, "MULLIGAN_STATE_DB", "MULLIGAN_FAULTS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def daemon_factory() -> Iterator[Callable[..., DaemonFixture]]:
    """Make daemons (`DaemonFixture(**options)`, started unless `start=False`); all are ended with the test."""
    made: list[DaemonFixture] = []

    def make(*, start: bool = True, **options: object) -> DaemonFixture:
        fixture = DaemonFixture(**options)  # type: ignore[arg-type]
        made.append(fixture)
        return fixture.start() if start else fixture

    yield make
    errors = []
    for fixture in made:
        try:
            fixture.close()
        except AssertionError as error:
            errors.append(error)
    if errors:
        raise errors[0]


@pytest.fixture
def daemon(daemon_factory: Callable[..., DaemonFixture]) -> DaemonFixture:
    """A running daemon."""
    return daemon_factory()


@pytest.fixture
def project(daemon: DaemonFixture) -> Path:
    """An empty project directory beside the daemon's own; it is not added yet."""
    root = daemon.projects / "project"
    root.mkdir()
    return root
