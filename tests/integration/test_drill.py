"""Proof that checkpoints can be restored, through a real daemon and on real damage."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.daemon import DaemonFixture, RpcError
from support.stored import take
from support.trees import put, snapshot


def damage(pool: Path, data: bytes) -> None:
    """Flip a byte of a content that is stored as it is, in every segment that has it."""
    found = 0
    for segment in pool.glob("*.seg"):
        whole = segment.read_bytes()
        if (place := whole.find(data)) >= 0:
            with segment.open("r+b") as file:
                file.seek(place)
                file.write(bytes([data[0] ^ 1]))
            found += 1
    assert found


def leftovers(daemon: DaemonFixture) -> list[str]:
    return [name for name in os.listdir(daemon.data_dir) if name == "drill"] + os.listdir(daemon.data_dir / "staging")


def test_B10_checkpoints_are_restored_beside_the_store_and_compared(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"src/app.py", b"print(1)\n", 0o755)
    put(project, b"closed/secret", b"token", 0o400)
    os.symlink("../elsewhere", project / "src/link")
    for number in range(100):
        put(project, b"many/%d" % number, b"%d\n" % number)
    os.chmod(project / "closed", 0o500)
    daemon.call("project.add", project=project)
    put(project, b"src/app.py", b"print(2)\n", 0o755)
    made = take(daemon, project)
    before = snapshot(project)
    assert daemon.call("daemon.status")["store"]["last_drill"] is None
    found = daemon.call("store.drill", count=5)
    assert [one["reason"] for one in found["checkpoints"]] == ["", ""]
    assert (found["restorable"], found["total"]) == (2, 2)
    assert {one["id"]: one["reason"] for one in found["checkpoints"]}[made["id"]] == ""
    assert snapshot(project) == before and leftovers(daemon) == []
    last = daemon.call("daemon.status")["store"]["last_drill"]
    assert last == {"time": found["time"], "restorable": 2, "total": 2}
    shown = daemon.client("status", cwd=project).stdout
    assert "restorable: 2 of 2, drill just now" in shown
    daemon.stop()
    daemon.start()
    assert daemon.call("daemon.status")["store"]["last_drill"] == last


def test_B10_a_checkpoint_that_needs_a_damaged_content_is_named(daemon: DaemonFixture, project: Path) -> None:
    data = os.urandom(3000)
    put(project, b"f", data)
    daemon.call("project.add", project=project)
    whole = take(daemon, project)
    put(project, b"f", b"small\n")
    later = take(daemon, project)
    damage(daemon.data_dir / "content_pool", data)
    done = daemon.client("drill", str(whole["ordinal"]), "--json", cwd=project)
    assert done.returncode == 9
    (tried,) = json.loads(done.stdout)["checkpoints"]
    assert tried["ordinal"] == whole["ordinal"] and "damaged" in tried["reason"]
    done = daemon.client("drill", later["id"], cwd=project)
    assert done.returncode == 0 and "restorable: 1 of 1" in done.stdout
    assert leftovers(daemon) == []


def test_a_drill_without_a_checkpoint_says_so(daemon: DaemonFixture) -> None:
    with pytest.raises(RpcError) as nothing:
        daemon.call("store.drill")
    assert nothing.value.data["exit_status"] == 5
    with pytest.raises(RpcError) as none:
        daemon.call("store.drill", count=0)
    assert none.value.data["exit_status"] == 2
