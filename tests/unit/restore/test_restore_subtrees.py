"""New directories are staged whole and moved at once, and are as if all in them had been put there one by one.

All of it holds whether they are staged in this process or by children.
"""

from __future__ import annotations

import errno
import os
import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan import faults
from mulligan.errors import MulliganError
from mulligan.model import Kind
from mulligan.restore import apply, exchange
from mulligan.restore.plan import Outcome, Plan
from mulligan.restore.run import Proven
from mulligan.restore.stage import MANY
from mulligan.restore.staging_children import StagingChildren
from mulligan.store.encoding import encode
from mulligan.store.store import Store
from support.restoring import Bench, Listing, RecordingLog, directory, file, link
from support.storing import armed, opened

#: From linux/posix_acl_xattr.h: tag, permissions, id.
_ACL_HEADER, _ACL_ENTRY = "<I", "<HHI"
_EVERYBODY = 0xFFFFFFFF


class StoredBench(Bench):
    """A bench whose contents children find in a store; what is damaged is not in it."""

    def __init__(self, base: Path, store: Store, children: type[StagingChildren] = StagingChildren) -> None:
        super().__init__(base)
        self.store = store
        self.stager = children(store.pool, store.catalogue_path)

    def apply(
        self, plan: Plan, *, force: bool = False, staging: bool = True, log: RecordingLog | None = None
    ) -> Outcome:
        whole = [found for digest, data in self.contents.data.items() if (found := encode(data)).hash == digest]
        self.store.log.append([], whole)
        return super().apply(plan, force=force, staging=staging, log=log)


