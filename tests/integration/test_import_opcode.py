"""opcode's timelines, written as opcode writes them, imported through a real daemon."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import stat
import uuid
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError
from support.live_transcript import slug
from support.opcode import Opcode, frame
from support.transcripts import Writer
from support.trees import put, snapshot

Tree = dict[str, tuple[str, int]]


def manager(daemon: DaemonFixture, project: Path, session: str = "") -> Opcode:
    return Opcode(daemon.claude_dir, project, slug(project), session)


def shell(opcode: Opcode) -> None:
    """The agent runs a command, which makes opcode look at every file that it knows."""
    block = {"type": "tool_use", "id": str(uuid.uuid4()), "name": "Bash", "input": {"command": "rm x"}}
    opcode.say(Writer(cwd=str(opcode.project)).assistant(str(uuid.uuid4()), block))


def truth(project: Path) -> Tree:
    """The project's files outside of hidden directories: hash and mode."""
    return {
        str(path.relative_to(project)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            stat.S_IMODE(path.stat().st_mode),
        )
        for path in project.rglob("*")
        if path.is_file()
    }


def imported(daemon: DaemonFixture, project: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The one timeline, and its checkpoints by opcode's ids."""
    (timeline,) = daemon.call("project.import_opcode", project=project)["timelines"]
    return timeline, {made["opcode_id"]: made for made in timeline["checkpoints"]}


def tree(daemon: DaemonFixture, archive: str, made: dict[str, Any]) -> Tree:
    files = daemon.call("checkpoint.show", project=archive, id=made["id"])["files"]
    return {one["file_path"]: (one["hash"], int(one["permissions"])) for one in files if one["kind"] == "file"}


def test_its_checkpoints_come_with_their_trees_parents_and_figures(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a.txt", b"one\n")
    put(project, b"src/run.sh", b"#!/bin/sh\n", 0o755)
    opcode, write = manager(daemon, project), Writer(cwd=str(project))
    opcode.say(write.user([{"type": "text", "text": "first"}]))
    opcode.say(write.assistant("m1", {"type": "text", "text": "a"}, output=5), write.assistant("m1", output=9))
    first, at_first = opcode.checkpoint("start"), truth(project)
    put(project, b"a.txt", b"two\n")
    opcode.say(write.user([{"type": "text", "text": "second"}]), write.assistant("m2", output=1, model="m-2"))
    second, at_second = opcode.checkpoint("edited"), truth(project)
    opcode.restore(first)
    put(project, b"b.txt", b"new\n")
    third, at_third = opcode.checkpoint("forked", parent=first), truth(project)
    before = snapshot(opcode.directory)
    timeline, made = imported(daemon, project)
    archive = timeline["archive"]
    assert archive == f"{project}.opcode-{opcode.session[:8]}" and not Path(archive).exists()
    assert list(made) == [first, second, third] and all(one["complete"] for one in made.values())
    assert [tree(daemon, archive, made[name]) for name in made] == [at_first, at_second, at_third]
    root = daemon.call("timeline.get", project=archive, session=timeline["session_id"])["root_node"]
    assert root["checkpoint"]["id"] == made[first]["id"] and root["checkpoint"]["parent_checkpoint_id"] is None
    assert {child["checkpoint"]["description"] for child in root["children"]} == {"edited", "forked"}
    shown = daemon.call("checkpoint.show", project=archive, id="2")["checkpoint"]
    assert (shown["timestamp"], shown["strategy"], shown["placement"]) == (
        "2025-09-01T12:02:00.000Z",
        "smart",
        "timestamp",
    )
    figures = shown["metadata"]
    assert (figures["user_prompt"], figures["model_used"]) == ("second", "m-2")
    assert (figures["input_tokens"], figures["output_tokens"], figures["total_tokens"]) == (20, 10, 30)
    assert (figures["modified"], figures["added"], figures["deleted"]) == (1, 0, 0)
    differ = daemon.call("checkpoint.diff", project=archive, **{"from": "1", "to": "2"})
    assert [(one["path"], one["additions"], one["deletions"]) for one in differ["modified_files"]] == [("a.txt", 1, 1)]
    assert snapshot(opcode.directory) == before  # originals are only read


def test_what_it_holds_can_be_had_again_in_a_directory(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a.txt", b"one\n")
    put(project, b"src/run.sh", b"#!/bin/sh\n", 0o755)
    opcode = manager(daemon, project)
    opcode.checkpoint()
    put(project, b"a.txt", os.urandom(3_000_000).hex().encode())  # larger than what is stored as one
    opcode.checkpoint()
    wanted = truth(project)
    daemon.call("project.import_opcode", path=opcode.directory, project=project)
    archive = f"{project}.opcode-{opcode.session[:8]}"
    daemon.restart(kill=True)
    into = daemon.projects / "out"
    daemon.call("checkpoint.fork", project=archive, id="2", into=str(into))
    assert truth(into) == wanted
    assert daemon.client("cat", "1:a.txt", "--project", archive).stdout == "one\n"
    drilled = daemon.call("store.drill", count=9)
    assert drilled["restorable"] == drilled["total"] > 2
    assert daemon.call("store.verify")["checkpoints"] == []


def test_its_faults_are_repaired_where_that_can_be(daemon: DaemonFixture, project: Path) -> None:
    for name in ("a", "b", "c", "d"):
        put(project, name.encode(), f"{name}\n".encode())
    opcode = manager(daemon, project)
    opcode.checkpoint()
    (project / "a").unlink()
    shell(opcode)
    opcode.checkpoint("a recorded deletion, which opcode itself cannot load")
    (project / "b").unlink()
    opcode.restart()
    opcode.checkpoint("a deletion that only a whole checkpoint tells of")
    wanted = truth(project)
    opcode.pool(b"c\n").rename(opcode.pool(b"wrong"))
    for path in (opcode.directory / "files/refs").rglob("c.json"):
        path.write_text(path.read_text().replace(opcode.pool(b"c\n").name, opcode.pool(b"wrong").name))
    other = manager(daemon, project)
    other.checkpoint()  # its pool has the same content
    opcode.pool(b"d\n").write_bytes(frame(b"d\n")[:-3])
    found = daemon.call("project.import_opcode", path=opcode.directory, project=project)["timelines"][0]
    third = found["checkpoints"][2]
    assert all(made["complete"] for made in found["checkpoints"])
    assert tree(daemon, found["archive"], third) == wanted and set(wanted) == {"c", "d"}
    assert any("its hash was wrong" in note for note in third["notes"])
    assert set(tree(daemon, found["archive"], found["checkpoints"][1])) == {"b", "c", "d"}


def test_what_opcode_lost_is_taken_from_mulligans_own_store(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"only here\n")
    daemon.add(project)
    opcode = manager(daemon, project)
    name = opcode.checkpoint()
    opcode.pool(b"only here\n").unlink()
    _, made = imported(daemon, project)
    assert made[name]["complete"] and "captured itself" in made[name]["notes"][0]


def test_its_faults_are_reported_where_nothing_can_be_done(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"img.png", b"\x89PNG\xff")
    put(project, b"a_b", b"1\n")
    put(project, b"a/b", b"2\n")
    put(project, b"gone", b"gone\n")
    put(project, b"cut", b"cut\n" * 100)
    put(project, b".git/config", b"[core]\n")
    opcode = manager(daemon, project)
    opcode.track(".git/config")
    name = opcode.checkpoint()
    opcode.pool(b"gone\n").unlink()
    whole = opcode.pool(b"cut\n" * 100)
    whole.write_bytes(whole.read_bytes()[:-2])
    result = daemon.call("project.import_opcode", project=project)
    (made,) = result["timelines"][0]["checkpoints"]
    reasons = {one["path"]: one["reason"] for one in made["incomplete_paths"]}
    assert (made["opcode_id"], made["complete"], result["exit_status"]) == (name, False, 3)
    assert reasons.pop("").startswith("1 of its files are lost")
    assert reasons == {
        "img.png": "opcode stored it empty: it was no UTF-8 text",
        "gone": "its content is gone",
        "cut": "its content is damaged",
    }
    assert made["notes"] == [".git/config: not a path of the project's own, left out"]
    assert not daemon.call("checkpoint.show", project=result["timelines"][0]["archive"], id="1")["checkpoint"][
        "complete"
    ]


def test_after_a_cleanup_ghosts_are_named_and_what_they_held_is_unknown(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"1\n")
    put(project, b"b", b"1\n")
    opcode = manager(daemon, project)
    names = [opcode.checkpoint()]
    for text in (b"2\n", b"3\n"):
        put(project, b"a", text)
        names.append(opcode.checkpoint())
    assert opcode.cleanup(1) == names[:2]
    timeline, made = imported(daemon, project)
    assert timeline["removed_by_opcode"] == sorted(names[:2]) and list(made) == names[2:]
    last = made[names[2]]
    assert not last["complete"] and "cleanup removed" in last["incomplete_paths"][0]["reason"]
    assert set(tree(daemon, timeline["archive"], last)) == {"a"} and last["parent_checkpoint_id"] is None


def test_again_it_adds_what_is_new_and_after_a_kill_it_goes_on(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"0\n")
    opcode = manager(daemon, project)
    names = [opcode.checkpoint()]
    for number in range(1, 5):
        put(project, b"a", b"%d\n" % number)
        names.append(opcode.checkpoint())
    daemon.arm("opcode.taken=kill@3")
    daemon.restart()
    with pytest.raises((EOFError, OSError)):
        daemon.call("project.import_opcode", project=project)
    assert daemon.process is not None and daemon.process.wait(20) == -9
    daemon.arm("")
    daemon.start()
    timeline, made = imported(daemon, project)
    assert (timeline["known"], list(made)) == (3, names[3:])
    put(project, b"a", b"more\n")
    names.append(opcode.checkpoint())
    timeline, made = imported(daemon, project)
    assert (timeline["known"], list(made)) == (5, names[5:])
    found = daemon.call("checkpoint.list", project=timeline["archive"])["checkpoints"]
    assert [one["ordinal"] for one in found] == [6, 5, 4, 3, 2, 1]
    parents = {one["id"]: one["parent_checkpoint_id"] for one in found}
    assert [parents[one["id"]] for one in found] == [one["id"] for one in found[1:]] + [None]


def test_odd_files_are_passed_over_and_said(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"1\n")
    opcode = manager(daemon, project)
    name = opcode.checkpoint()
    (opcode.directory / "timeline.json").write_text("{")
    (opcode.directory / "checkpoints" / "odd").mkdir()
    (opcode.directory / "checkpoints" / name / "messages.jsonl").write_bytes(b"plain")
    os.mkfifo(opcode.directory / "files/refs" / name / "pipe.json")
    timeline, made = imported(daemon, project)
    assert len(timeline["warnings"]) == 2 and list(made) == [name]
    assert [one["reason"] for one in made[name]["incomplete_paths"]] == ["the reference pipe.json cannot be read"]
    assert made[name]["notes"] == ["its messages.jsonl is damaged: no tokens, no prompt"]


def test_what_is_no_timeline_is_refused(daemon: DaemonFixture, project: Path) -> None:
    for where in ({"path": str(project)}, {"project": str(project)}, {"path": "/nowhere"}):
        with pytest.raises(RpcError) as refused:
            daemon.call("project.import_opcode", **where)
        assert refused.value.code == "not_found"
    with pytest.raises(RpcError) as usage:
        daemon.call("project.import_opcode", path="relative")
    assert usage.value.code == "usage"
    put(project, b"a", b"1\n")
    opcode = manager(daemon, project)
    opcode.checkpoint()
    Path(f"{project}.opcode-{opcode.session[:8]}").mkdir()
    with pytest.raises(RpcError) as conflict:
        daemon.call("project.import_opcode", project=project)
    assert conflict.value.code == "conflict"


@pytest.mark.parametrize("seed", range(6))
def test_any_life_of_a_project_gives_right_trees_or_says_what_is_not_known(
    daemon: DaemonFixture, project: Path, seed: int
) -> None:
    rng = random.Random(seed)
    opcode, truths = manager(daemon, project), dict[str, Tree]()
    names = [f"{above}{name}" for above in ("", "d/", "d/e/") for name in "abcxyz"]
    numbers = itertools.count(10)
    for name in names:
        put(project, name.encode(), b"%d\n" % rng.randrange(4))
    truths[opcode.checkpoint()] = truth(project)
    for _ in range(12):
        for name in rng.sample(names, rng.randint(0, 3)):
            path = project / name
            if path.exists() and rng.random() < 0.3:
                path.unlink()
                shell(opcode)
            else:
                put(project, name.encode(), b"%d\n" % next(numbers), rng.choice((0o644, 0o755)))
                opcode.track(name)
        if rng.random() < 0.15:
            opcode.restart()
        truths[opcode.checkpoint()] = truth(project)
    gone = set(opcode.cleanup(9)) if seed % 2 else set()
    timeline, made = imported(daemon, project)
    assert set(made) == truths.keys() - gone
    for name, one in made.items():
        found = tree(daemon, timeline["archive"], one)
        hashes = {path: digest for path, (digest, _) in found.items()}
        right = {path: digest for path, (digest, _) in truths[name].items()}
        if one["complete"]:
            assert hashes == right, name
        else:
            assert gone and hashes.items() <= right.items(), name
    if seed == 5:
        assert any(one["complete"] for one in made.values())  # the first whole one behind what was removed


def test_the_client_imports_and_says_what_is_not_whole(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"1\n")
    put(project, b"img", b"\xff")
    opcode = manager(daemon, project)
    opcode.checkpoint("the start")
    told = daemon.client("project", "import-opcode", "--dry-run", cwd=project)
    archive = f"{project}.opcode-{opcode.session[:8]}"
    assert told.returncode == 0 and told.stdout.splitlines()[0] == f"1 checkpoint would be imported into {archive}"
    assert daemon.call("project.list")["projects"] == []
    told = daemon.client("project", "import-opcode", cwd=project)
    lines = told.stdout.splitlines()
    assert (told.returncode, told.stderr) == (3, "") and lines[0] == f"1 checkpoint imported into {archive}"
    assert lines[1].endswith("is not whole: the start") and "img: opcode stored it empty" in lines[2]
    assert lines[-1] == f"  mulligan list --project {archive}"
    listed = daemon.client("--json", "list", "--project", archive)
    assert json.loads(listed.stdout)["checkpoints"][0]["description"] == "the start"
    again = daemon.client("project", "import-opcode", str(opcode.directory), "--project", str(project))
    assert again.stdout.startswith("0 checkpoints imported into") and ", 1 were there" in again.stdout
