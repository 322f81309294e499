"""kill −9 at every step of a rebuild, captures going on: the old or the new catalogue is there, nothing is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.test_kill9 import Life
from mulligan.store.segments import segment_numbers
from mulligan.store.snapshot import check, snapshot_path, snapshots
from support.daemon import RpcError
from support.storing import flip, forget_catalogue, group_ends, segment
from support.trees import assert_tree, put, snapshot

IN_THE_DAEMON = ["rebuild.built", "rebuild.caught_up", "rebuild.swapped", "rebuild.done"]
IN_A_CHILD = ["rebuild.loaded", "rebuild.folded", "rebuild.placed"]
OF_A_SNAPSHOT = ["snapshot.written", "snapshot.checked", "snapshot.named"]


@pytest.fixture(scope="module")
def life() -> Iterator[Life]:
    made = Life()
    made.take()
    yield made
    try:
        for checkpoint in [*made.acknowledged][-4:]:
            made.call("checkpoint.restore", id=checkpoint, confirmed=True)
            assert_tree(made.project, made.acknowledged[checkpoint])
    finally:
        made.daemon.close()


def pool(life: Life) -> str:
    return str(life.daemon.data_dir / "content_pool")


def last_segment(life: Life) -> Path:
    return segment(life.daemon.data_dir, segment_numbers(pool(life))[-1])


def rebuilt(life: Life) -> dict[str, object]:
    """A rebuild after changes that nobody waited for."""
    life.change()
    return life.daemon.call("store.rebuild")


def goes_on(life: Life) -> None:
    """Everything is there, and what comes is captured; no half-made file stays."""
    wanted = snapshot(life.project)
    life.nothing_is_lost()
    assert life.tree_of(life.take()) == wanted
    assert not (life.daemon.data_dir / "catalogue.db.new").exists()
    assert [name for name in os.listdir(pool(life)) if name.endswith(".new")] == []
    for batch in snapshots(pool(life)):
        assert check(snapshot_path(pool(life), batch)).batch == batch


@pytest.mark.parametrize("point", IN_THE_DAEMON)
def test_a_kill_of_the_daemon_while_it_is_rebuilt(life: Life, point: str) -> None:
    life.dies_at(point, 1, lambda: rebuilt(life))
    life.comes_back()
    goes_on(life)
    assert "exit_status" not in rebuilt(life)
    goes_on(life)


@pytest.mark.parametrize("point", [*IN_A_CHILD, *OF_A_SNAPSHOT])
def test_a_kill_of_the_child_leaves_the_catalogue_in_use(life: Life, point: str) -> None:
    life.daemon.arm(f"{point}=kill")
    life.daemon.restart()
    life.take()
    if point in OF_A_SNAPSHOT:
        # what the log does not give again the catalogue gives, by a snapshot
        put(life.project, b"between", os.urandom(100))
        life.take()
        flip(last_segment(life), last_segment(life).stat().st_size - 1)
        life.take()
    life.change()
    with pytest.raises(RpcError) as said:
        life.daemon.call("store.rebuild")
    assert "status -9" in str(said.value)
    assert life.daemon.faults_hit()[-1] == point
    life.take()
    life.daemon.arm("")
    life.daemon.restart()
    assert "exit_status" not in rebuilt(life)
    wanted = snapshot(life.project)
    assert life.tree_of(life.take()) == wanted
    assert not (life.daemon.data_dir / "catalogue.db.new").exists()


@pytest.mark.parametrize("point", ["rebuild.loaded", "rebuild.folded", "rebuild.made"])
def test_a_kill_of_a_start_without_a_catalogue(life: Life, point: str) -> None:
    life.take()
    life.daemon.kill9()
    forget_catalogue(life.daemon.data_dir)
    life.dies_at(point, 1, lambda: life.daemon.call("daemon.status"))
    assert not (life.daemon.data_dir / "catalogue.db").exists()
    life.comes_back()
    assert life.acknowledged.keys() <= life.listed().keys()


@pytest.mark.parametrize("point", IN_THE_DAEMON)
def test_a_kill_while_a_log_that_lost_its_end_is_given_up_and_goes_on(life: Life, point: str) -> None:
    life.take()
    life.change()
    life.take()
    life.take()  # its group is the last one, and has no contents: nobody could give them back
    life.daemon.stop()
    ends = group_ends(last_segment(life))
    os.truncate(last_segment(life), ends[-2])
    listed_before = life.acknowledged.keys()
    life.dies_at(point, 1, lambda: life.daemon.call("store.rebuild"))
    life.daemon.start()
    damaged = bool(life.daemon.call("daemon.status")["store"]["damage"])
    assert damaged == (point != "rebuild.done"), "until the log is known to go on, it is what it was"
    if damaged:
        assert life.daemon.call("store.rebuild")["store"] == ""
    life.daemon.until(lambda: life.daemon._watching(life.project), 30)
    assert listed_before <= life.listed().keys()
    wanted = snapshot(life.project)
    assert life.tree_of(life.take()) == wanted
    life.daemon.restart()
    assert life.daemon.call("daemon.status")["store"]["damage"] == ""
