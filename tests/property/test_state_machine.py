"""Random lives of a project, through the socket of a real daemon, against a model in memory.

`STATE_MACHINE_STEPS` says how many steps are made (2,000 without it); with `STATE_MACHINE_SHRINK=1` a failure is made
small, which takes minutes. Every example ends with a restart, clean or by kill −9, after which every checkpoint is
looked at again.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mulligan.clock import to_rfc3339
from support.daemon import DaemonFixture
from support.model import Dir, Disk, File, Link, Model, Tree, as_snapshot, below
from support.trees import assert_tree

pytestmark = pytest.mark.disk

STEPS = int(os.environ.get("STATE_MACHINE_STEPS", "2000"))
STEPS_PER_EXAMPLE = 70
#: In one run of Hypothesis; runs follow until the steps are made.
EXAMPLES = 12
SHRINK = bool(os.environ.get("STATE_MACHINE_SHRINK"))
#: A moment and the changes around it are this far apart: coarse clocks of file systems tick every 4 ms.
APART_SECONDS = 0.02

odd_names = [b"a_b", b"a\\b", b"new\nline", b"\xff", b" lead", b"-rf", b"trail ", "é".encode(), b".env", b"x" * 200]
names = st.sampled_from([b"a", b"b", b"A", *odd_names])


def _lines(seed: int, count: int) -> bytes:
    return b"".join(b"%d %d\n" % (seed, line) for line in range(count))


contents = st.one_of(st.binary(max_size=40), st.builds(_lines, st.integers(0, 3), st.integers(0, 900)))
modes = st.sampled_from([0o644, 0o600, 0o755, 0o444])
picks = st.integers(0, 10_000)


class ProjectLife(RuleBasedStateMachine):
    """One project of the shared daemon."""

    daemon: ClassVar[DaemonFixture]
    counts: ClassVar[Counter[str]] = Counter()
    numbers: ClassVar[Any] = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.root = Path()
        self.restarted = False
        # Paths that were changed around a restart, between two barriers.
        self.away: set[bytes] = set()
        self.gap = False

    @initialize()
    def begin(self) -> None:
        if not self.daemon.running:
            self.daemon.start()
        self.root = self.daemon.projects / f"p{next(self.numbers)}"
        self.root.mkdir()
        self.disk = Disk(self.root, self.model)
        self.session = str(uuid.uuid4())
        self.daemon.add(self.root)
        self.daemon.call("settings.set", key="strategy", value="per_prompt", scope="project", project=self.root)

    # The person, the agent, the scripts: whatever changes files.

    def _free(self, pick: int, name: bytes) -> bytes | None:
        """A path where nothing is, in one of the directories."""
        directories = [b"", *sorted(path for path, node in self.model.tree.items() if isinstance(node, Dir))]
        above = directories[pick % len(directories)]
        path = above + b"/" + name if above else name
        return None if path in self.model.tree or path.count(b"/") > 3 else path

    def _some(self, pick: int, *kinds: type) -> bytes | None:
        found = sorted(path for path, node in self.model.tree.items() if isinstance(node, kinds))
        return found[pick % len(found)] if found else None

    @rule(pick=picks, name=names, data=contents, mode=modes, atomic=st.booleans())
    def create(self, pick: int, name: bytes, data: bytes, mode: int, atomic: bool) -> None:
        if path := self._free(pick, name):
            self.disk.write(path, data, mode, atomic=atomic)

    @rule(pick=picks, data=contents, mode=modes, atomic=st.booleans())
    def rewrite(self, pick: int, data: bytes, mode: int, atomic: bool) -> None:
        if path := self._some(pick, File, Link):
            self.disk.write(path, data, mode, atomic=atomic)

    @rule(pick=picks, name=names, mode=st.sampled_from([0o755, 0o700, 0o750]))
    def make_directory(self, pick: int, name: bytes, mode: int) -> None:
        if path := self._free(pick, name):
            self.disk.mkdir(path, mode)

    @rule(pick=picks, name=names, text=st.sampled_from([b"a", b"../..", b"/etc/passwd", b"no where", b"\xff"]))
    def make_link(self, pick: int, name: bytes, text: bytes) -> None:
        if path := self._free(pick, name):
            self.disk.symlink(path, text)

    @rule(pick=picks, mode=modes)
    def change_mode(self, pick: int, mode: int) -> None:
        if path := self._some(pick, File):
            self.disk.chmod(path, mode)

    @rule(pick=picks)
    def remove(self, pick: int) -> None:
        if path := self._some(pick, File, Dir, Link):
            self.disk.remove(path)

    @rule(pick=picks, to=picks, name=names)
    def rename(self, pick: int, to: int, name: bytes) -> None:
        old, new = self._some(pick, File, Dir, Link), self._free(to, name)
        if old and new and not new.startswith(old + b"/"):
            self.disk.rename(old, new)

    # What mulligan is asked for.

    @rule(pin=st.booleans())
    def checkpoint(self, pin: bool) -> None:
        made = self.daemon.call("checkpoint.create", project=self.root, description="by hand", pin=pin)["checkpoint"]
        self._barrier()
        assert made["complete"], made["incomplete_paths"]
        assert made["pinned"] == pin
        if self.model.current is not None:
            assert made["parent_checkpoint_id"] == self.model.current
        self.model.took(made["id"])
        self.model.current = made["id"]
        self._holds(made["id"])

    @precondition(lambda self: self.model.checkpoints)
    @rule(pick=picks)
    def restore(self, pick: int) -> None:
        identity = self._checkpoint(pick)
        done = self.daemon.call("checkpoint.restore", project=self.root, id=identity, confirmed=True)
        self._barrier()
        assert not done["plan"]["kept"]
        assert not done["plan"]["skipped"]
        self.model.took(done["pre_restore_checkpoint_id"])
        self.model.restored(self.model.checkpoints[identity])
        self.model.current = identity

    @precondition(lambda self: self.model.checkpoints)
    @rule(pick=picks, which=picks)
    def restore_one_path(self, pick: int, which: int) -> None:
        identity = self._checkpoint(pick)
        target = self.model.checkpoints[identity]
        paths = sorted(path for path in target.keys() | self.model.tree.keys() if _utf8(path))
        if not paths:
            return
        path = paths[which % len(paths)]
        after = self.model.with_path_of(target, path)
        if after is None or not all(_utf8(each) for each in below(target, path) + below(self.model.tree, path)):
            return
        note(f"path {path!r}")
        done = self.daemon.call(
            "checkpoint.restore", project=self.root, id=identity, paths=[path.decode()], confirmed=True
        )
        self.model.took(done["pre_restore_checkpoint_id"])
        self.model.restored(after)
        self.model.current = None

    @precondition(lambda self: self.model.last is not None and self.model.reversal() is not None)
    @rule()
    def undo_or_redo(self) -> None:
        assert self.model.last is not None
        if self.model.last.before == self.model.last.after:
            return
        method = "operation.redo" if self.model.last.undone else "operation.undo"
        note(method)
        done = self.daemon.call(method, project=self.root, confirmed=True)
        self._barrier()
        assert not done["conflicts"]
        self.model.reversed_last()
        self.model.current = None

    # Lines of a transcript that reach the disk later than the files that they precede.

    @precondition(lambda self: len(self.model.moments) < 3)
    @rule()
    def moment(self) -> None:
        self.daemon.call("watch.sync", project=self.root)
        self._barrier()
        time.sleep(APART_SECONDS)
        self.model.moments.append((time.time_ns(), dict(self.model.tree)))
        time.sleep(APART_SECONDS)

    @precondition(lambda self: self.model.moments)
    @rule(pick=picks, works_on=st.integers(0, 9))
    def late_line(self, pick: int, works_on: int) -> None:
        when, tree = self.model.moments.pop(pick % len(self.model.moments))
        identity = self._say("do it", when)
        if works_on:  # mostly the person interrupts at once: a restore waits two seconds for an agent at work
            self._say([{"type": "text", "text": "[Request interrupted by user]"}], when)
        made = self.daemon.until(lambda: self._of_line(identity), 5, "the prompt's checkpoint is not there")
        assert (made["trigger"], made["placement"]) == ("prompt", "timestamp")
        self._barrier()
        # What was changed while nobody looked may have changed before the moment: the daemon has to say so.
        assert {_path(item, "path") for item in made["incomplete_paths"]} <= self.away
        self.model.checkpoints[made["id"]] = tree
        self.model.current = None
        self._holds(made["id"])

    def _say(self, content: str | list[dict[str, str]], when: int) -> str:
        """A line of the session that somebody hands to the daemon; its id."""
        identity = str(uuid.uuid4())
        line = {
            "parentUuid": None,
            "isSidechain": False,
            "userType": "external",
            "cwd": str(self.root),
            "sessionId": self.session,
            "version": "2.1.100",
            "gitBranch": "",
            "type": "user",
            "message": {"role": "user", "content": content},
            "uuid": identity,
            "timestamp": to_rfc3339(when),
        }
        self.daemon.call("message.track", session=self.session, project=self.root, line=json.dumps(line))
        return identity

    @precondition(lambda self: not self.restarted)
    @rule(kill=st.booleans(), chance=st.integers(0, 9), names_=st.lists(names, max_size=2, unique=True))
    def restart(self, kill: bool, chance: int, names_: list[bytes]) -> None:
        if chance:
            return
        self.restarted = True
        if kill:
            self.daemon.kill9()
        else:
            assert self.daemon.stop() == 0
        for name in names_:
            if path := self._free(0, name):
                self.disk.write(path, b"written while away\n", 0o644, atomic=False)
        self.daemon.start()
        self.gap = True
        self.counts["restarts"] += 1

    def _barrier(self) -> None:
        """All that happened before is captured; what happened around a restart is found by a scan, late."""
        if self.gap:
            self.away |= self.disk.touched
        self.disk.touched.clear()
        self.gap = False

    # What must hold.

    @invariant()
    def the_disk_is_the_model(self) -> None:
        self.counts["steps"] += 1
        if self.root.name:
            assert_tree(self.root, as_snapshot(self.model.tree))

    def teardown(self) -> None:
        if not self.root.name:
            return
        self.daemon.restart(kill=self.counts["examples"] % 2 == 0)
        self.counts["restarts"] += 1
        self.counts["examples"] += 1
        there = {item["id"] for item in self._list()}
        assert self.model.checkpoints.keys() <= there, "an acknowledged checkpoint is lost"
        for identity in self.model.checkpoints:
            self._holds(identity)
        assert_tree(self.root, as_snapshot(self.model.tree))
        self.daemon.call("project.remove", project=self.root)

    def _checkpoint(self, pick: int) -> str:
        # In the order of making: ids are random, and Hypothesis must be able to make the same steps again.
        identities = list(self.model.checkpoints)
        return identities[pick % len(identities)]

    def _list(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.daemon.call("checkpoint.list", project=self.root)["checkpoints"]
        return found

    def _of_line(self, identity: str) -> dict[str, Any] | None:
        return next((item for item in self._list() if item["message_uuid"] == identity), None)

    def _holds(self, identity: str) -> None:
        """The daemon's list of the checkpoint's files is the model's."""
        shown = self.daemon.call("checkpoint.show", project=self.root, id=identity)["files"]
        found = {_path(item): (item["hash"], item["permissions"]) for item in shown if item["kind"] == "file"}
        expected = {
            path: (hashlib.sha256(node.data).hexdigest(), node.mode)
            for path, node in self.model.checkpoints[identity].items()
            if isinstance(node, File)
        }
        assert found == expected
        links = {_path(item) for item in shown if item["kind"] == "symlink"}
        assert links == _paths_of(self.model.checkpoints[identity], Link)


def _paths_of(tree: Tree, kind: type) -> set[bytes]:
    return {path for path, node in tree.items() if isinstance(node, kind)}


def _path(item: dict[str, Any], key: str = "file_path") -> bytes:
    coded = item.get(f"{key}_b64")
    return base64.b64decode(coded) if coded else item[key].encode()


def _utf8(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.timeout(900)
def test_any_life_of_a_project(daemon: DaemonFixture) -> None:
    ProjectLife.daemon = daemon
    ProjectLife.counts.clear()
    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS_PER_EXAMPLE,
        deadline=None,
        database=None,
        print_blob=True,
        phases=tuple(Phase) if SHRINK else (Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    # Hypothesis ends some examples early, so it is the steps that are counted.
    while ProjectLife.counts["steps"] < STEPS:
        run_state_machine_as_test(ProjectLife, settings=chosen)
    print(dict(ProjectLife.counts))
    assert ProjectLife.counts["restarts"] >= STEPS // 100
