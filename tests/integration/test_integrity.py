"""Damage of a real store under a real daemon: found, healed from wherever the bytes are, or named and isolated."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mulligan.store.catalogue import Place
from mulligan.store.encoding import BLOCK_SIZE, Encoding, encode
from mulligan.store.segments import RECORD_HEADER_SIZE, segment_path
from support.daemon import DaemonFixture, RpcError
from support.saving import saving
from support.stored import reader, restore, take
from support.storing import flip, opened
from support.trees import put, snapshot

RNG = random.Random(11)
LINES = [b"line %d of a file that is edited %d\n" % (number, number * 7919) for number in range(400)]


def place_of(daemon: DaemonFixture, data: bytes) -> Place:
    catalogue = reader(daemon)
    try:
        found = catalogue.place(encode(data).hash)
        assert found is not None
        return found
    finally:
        catalogue.close()


def segment_of(daemon: DaemonFixture, place: Place) -> Path:
    return Path(segment_path(str(daemon.data_dir / "content_pool"), place.segment))


def damage(daemon: DaemonFixture, data: bytes, offset: int = RECORD_HEADER_SIZE + 1) -> None:
    """Change a byte of where a content lies."""
    place = place_of(daemon, data)
    flip(segment_of(daemon, place), place.offset + offset)


def verify(daemon: DaemonFixture, **params: Any) -> dict[str, Any]:
    return daemon.call("store.verify", **params)


def healed(report: dict[str, Any]) -> dict[str, str]:
    return {entry["hash"]: entry["from"] for entry in report["healed"]}


def name(data: bytes) -> str:
    return encode(data).hash.hex()


def warned(daemon: DaemonFixture) -> str:
    return "\n".join(daemon.call("daemon.status")["warnings"])


def test_B10_damage_is_healed_by_recapture_from_a_path_that_has_or_had_the_bytes(
    daemon: DaemonFixture, project: Path
) -> None:
    now, before, pushed = (RNG.randbytes(3000) for _ in range(3))
    put(project, b"now", now)
    put(project, b"before", before)
    put(project, b"pushed", pushed)
    daemon.add(project)
    made, tree = take(daemon, project), snapshot(project)
    put(project, b"pushed", b"overwritten\n")
    daemon.call("watch.sync", project=project)
    assert daemon.stop() == 0
    (project / "before").rename(project / "moved")
    for data in (now, before, pushed):
        damage(daemon, data)
    # as a backup brings it back, while nobody watches: the journal does not know that it is there
    daemon.start()
    daemon.call("project.pause", project=project)
    put(project, b"pushed", pushed)
    first = verify(daemon)
    assert first["exit_status"] == 9 and first["healed"] == []
    assert {each["hash"] for each in first["damaged"]} <= {name(now), name(before), name(pushed)}
    report = verify(daemon, repair=True)
    assert report["clean"] and "exit_status" not in report
    assert healed(report)[name(now)] == str(project / "now")
    assert healed(report)[name(pushed)] == str(project / "pushed")
    assert verify(daemon)["clean"]
    daemon.call("project.resume", project=project)
    restore(daemon, project, made["id"])
    assert snapshot(project) == tree


def test_B10_a_base_that_is_healed_makes_what_builds_on_it_whole(daemon: DaemonFixture, project: Path) -> None:
    lines = list(LINES)
    versions = [b"".join(lines)]
    put(project, b"edited", versions[0])
    daemon.add(project)
    for turn in range(3):
        lines[turn * 50] = b"edited in turn %d\n" % turn
        versions.append(b"".join(lines))
        put(project, b"edited", versions[-1])
        take(daemon, project)
    assert place_of(daemon, versions[3]).depth == 3
    put(project, b"aside", versions[0])
    daemon.call("watch.sync", project=project)
    put(project, b"edited", b"other\n")
    daemon.call("watch.sync", project=project)
    damage(daemon, versions[0])
    assert {each["hash"] for each in verify(daemon)["damaged"]} == {name(data) for data in versions}
    report = verify(daemon, repair=True)
    assert report["clean"]
    assert healed(report) == {
        name(versions[0]): str(project / "aside"), **{name(data): "what it builds on" for data in versions[1:]}
    }  # fmt: skip
    # the base is lost for good: what is on disk is healed alone, and what builds on that with it
    (project / "aside").unlink()
    daemon.call("watch.sync", project=project)
    put(project, b"edited", versions[2])
    daemon.call("watch.sync", project=project)
    damage(daemon, versions[0])
    report = verify(daemon, repair=True)
    assert {each["hash"] for each in report["damaged"]} == {name(data) for data in versions[:2]}
    assert set(healed(report)) <= {name(data) for data in versions[2:]}


def test_B10_a_block_of_a_large_file_is_healed_by_recapture(daemon: DaemonFixture, project: Path) -> None:
    data = RNG.randbytes(20 * BLOCK_SIZE + 5)
    put(project, b"large", data)
    daemon.add(project)
    assert place_of(daemon, data).encoding == Encoding.BLOCKS
    damage(daemon, data[3 * BLOCK_SIZE : 4 * BLOCK_SIZE])
    assert {each["path"] for each in verify(daemon)["paths"]} == {"large"}
    assert verify(daemon, repair=True)["clean"]
    damage(daemon, data)  # the list of its blocks
    report = verify(daemon, repair=True)
    assert report["clean"] and healed(report) == {name(data): str(project / "large")}
    assert verify(daemon)["clean"]


@pytest.mark.parametrize("way", ["a record that nobody names", "a payload whose header is broken", "git"])
def test_B10_damage_is_healed_from_elsewhere(daemon_factory: Callable[..., DaemonFixture], way: str) -> None:
    daemon = daemon_factory(start=False)
    project = daemon.projects / "p"
    project.mkdir()
    data = b"".join(LINES) + RNG.randbytes(99)
    put(project, b"src/f", data)
    if way == "git":
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com"]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
            subprocess.run([*git, *words], cwd=project, check=True)
    daemon.start()
    daemon.add(project)
    made = take(daemon, project)
    put(project, b"src/f", b"another\n")
    take(daemon, project)
    if way == "git":
        subprocess.run([*git, "commit", "-qam", "two"], cwd=project, check=True)
    if way == "a record that nobody names":
        assert daemon.stop() == 0
        with opened(daemon.data_dir) as store:
            store.log.append([], [encode(data)])
        daemon.start()
    assert verify(daemon)["clean"]
    damage(daemon, data, 30 if "header" in way else RECORD_HEADER_SIZE + 5)
    # whoever folds the log again cannot pass a record without a header
    log = [""] if "header" in way else []
    assert [each["hash"] for each in verify(daemon)["damaged"]] == [*log, name(data)]
    report = verify(daemon, repair=True)
    assert healed(report) == {name(data): "git" if way == "git" else "another copy in the store"}
    assert [each["hash"] for each in verify(daemon)["damaged"]] == log
    restore(daemon, project, made["id"])
    assert (project / "src/f").read_bytes() == data


def test_R17_what_cannot_be_healed_isolates_the_checkpoints_that_need_it(daemon: DaemonFixture, project: Path) -> None:
    lost = RNG.randbytes(5000)
    put(project, b"fine", b"1\n")
    daemon.add(project)
    without = take(daemon, project)
    put(project, b"lost", lost)
    put(project, b"fine", b"2\n")
    needing = [take(daemon, project) for _ in range(2)]
    (project / "lost").unlink()
    put(project, b"fine", b"3\n")
    later = take(daemon, project)
    damage(daemon, lost)
    before = snapshot(project)
    done = daemon.client("verify", "--repair", "--json")
    assert done.returncode == 9
    report = json.loads(done.stdout)
    assert [(each["id"], each["damaged_files"], each["paths"]) for each in report["checkpoints"]] == [
        (made["id"], 1, ["lost"]) for made in needing
    ]
    assert [(each["path"], each["project_path"]) for each in report["paths"]] == [("lost", str(project))]
    words = "1 content is damaged: 2 checkpoints cannot be restored whole; mulligan verify --repair"
    assert words in warned(daemon)
    daemon.restart()  # it is remembered
    assert words in daemon.client("status", cwd=project).stdout
    listed = daemon.call("checkpoint.list", project=project)["checkpoints"]
    assert {each["id"] for each in listed if "damaged_files" in each} == {made["id"] for made in needing}
    assert daemon.client("list", cwd=project).stdout.count("damaged") == 2
    shown = daemon.call("checkpoint.show", project=project, id=needing[0]["id"])
    assert {each["file_path"] for each in shown["files"] if "damaged" in each} == {"lost"}
    assert "damaged     lost: " in daemon.client("show", needing[0]["id"], cwd=project).stdout
    dry = daemon.call("checkpoint.restore", project=project, id=needing[1]["id"], dry_run=True)
    assert any("lost: its stored content is damaged" in each for each in dry["warnings"])
    with pytest.raises(RpcError) as refused:
        restore(daemon, project, needing[0]["id"])
    assert refused.value.code == "integrity" and "--repair" in refused.value.hint
    assert snapshot(project) == before
    forced = restore(daemon, project, needing[0]["id"], force=True)
    assert [os.fsencode(each) for each in forced["plan"]["skipped"]] == [b"lost"]
    for made in (without, later):
        restore(daemon, project, made["id"])
    # the same content comes by again
    put(project, b"from a backup", lost)
    daemon.call("watch.sync", project=project)
    assert warned(daemon) == ""
    listed = daemon.call("checkpoint.list", project=project)["checkpoints"]
    assert [each for each in listed if "damaged_files" in each] == []
    assert verify(daemon)["clean"]


@pytest.mark.parametrize(("point", "stored"), [("repair.storing", False), ("repair.stored", True)])
def test_B10_a_repair_that_is_killed_leaves_each_content_damaged_or_whole(
    daemon: DaemonFixture, project: Path, point: str, stored: bool
) -> None:
    data = [RNG.randbytes(2000) for _ in range(3)]
    for number, each in enumerate(data):
        put(project, b"f%d" % number, each)
    daemon.add(project)
    made, tree = take(daemon, project), snapshot(project)
    other = daemon.projects / "other"
    other.mkdir()
    daemon.add(other)
    for each in data:
        damage(daemon, each)
    assert daemon.stop() == 0
    daemon.arm(f"{point}=kill")
    daemon.start()
    daemon.call("project.pause", project=project)
    with saving(other), pytest.raises((EOFError, OSError)):
        verify(daemon, repair=True)
    assert daemon.process is not None and daemon.process.wait(20) == -9
    assert daemon.faults_hit() == [point]
    daemon.arm("")
    daemon.start()
    assert verify(daemon)["clean"] == stored
    assert verify(daemon, repair=True)["clean"]
    daemon.call("project.resume", project=project)
    put(project, b"f1", b"other\n")
    restore(daemon, project, made["id"])
    assert snapshot(project) == tree


def test_a_sample_says_what_share_was_looked_at(daemon: DaemonFixture, project: Path) -> None:
    for number in range(60):
        put(project, b"f%d" % number, b"%d\n" % number)
    daemon.add(project)
    report = verify(daemon, sample=10)
    assert (report["contents"], report["total_contents"], report["clean"]) == (6, 60, True)
    assert report["checkpoints_looked_at"] == report["checkpoints_total"] == 1
    assert verify(daemon, sample=0.001)["contents"] == 1
    assert verify(daemon, sample=100)["contents"] == 60
    done = daemon.client("verify", "--sample", "10%")
    assert done.returncode == 0
    assert (
        "verified 6 of 60 contents (10.0 %)" in done.stdout
        and "the log, 1 checkpoint; all as it was stored" in done.stdout
    )
    victim = RNG.randbytes(500)
    put(project, b"victim", victim)
    daemon.call("watch.sync", project=project)
    (project / "victim").unlink()
    daemon.call("watch.sync", project=project)
    damage(daemon, victim)
    assert verify(daemon, sample=100)["exit_status"] == 9
    # known damage is told, chosen or not
    assert [verify(daemon, sample=0.001)["clean"] for _ in range(3)] == [False] * 3


@pytest.mark.parametrize("percent", ["0", "-1", "100.1", "nan", "inf", "1e400", "many", "", "%"])
def test_what_is_no_percentage_is_refused(daemon: DaemonFixture, percent: str) -> None:
    done = daemon.client("verify", f"--sample={percent}")
    assert done.returncode == 2 and "a number above 0, and at most 100" in done.stderr
    for value in (0, -5, 101):
        with pytest.raises(RpcError) as refused:
            verify(daemon, sample=value)
        assert refused.value.data["exit_status"] == 2


def test_I8_a_tree_that_is_not_the_recorded_one_is_named(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"f", b"1\n")
    daemon.add(project)
    made = take(daemon, project)
    put(project, b"f", b"2\n")
    later = take(daemon, project)
    assert daemon.stop() == 0
    connection = sqlite3.connect(daemon.data_dir / "catalogue.db")
    connection.execute("update row set mode = mode | 64 where seq = (select min(seq) from row where kind = 1)")
    connection.commit()
    connection.close()
    daemon.start()
    report = verify(daemon)
    assert report["exit_status"] == 9 and report["damaged"] == []
    assert {each["checkpoint_id"] for each in report["digests"]} >= {made["id"]}
    assert later["id"] not in {each["checkpoint_id"] for each in report["digests"]}
    done = daemon.client("verify")
    assert f"checkpoint {made['ordinal']} of {project}: its tree is not the one that was recorded" in done.stdout
    assert "its tree is not the one that was recorded; mulligan verify" in warned(daemon)


def test_damage_is_told_as_an_event(daemon: DaemonFixture, project: Path) -> None:
    data = RNG.randbytes(1000)
    put(project, b"f", data)
    daemon.add(project)
    damage(daemon, data)
    with daemon.connect(20) as listening:
        listening.call("events.subscribe", topics=["damage"])
        verify(daemon, repair=True)
        event = listening.read()["params"]
    assert (event["contents"], event["healed"], event["checkpoints"]) == (0, 1, 0)