@pytest.fixture(params=["here", "children"])
def bench(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench, and one whose files are staged by children."""
    if request.param == "here":
        yield Bench(tmp_path)
        return
    monkeypatch.setattr(apply, "VERY_MANY", MANY)
    with opened(tmp_path / "store") as store:
        yield StoredBench(tmp_path, store)


def new_directories(bench: Bench) -> Listing:
    """More files than are made durable one by one, in directories of every kind."""
    target: Listing = {
        b"new": directory(0o755),
        b"new/shared": directory(0o2775),
        b"new/shared/closed": directory(0o555),
        b"new/shared/closed/f": file(bench.contents, b"closed", 0o600),
        b"new/empty": directory(0o700),
        b"new/link": link(b"../elsewhere"),
        b"other": directory(0o711),
        b"other/set": file(bench.contents, b"#!/bin/sh\n", 0o4755),
    }
    return target | {b"new/shared/%d" % n: file(bench.contents, b"content %d" % n) for n in range(MANY)}


class Meanwhile(RecordingLog):
    """Does something when everything is staged and nothing moved."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.root = bench.root

    def staged(self) -> None:
        super().staged()
        self.happen()

    def happen(self) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("staging", [True, False], ids=["stage-in-store", "stage-in-root"])
def test_new_directories_are_moved_whole(bench: Bench, staging: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    target = new_directories(bench)
    moves: list[bytes] = []
    real = exchange.move
    monkeypatch.setattr(exchange, "move", lambda *where: (moves.append(where[3]), real(*where))[1])
    outcome = bench.apply(bench.plan(target), staging=staging)
    assert outcome.complete and outcome.verified
    assert bench.scan() == target
    assert moves == [b"new", b"other"]
    assert not bench.leftovers()
    assert {done.path for done in outcome.done} == target.keys()
    for done in outcome.done:
        found = os.lstat(os.fsencode(bench.root) + b"/" + done.path)
        assert done.stat is not None and (done.stat.ino, done.stat.ctime) == (found.st_ino, found.st_ctime_ns)


def test_R20_a_directory_that_appears_meanwhile_keeps_what_is_in_it(bench: Bench) -> None:
    class MadeByOthers(Meanwhile):
        def happen(self) -> None:
            (self.root / "new").mkdir(mode=0o700)
            (self.root / "new/theirs").write_bytes(b"theirs")
            (self.root / "new/link").write_bytes(b"not a link")

    target = new_directories(bench)
    outcome = bench.apply(bench.plan(target), log=MadeByOthers(bench))
    assert dict(outcome.kept) == {b"new": "a directory appeared there meanwhile"}
    assert dict(outcome.skipped) == {b"new/link": "changed since the plan was made"}
    found = bench.scan()
    assert found.pop(b"new/theirs").size == 6 and found.pop(b"new/link").kind == Kind.FILE
    assert found == {path: entry for path, entry in target.items() if path != b"new/link"} | {b"new": directory(0o700)}
    assert not bench.leftovers()


def test_R10_a_file_in_the_place_of_a_new_directory_stays(bench: Bench) -> None:
    class Written(Meanwhile):
        def happen(self) -> None:
            (self.root / "new").write_bytes(b"theirs")

    target = new_directories(bench)
    outcome = bench.apply(bench.plan(target), log=Written(bench))
    assert bench.scan() == {b"new": file(bench.contents, b"theirs")} | {
        path: entry for path, entry in target.items() if path.startswith(b"other")
    }
    assert {path for path, _ in outcome.skipped} == {path for path in target if path.startswith(b"new")}
    assert not bench.leftovers()


def test_a_file_that_is_changed_right_after_the_move_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(name: str) -> None:
        if name == "restore.applied":
            (bench.root / "new/shared/7").write_bytes(b"CONTENT 7")

    target = new_directories(bench)
    monkeypatch.setattr(faults, "point", write)
    outcome = bench.restore(target)
    assert outcome.differs == [b"new/shared/7"] and not outcome.verified


def test_what_is_new_belongs_to_the_owner_of_the_directory_above(bench: Bench) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(bench.root, 65534, 65534)
    target = new_directories(bench)
    assert bench.restore(target).complete
    assert bench.scan() == target
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in bench.root.rglob("*")} == {(65534, 65534)}


def test_new_directories_take_the_group_and_the_default_rights_of_the_one_above(bench: Bench) -> None:
    acl = struct.pack(_ACL_HEADER, 2) + b"".join(
        struct.pack(_ACL_ENTRY, *entry)
        for entry in [(1, 7, _EVERYBODY), (2, 5, 65534), (4, 5, _EVERYBODY), (16, 7, _EVERYBODY), (32, 5, _EVERYBODY)]
    )
    try:
        os.setxattr(bench.root, "system.posix_acl_default", acl)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        pytest.skip("the file system has no access control lists")
    target = new_directories(bench)
    outcome = bench.restore(target)
    assert outcome.verified and not outcome.skipped
    assert os.getxattr(bench.root / "new/shared", "system.posix_acl_default") == acl


def test_R21_a_database_in_a_new_directory_goes_together(bench: Bench) -> None:
    target = new_directories(bench)
    target |= {b"new/app.db": file(bench.contents, b"main"), b"new/app.db-wal": file(bench.contents, b"log")}
    plan = bench.plan(target)
    assert plan.sets == [[b"new/app.db", b"new/app.db-wal"]]

    class Written(Meanwhile):
        def happen(self) -> None:
            os.mkdir(self.root / "new", 0o755)
            (self.root / "new/app.db-wal").write_bytes(b"theirs")

    outcome = bench.apply(plan, log=Written(bench))
    assert {path for path, _ in outcome.skipped} == {b"new/app.db", b"new/app.db-wal"}
    assert not (bench.root / "new/app.db").exists()
    assert (bench.root / "new/app.db-wal").read_bytes() == b"theirs"
    assert not bench.leftovers()


def test_R17_with_force_the_damaged_file_of_a_new_directory_is_left_out(bench: Bench) -> None:
    target = new_directories(bench)
    plan = bench.plan(target)
    bench.contents.data[target[b"new/shared/3"].hash] = b"damaged"
    outcome = bench.apply(plan, force=True)
    ((path, reason),) = outcome.skipped
    assert path == b"new/shared/3" and ("damaged" in reason or "not in the store" in reason)
    assert b"new/shared/3" not in {done.path for done in outcome.done}
    assert bench.scan() == {path: entry for path, entry in target.items() if path != b"new/shared/3"}


def test_R8_a_full_disk_leaves_neither_a_tree_nor_a_stage(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = bench.plan(new_directories(bench))
    monkeypatch.setenv("MULLIGAN_FAULTS", "restore.staging=enospc@9")  # for children
    with armed("restore.staging=enospc@9"), pytest.raises(MulliganError, match="nothing was changed"):
        bench.apply(plan)
    assert bench.scan() == {} and not bench.leftovers()


def kill(children: StagingChildren) -> None:
    """Kill one of them."""
    process = children._children[0].process
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_without_the_children_that_staged_it_all_is_read_back_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class DyingBeforeTheLook(StagingChildren):
        def look(self, root: bytes, identity: tuple[int, int], moves: dict[bytes, int], seen: int) -> Iterator[Proven]:
            kill(self)
            yield from super().look(root, identity, moves, seen)

    monkeypatch.setattr(apply, "VERY_MANY", MANY)
    with opened(tmp_path / "store") as store:
        bench = StoredBench(tmp_path, store, DyingBeforeTheLook)
        target = new_directories(bench)
        outcome = bench.restore(target)
        assert outcome.complete and outcome.verified
        assert bench.scan() == target
        assert {done.path for done in outcome.done if done.stat is not None} == target.keys()


def test_a_child_that_dies_while_it_stages_leaves_neither_a_tree_nor_a_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dying(StagingChildren):
        def start(self) -> None:
            super().start()
            kill(self)

    monkeypatch.setattr(apply, "VERY_MANY", MANY)
    with opened(tmp_path / "store") as store:
        bench = StoredBench(tmp_path, store, Dying)
        with pytest.raises(MulliganError, match="a staging process ended with status -9"):
            bench.restore(new_directories(bench))
        assert bench.scan() == {} and not bench.leftovers()


def test_the_children_look_at_what_they_staged_and_leave_out_what_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: set[int] = set()

    class Recorded(StagingChildren):
        def look(self, root: bytes, identity: tuple[int, int], moves: dict[bytes, int], seen: int) -> Iterator[Proven]:
            for index, found in super().look(root, identity, moves, seen):
                looked.add(index)
                yield index, found

    monkeypatch.setattr(apply, "VERY_MANY", MANY)
    with opened(tmp_path / "store") as store:
        bench = StoredBench(tmp_path, store, Recorded)
        target = new_directories(bench)
        plan = bench.plan(target)

        def write(name: str) -> None:
            if name == "restore.applied":
                (bench.root / "new/shared/7").write_bytes(b"CONTENT 7")

        monkeypatch.setattr(faults, "point", write)
        assert bench.apply(plan).differs == [b"new/shared/7"]
        steps = list(plan.steps())
        files = {path for path, entry in target.items() if entry.kind != Kind.DIR}
        assert {steps[index].path for index in looked} == files - {b"new/shared/7"}
