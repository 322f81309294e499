"""kill −9 at named points of a real daemon, each confirmed hit; then nothing that was acknowledged is lost.

Daemons and their projects are reused: one life is many deaths.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError
from support.trees import Snapshot, assert_tree, difference, digest, put, snapshot

pytestmark = pytest.mark.disk

INSIDE_A_BATCH = ["segment.write", "segment.sync", "log.appended", "log.before_fold", "log.folded"]


class Life:
    """A daemon that dies often, with one project and a memory of what was acknowledged."""

    def __init__(self) -> None:
        self.daemon = DaemonFixture()
        self.project = self.daemon.projects / "p"
        self.project.mkdir()
        self.rng = random.Random(7)
        self.acknowledged: dict[str, Snapshot] = {}
        self.number = 0
        for name in (b"a", b"b", b"c/d", b"c/e/f", b"g"):
            put(self.project, name, name * 30 + b"\n")
        os.symlink(b"a", os.path.join(os.fsencode(self.project), b"link"))
        self.daemon.start()
        self.daemon.add(self.project)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.daemon.call(method, project=self.project, **params)

    def take(self, text: str = "") -> str:
        """An acknowledged checkpoint of the tree as it is."""
        made: str = self.call("checkpoint.create", description=text)["checkpoint"]["id"]
        self.acknowledged[made] = snapshot(self.project)
        return made

    def change(self) -> None:
        """A few changes of all kinds; the tree is never one that was there before."""
        self.number += 1
        n = b"%d" % self.number
        root = os.fsencode(self.project)
        put(self.project, b"a", b"a " + n + b"\n" + self.rng.randbytes(200))
        for name in range(6):
            put(self.project, b"many/%d" % name, b"many %d " % name + n)
        put(self.project, b"new/" + n, n + b"\n", self.rng.choice([0o644, 0o600, 0o755]))
        (self.project / "g").unlink(missing_ok=True)
        if self.number % 2:
            put(self.project, b"g", b"g " + n, 0o444)
        os.chmod(os.path.join(root, b"c"), 0o700 if self.number % 2 else 0o755)
        os.unlink(os.path.join(root, b"link"))
        os.symlink(n, os.path.join(root, b"link"))
        if self.number > 2:
            (self.project / f"new/{self.number - 2}").unlink(missing_ok=True)

    def dies_at(self, point: str, count: int, step: Callable[[], object]) -> None:
        """Start armed and repeat a step until the daemon has died at that point, at its start perhaps."""
        if self.daemon.running:
            self.daemon.kill9()
        hits = len(self.daemon.faults_hit())
        self.daemon.arm(f"{point}=kill@{count}")
        self.daemon.start(wait=False)
        process = self.daemon.process
        assert process is not None
        end = time.monotonic() + 30
        while process.poll() is None:
            assert time.monotonic() < end, f"{point}@{count} was not hit\n{self.daemon.log()[-3000:]}"
            try:
                step()
            except RpcError as error:
                assert error.code in ("busy", "not_found"), error
            except (EOFError, OSError):  # not there yet, or dead
                time.sleep(0.005)
        assert process.returncode == -9, self.daemon.log()[-3000:]
        assert self.daemon.faults_hit()[hits:] == [point]
        self.daemon.arm("")

    def comes_back(self) -> None:
        """Start again; what was interrupted is finished or rolled back before anything is answered."""
        self.daemon.start()
        self.daemon.until(lambda: self.daemon._watching(self.project), 30, "the project is not watched again")

    def listed(self) -> dict[str, dict[str, Any]]:
        return {found["id"]: found for found in self.call("checkpoint.list")["checkpoints"]}

    def restore(self, checkpoint: str) -> dict[str, Any]:
        return self.call("checkpoint.restore", id=checkpoint, confirmed=True)

    def tree_of(self, checkpoint: str, project: Path | None = None) -> Snapshot:
        """What the store says that a checkpoint holds."""
        files = self.daemon.call("checkpoint.show", project=project or self.project, id=checkpoint)["files"]
        kinds = {"file": "file", "directory": "dir", "symlink": "link"}
        return {
            found["file_path"].encode(): (
                kinds[found["kind"]],
                found["permissions"] or 0,
                bytes.fromhex(found["hash"] or "") or found.get("target", "").encode(),
            )
            for found in files
            if found["kind"] in kinds and not found["is_deleted"]
        }

    def nothing_is_lost(self) -> None:
        """Every acknowledged checkpoint is there with its tree, and the store is clean."""
        listed = self.listed()
        assert self.acknowledged.keys() <= listed.keys()
        for checkpoint in [*self.acknowledged][-3:]:
            assert difference(self.acknowledged[checkpoint], self.tree_of(checkpoint)) == []
        found = self.daemon.call("store.verify")
        assert found["clean"], found
        ordinals = [each["ordinal"] for each in listed.values()]
        assert len(set(ordinals)) == len(ordinals)


@pytest.fixture(scope="module")
def life() -> Iterator[Life]:
    made = Life()
    yield made
    try:
        # at the very end: every checkpoint that was ever acknowledged still restores to exactly its tree
        if made.daemon.running:
            for checkpoint in made.rng.sample(sorted(made.acknowledged), min(8, len(made.acknowledged))):
                made.call("checkpoint.restore", id=checkpoint, confirmed=True)
                assert_tree(made.project, made.acknowledged[checkpoint])
    finally:
        made.daemon.close()


BATCH = [(point, count) for point in INSIDE_A_BATCH for count in (1, 2, 3)]


@pytest.mark.parametrize(("point", "count"), BATCH)
def test_a_kill_inside_a_batch_loses_nothing_that_was_acknowledged(life: Life, point: str, count: int) -> None:
    life.change()
    life.dies_at(point, count, life.take)
    wanted = snapshot(life.project)
    life.comes_back()
    life.nothing_is_lost()
    assert_tree(life.project, wanted)
    assert life.tree_of(life.take()) == wanted


TAKING = ["checkpoint.before_commit", "checkpoint.committed"]
MANUAL = [*[(point, count) for point in TAKING for count in (1, 2, 3, 4)], ("log.appended", 5), ("log.folded", 5)]


@pytest.mark.parametrize(("point", "count"), MANUAL)
def test_a_kill_while_a_checkpoint_is_taken(life: Life, point: str, count: int) -> None:
    attempts = []

    def step() -> None:
        life.daemon.call("daemon.status")  # it is there
        life.change()
        attempts.append(snapshot(life.project))
        life.take()

    before = life.take()
    known = life.listed().keys()
    life.dies_at(point, count, step)
    wanted = snapshot(life.project)
    life.comes_back()
    life.nothing_is_lost()
    listed = life.listed()
    unanswered = listed.keys() - life.acknowledged.keys() - known
    assert len(unanswered) <= 1
    if point == "checkpoint.committed":
        assert [life.tree_of(each) for each in unanswered] == attempts[-1:], "it was durable, the answer was lost"
    assert before in listed
    after = life.take()
    assert life.tree_of(after) == wanted
    assert life.listed()[after]["parent_checkpoint_id"] in listed


@pytest.mark.parametrize("point", ["baseline.done", "checkpoint.before_commit", "checkpoint.committed"])
def test_a_kill_at_the_baseline_of_a_new_project(life: Life, point: str) -> None:
    project = life.daemon.projects / f"new-{point}"
    for number in range(5):
        put(project, b"d%d/file" % number, b"%d\n" % number)
    wanted = snapshot(project)
    life.dies_at(point, 1, lambda: life.daemon.call("project.add", project=project))
    life.comes_back()
    life.nothing_is_lost()
    life.daemon.add(project)
    listed = life.daemon.call("checkpoint.list", project=project)["checkpoints"]
    assert [each["trigger"] for each in listed] == ["baseline"]
    made = life.daemon.call("checkpoint.create", project=project)["checkpoint"]["id"]
    assert life.tree_of(made, project) == wanted
    life.daemon.call("project.remove", project=project)


RESTORE = [
    ("checkpoint.before_commit", 1, "old"),
    ("checkpoint.committed", 1, "old"),
    ("restore.begin", 1, "old"),
    *[("restore.staging", count, "old") for count in (1, 2, 4)],
    ("restore.staged", 1, "target"),
    *[("restore.applying", count, "target") for count in range(1, 10)],
    ("restore.applied", 1, "target"),
    ("restore.before_done", 1, "target"),
    ("restore.before_done_commit", 1, "target"),
    ("restore.done", 1, "target"),
    *[("segment.sync", count, "either") for count in (3, 4, 5, 6)],
]


@pytest.mark.parametrize(("point", "count", "ends"), RESTORE)
def test_R8_a_kill_in_a_restore_leaves_the_old_or_the_target_tree(
    life: Life, point: str, count: int, ends: str
) -> None:
    target = life.take("target")
    life.change()
    life.change()
    old_checkpoint = life.take("old")
    old, wanted = life.acknowledged[old_checkpoint], life.acknowledged[target]
    assert digest(old) != digest(wanted)
    life.dies_at(point, count, lambda: life.restore(target))
    life.comes_back()
    found = snapshot(life.project)
    allowed = {"old": [old], "target": [wanted], "either": [old, wanted]}[ends]
    assert found in allowed, difference(allowed[0], found)
    life.nothing_is_lost()
    ways_back = [each for each in life.listed().values() if each["trigger"] == "pre_restore"]
    if (point, ends) != ("checkpoint.before_commit", "old") and ends != "either":
        assert life.tree_of(max(ways_back, key=lambda each: each["ordinal"])["id"]) == old
    done = life.restore(target)
    assert done["pre_restore_checkpoint_id"] in life.listed()
    assert_tree(life.project, wanted)
    assert not list(life.project.glob(".mulligan-*"))
    assert os.listdir(life.daemon.data_dir / "staging") == []


@pytest.mark.parametrize(
    ("first", "then", "count"),
    [("restore.staged", "restore.applying", 1), ("restore.staged", "restore.applying", 4),
     ("restore.applying", "restore.applying", 2), ("restore.applying", "restore.applied", 1),
     ("restore.applied", "restore.before_done", 1)],
)  # fmt: skip
def test_R8_a_kill_of_the_recovery_is_recovered_from(life: Life, first: str, then: str, count: int) -> None:
    target = life.take("target")
    life.change()
    life.take("old")
    life.dies_at(first, 3 if first == "restore.applying" else 1, lambda: life.restore(target))
    life.dies_at(then, count, lambda: life.daemon.call("daemon.status"))
    life.comes_back()
    assert_tree(life.project, life.acknowledged[target])
    life.nothing_is_lost()
    undone = life.call("operation.undo", confirmed=True)
    assert undone["operation_id"]
    life.change()
    assert life.tree_of(life.take()) == snapshot(life.project)


@pytest.mark.parametrize(("point", "count"), [("checkpoint.before_commit", 2), ("checkpoint.committed", 2)])
def test_a_kill_at_the_checkpoint_after_a_restore_of_some_paths(life: Life, point: str, count: int) -> None:
    target = life.take("target")
    life.change()
    life.take("old")
    life.dies_at(point, count, lambda: life.call("checkpoint.restore", id=target, paths=["a"], confirmed=True))
    life.comes_back()
    assert snapshot(life.project)[b"a"] == life.acknowledged[target][b"a"]
    life.nothing_is_lost()


def test_the_kills_were_as_many_as_they_should_be(life: Life) -> None:
    """At least 15 inside batch, checkpoint and restore each, and 50 in all; each was confirmed by the fault log."""
    hit = life.daemon.faults_hit()
    if len(hit) < 40:
        pytest.skip("only a part of this file was run")
    batch = sum(point in INSIDE_A_BATCH for point in hit)
    checkpoint = sum(point.startswith(("checkpoint.", "baseline.")) for point in hit)
    restore = sum(point.startswith("restore.") for point in hit)
    assert (batch >= 15, checkpoint >= 15, restore >= 15, len(hit) >= 50) == (True, True, True, True), hit
