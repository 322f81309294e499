"""The store's room, through a real daemon: what is collected, and what goes when the budget is reached."""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError
from support.stored import restore, rows, take, tree_of
from support.trees import Snapshot, difference, put, snapshot

MB = 1_000_000
BUDGET = 20 * MB
#: Of so large a budget, a segment.
SEGMENT = BUDGET // 16


def on_disk(daemon: DaemonFixture) -> int:
    total = 0
    for above, _, names in os.walk(daemon.data_dir):
        for name in names:
            try:
                total += os.stat(os.path.join(above, name)).st_blocks * 512
            except FileNotFoundError:
                pass  # collected at this moment
    return total


class Saves:
    """Saves of random files in one project, each checkpoint remembered with its tree."""

    def __init__(self, daemon: DaemonFixture, project: Path) -> None:
        self.daemon, self.project = daemon, project
        self.random = random.Random(11)
        self.taken: dict[str, Snapshot] = {}
        self.most = 0

    def save(self, number: int, *, size: int = 200_000) -> None:
        put(self.project, b"data/%d.bin" % (number % 8), self.random.randbytes(size))
        self.most = max(self.most, on_disk(self.daemon))

    def checkpoint(self, **options: Any) -> dict[str, Any]:
        made: dict[str, Any] = self.daemon.call("checkpoint.create", project=self.project, **options)["checkpoint"]
        if made["complete"]:
            self.taken[made["id"]] = snapshot(self.project)
        self.most = max(self.most, on_disk(self.daemon))
        return made

    def listed(self) -> list[str]:
        return [one["id"] for one in self.daemon.call("checkpoint.list", project=self.project)["checkpoints"]]

    def nothing_is_wrong(self) -> None:
        """The store is clean, and every checkpoint that is still there has the tree that it had."""
        found = self.daemon.call("store.verify")
        assert found["clean"], found
        for made in self.listed():
            with contextlib.suppress(RpcError):  # forgotten meanwhile
                tree = tree_of(self.daemon, self.project, made)
                assert difference(self.taken.get(made, tree), tree) == []


def begin(daemon: DaemonFixture) -> Saves:
    project = daemon.projects / "p"
    project.mkdir()
    daemon.start()
    put(project, b"f", b"1")
    daemon.call("project.add", project=project)
    return Saves(daemon, project)


@pytest.fixture
def saves() -> Iterator[Saves]:
    daemon = DaemonFixture(config=f"budget_bytes: {BUDGET}\n")
    yield begin(daemon)
    daemon.close()


def test_V3_the_budget_is_kept_with_collections_and_kills(saves: Saves) -> None:
    daemon = saves.daemon
    for number in range(500):
        saves.save(number)
        if number % 5 == 0:
            saves.checkpoint()
        if number % 25 == 12:
            try:
                daemon.call("store.gc")
            except RpcError as error:
                assert error.code == "busy"
        if number % 25 == 24:
            daemon.kill9()
            daemon.start()
            daemon.add(saves.project)
            saves.nothing_is_wrong()
    assert saves.most <= BUDGET + SEGMENT, f"{saves.most / MB:.1f} MB"
    # saves come faster than room can be made: what found none is captured once there is some
    daemon.until(lambda: saves.checkpoint()["complete"], 60, "there is no room yet")
    saves.nothing_is_wrong()
    kept = [made for made in saves.listed() if made in saves.taken]
    assert len(kept) > 1  # how much goes depends on how far the making of room is behind the saves
    oldest = kept[-1]
    restore(daemon, saves.project, oldest)
    assert difference(saves.taken[oldest], snapshot(saves.project)) == []


def test_what_is_kept_in_any_case_may_be_more_than_the_budget_and_then_it_is_said(saves: Saves) -> None:
    daemon, project = saves.daemon, saves.project
    for number in range(60):
        put(project, b"many/%d" % number, saves.random.randbytes(500_000))
        if number % 10 == 0:
            saves.checkpoint()
    made = saves.checkpoint()
    assert not made["complete"]
    assert {item["reason"] for item in made["incomplete_paths"]} == {"no room in the budget"}
    assert saves.most <= BUDGET + SEGMENT
    saves.nothing_is_wrong()
    before = made["incomplete_paths"]
    for number in range(45):
        (project / f"many/{number}").unlink()
    daemon.call("watch.sync")
    made = daemon.until(lambda: saves.checkpoint() if saves.listed() else None)
    done = daemon.until(lambda: saves.checkpoint()["complete"] or None, 60, "there is no room yet")
    assert before and done and made
    assert difference(snapshot(project), tree_of(daemon, project, "latest")) == []


def test_gc_drops_what_is_old_and_says_what_it_freed(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"f", b"0")
    daemon.call("project.add", project=project)
    for number in range(5):
        put(project, b"f", b"%d" % number * 1000)
        take(daemon, project)
    before = rows(daemon, b"f")
    done = daemon.client("gc", "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["versions"] == 0  # all are younger than a day
    assert rows(daemon, b"f") == before
    assert "nothing to free" in daemon.client("gc", cwd=project).stderr
    assert daemon.call("store.verify")["clean"]


POINTS = ["collect.thinned", "collect.condemned", "collect.dropped", "collect.copied", "collect.synced",
          "collect.placed", "collect.snapshot", "collect.unlink"]  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
def test_killed_while_it_makes_room_nothing_is_lost_and_the_next_one_goes_on(point: str) -> None:
    daemon = DaemonFixture(config="budget_bytes: 6000000\n", faults=f"{point}=kill")
    try:
        saves = begin(daemon)
        number = 0
        while not daemon.faults_hit():
            number += 1
            assert number < 5000, "nothing was collected"
            with contextlib.suppress(EOFError, OSError, RpcError):
                saves.save(number)
                if number % 6 == 0:
                    saves.checkpoint()
        assert set(daemon.faults_hit()) == {point}
        daemon.arm("")
        if point in ("collect.copied", "collect.synced"):  # the child's
            assert daemon.running
            daemon.restart()
        else:
            daemon.until(lambda: not daemon.running)
            daemon.start()
        daemon.add(saves.project)
        saves.nothing_is_wrong()
        daemon.until(lambda: on_disk(daemon) < 5_500_000, what="no room was made")
        saves.nothing_is_wrong()
        assert saves.most <= 6_000_000 + (1 << 20)
    finally:
        daemon.close()
