"""A budget of one project, through a real daemon: what goes is its own, and what finds no room is said."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError
from support.stored import restore
from support.trees import difference, put, snapshot

BUDGET = 4 << 20


class Saving:
    """Two projects; one has a budget."""

    def __init__(self, daemon: DaemonFixture) -> None:
        self.daemon, self.random = daemon, random.Random(5)
        self.small, self.free = daemon.projects / "small", daemon.projects / "free"
        daemon.start()
        for project in (self.small, self.free):
            project.mkdir()
            put(project, b"f", b"1")
            daemon.call("project.add", project=project)

    def share(self, project: Path) -> dict[str, Any]:
        found: list[dict[str, Any]] = self.daemon.call("store.usage", project=project)["projects"]
        return next(each for each in found if each["path"] == str(project))

    def save(self, project: Path, count: int, size: int = 100_000) -> None:
        for number in range(count):
            put(project, b"data/%d" % (number % 4), self.random.randbytes(size))
            self.daemon.call("checkpoint.create", project=project)

    def listed(self, project: Path) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.daemon.call("checkpoint.list", project=project)["checkpoints"]
        return found


@pytest.fixture
def saving() -> Iterator[Saving]:
    daemon = DaemonFixture()
    yield Saving(daemon)
    daemon.close()


def test_V3_a_projects_budget_is_kept_and_others_lose_nothing(saving: Saving) -> None:
    daemon = saving.daemon
    daemon.call("settings.set", project=saving.small, key="project_budget_bytes", value="4 MiB")
    saving.save(saving.free, 30)
    kept = [made["id"] for made in saving.listed(saving.free)]
    most = 0
    for _ in range(12):
        saving.save(saving.small, 10)
        most = max(most, saving.share(saving.small)["bytes"])
    assert 3 << 20 < most <= BUDGET
    assert saving.share(saving.small)["budget_bytes"] == BUDGET
    assert saving.share(saving.free)["budget_bytes"] is None
    assert [made["id"] for made in saving.listed(saving.free)] == kept
    assert 5 < len(saving.listed(saving.small)) < 110  # those without a new content take next to nothing
    assert daemon.call("store.verify")["clean"]
    oldest, tree = saving.listed(saving.free)[-1]["id"], snapshot(saving.free)
    restore(daemon, saving.free, oldest)
    daemon.call("operation.undo", project=saving.free, confirmed=True)
    assert difference(tree, snapshot(saving.free)) == []


def test_what_has_no_room_in_its_projects_budget_is_named_and_comes_when_there_is_some(saving: Saving) -> None:
    daemon = saving.daemon
    daemon.call("settings.set", project=saving.small, key="project_budget_bytes", value=BUDGET)
    for number in range(8):
        put(saving.small, b"many/%d" % number, saving.random.randbytes(1_000_000))
    made = daemon.call("checkpoint.create", project=saving.small)["checkpoint"]
    assert not made["complete"]
    assert {item["reason"] for item in made["incomplete_paths"]} == {"no room in the project's budget"}
    put(saving.free, b"more", saving.random.randbytes(1_000_000))
    assert daemon.call("checkpoint.create", project=saving.free)["checkpoint"]["complete"]
    daemon.until(lambda: "makes room" in daemon.client("status", cwd=saving.small).stdout)
    daemon.call("settings.set", project=saving.small, key="project_budget_bytes", value="1 GiB")

    def whole() -> bool:
        return bool(daemon.call("checkpoint.create", project=saving.small)["checkpoint"]["complete"])

    daemon.until(whole, 60, "it was not looked at again")


def test_V3_status_names_a_file_for_which_no_room_can_be_made(saving: Saving) -> None:
    daemon = saving.daemon

    def warnings() -> list[str]:
        daemon.call("watch.sync")
        return [each for each in daemon.call("daemon.status")["warnings"] if "no room" in each]

    daemon.call("settings.set", project=saving.small, key="project_budget_bytes", value=BUDGET)
    put(saving.small, b"large", saving.random.randbytes(2 * BUDGET))
    way_out = "a larger budget, or less to keep, makes room"
    daemon.until(lambda: warnings() == [f"{saving.small}: there was no room for the last version of large; {way_out}"])
    put(saving.small, b"large", b"small")
    daemon.until(lambda: warnings() == [])


def test_the_configuration_gives_each_project_its_budget() -> None:
    daemon = DaemonFixture(config="project_budget_bytes: 4 MiB\n")
    try:
        saving = Saving(daemon)
        daemon.call("settings.set", project=saving.free, key="project_budget_bytes", value="1 GiB")
        for project in (saving.small, saving.free):
            saving.save(project, 60)
        assert saving.share(saving.small)["bytes"] <= BUDGET
        assert saving.share(saving.free)["bytes"] > BUDGET
        found = daemon.client("settings", "get", "project_budget_bytes", "--json", cwd=saving.small)
        setting = {"value": BUDGET, "source": "config"}
        assert json.loads(found.stdout)["settings"] == {"project_budget_bytes": setting}
        text = daemon.client("usage", cwd=saving.small).stdout
        assert "4.0 MiB" in text, text
        daemon.restart()  # what it takes is measured anew
        daemon.add(saving.small)
        saving.save(saving.small, 20)
        assert saving.share(saving.small)["bytes"] <= BUDGET
    finally:
        daemon.close()


@pytest.mark.parametrize("value", ["12", "1000kB", "much", "-1", True, 0.5])
def test_a_bad_budget_is_refused(saving: Saving, value: object) -> None:
    with pytest.raises(RpcError) as error:
        saving.daemon.call("settings.set", project=saving.small, key="project_budget_bytes", value=value)
    assert error.value.code in ("usage", "protocol")


def test_a_session_has_no_budget_of_its_own(saving: Saving) -> None:
    done = saving.daemon.client("settings", "set", "project_budget_bytes", "2GiB", "--session", "x", cwd=saving.small)
    assert done.returncode in (2, 5), done
