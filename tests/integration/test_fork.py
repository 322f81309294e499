"""Forks through a real daemon: a directory of its own with the files of a checkpoint, and the conversation up to it."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from support.daemon import DaemonFixture, RpcError, in_parallel
from support.live_transcript import LiveConversation, checkpoints, session_of, settle, slug, started
from support.stored import restore, take, tree_of
from support.told import Told, said
from support.trees import assert_tree, make_odd_tree, make_tree, put, snapshot


@pytest.fixture
def daemon(daemon_factory: Callable[..., DaemonFixture]) -> DaemonFixture:
    """A running daemon that looks at transcripts already."""
    return started(daemon_factory)


# X8: the conversation


def test_X8_a_fork_has_the_files_and_the_conversation_up_to_there(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    answer = told.fork(told.first["id"])
    directory = Path(answer["directory"])
    assert directory.parent == project.parent and directory.name == f"project-{told.first['id'][:8]}"
    assert_tree(directory, tree_of(daemon, project, told.first["id"]))
    lines = told.copy(answer)
    original = [json.loads(line) for line in told.bytes.splitlines()]
    assert [line.get("uuid") for line in lines] == [line["uuid"] for line in original[:3]] + [None]
    assert {line["sessionId"] for line in lines} == {answer["session_id"]}
    assert uuid.UUID(answer["session_id"]).version == 4
    times = [line["timestamp"] for line in lines[:3]]
    assert times[:2] == [line["timestamp"] for line in original[:2]]
    assert times[2] == max(times) > times[1], "the client goes on from the newest"
    assert {line["cwd"] for line in lines[:3]} == {str(directory)}
    assert lines[0]["forkedFrom"] == {"sessionId": told.talk.session, "messageUuid": original[0]["uuid"]}
    label = told.first["ordinal"]
    assert (lines[-1]["type"], lines[-1]["customTitle"]) == ("custom-title", f"fork of {label}")
    command = f"claude --resume {answer['session_id']}"
    assert answer["resume"] == {"session_id": answer["session_id"], "command": command, "directory": str(directory)}
    assert told.unchanged()
    place = daemon.claude_dir / "projects" / slug(directory) / f"{answer['session_id']}.jsonl"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert [path.name for path in place.parent.iterdir()] == [place.name]


def test_a_fork_before_a_prompt_ends_before_it(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    answer = told.fork("prompt:2", name="another way: ../with / a slash")
    assert Path(answer["directory"]).name == "project-another-way-..-with-a-slash"
    assert said(told.copy(answer)) == ["write one"]
    assert told.copy(answer)[-1]["customTitle"] == "another way: ../with / a slash"
    assert sorted(os.listdir(answer["directory"])) == ["README", "one"]


def test_the_branch_is_on_the_timeline_and_nothing_else_moves(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    before = daemon.call("timeline.get", project=project)
    answer = told.fork(told.first["id"], name="bucket")
    branch = answer["checkpoint"]
    assert (branch["trigger"], branch["parent_checkpoint_id"]) == ("fork", told.first["id"])
    assert (branch["session_id"], branch["description"]) == (answer["session_id"], "bucket")
    assert branch["tree"] == told.first["tree"]
    after = daemon.call("timeline.get", project=project)
    assert after["current_checkpoint_id"] == before["current_checkpoint_id"]
    assert after["total_checkpoints"] == before["total_checkpoints"] + 1
    assert restore(daemon, project, branch["id"])["checkpoint"]["id"] == branch["id"]
    assert not (project / "two").exists()


def test_the_fork_is_a_project_with_that_session_and_counts_nothing_twice(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    answer = told.fork(told.second["id"])
    directory = Path(answer["directory"])
    settle(daemon, project, 8 + len(told.copy(answer)))
    shown = session_of(daemon, directory, answer["session_id"])
    assert (shown["prompts"], shown["calls"], shown["metadata"]["total_tokens"]) == (0, 0, 0)
    assert [made["trigger"] for made in checkpoints(daemon, directory)] == ["baseline"]
    assert shown["current_checkpoint_id"] == checkpoints(daemon, directory)[0]["id"]
    assert session_of(daemon, project, told.talk.session)["prompts"] == 2
    # the copy has no prompts of its own, so a prompt can be named without its session
    assert daemon.call("checkpoint.restore", project=project, id="prompt:-1", dry_run=True)["position"] == "prompt:2"
    going_on = LiveConversation(daemon.claude_dir, directory, answer["session_id"])
    going_on.last = told.copy(answer)[-2]["uuid"]
    going_on.count = 100
    going_on.prompt("now differently")
    going_on.put_call(directory / "three", b"3\n")
    daemon.until(lambda: checkpoints(daemon, directory, "tool_use"))
    again = daemon.call("checkpoint.fork", project=directory, id="prompt:1")
    assert said(told.copy(again)) == ["write one", "write two"]
    assert not (Path(again["directory"]) / "three").exists()


def test_behind_a_rewind_only_the_branch_of_the_prompt_is_copied(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    told.talk.last = next(line for line in map(json.loads, told.bytes.splitlines()) if said([line]))["uuid"]
    told.talk.prompt("write three")
    told.talk.put_call(project / "three", b"three\n")
    settle(daemon, project, 11)
    made = checkpoints(daemon, project, "tool_use")[-1]
    assert said(told.copy(told.fork(made["id"]))) == ["write one", "write three"]
    assert said(told.copy(told.fork(told.second["id"]))) == ["write one", "write two"]


def test_the_clients_own_backups_are_linked(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    backup = daemon.claude_dir / "file-history" / told.talk.session / "0123456789abcdef@v1"
    backup.parent.mkdir(parents=True)
    backup.write_bytes(b"before\n")
    answer = told.fork(told.first["id"])
    linked = daemon.claude_dir / "file-history" / answer["session_id"] / backup.name
    assert linked.samefile(backup)


@pytest.mark.parametrize("version", ["3.0.1", "2.9.0", "next"])
def test_of_an_unknown_version_the_files_are_forked_and_the_reason_is_said(
    daemon: DaemonFixture, project: Path, version: str
) -> None:
    told = Told(daemon, project, version=version)
    answer = told.fork(told.first["id"])
    assert (answer["exit_status"], answer["resume"], answer["session_id"]) == (3, None, None)
    assert f"version {version}" in answer["conversation"]["refused"]
    assert any("the conversation was not copied" in warning for warning in answer["warnings"])
    assert_tree(Path(answer["directory"]), tree_of(daemon, project, told.first["id"]))
    assert not (daemon.claude_dir / "projects" / slug(Path(answer["directory"]))).exists()
    done = daemon.client("fork", told.first["id"], "-m", "x", "--project", str(project))
    assert done.returncode == 3 and f"version {version}" in done.stderr


def _without_a_line(told: Told) -> None:
    lines = told.bytes.splitlines(keepends=True)
    told.talk.path.write_bytes(b"".join(lines[:1] + lines[2:]))


def _without_the_end(told: Told) -> None:
    told.talk.path.write_bytes(told.bytes[:-300])


@pytest.mark.parametrize("damage", [_without_a_line, _without_the_end, lambda told: told.talk.path.unlink()])
def test_of_an_incomplete_transcript_the_files_are_forked(
    daemon: DaemonFixture, project: Path, damage: Callable[[Told], None]
) -> None:
    told = Told(daemon, project)
    told.talk.prompt("write three")
    settle(daemon, project, 9)
    told.talk.path.write_bytes(told.bytes)
    damage(told)
    answer = told.fork("prompt:3")
    assert (answer["exit_status"], answer["resume"]) == (3, None)
    assert "transcript" in answer["conversation"]["refused"]
    assert (Path(answer["directory"]) / "two").exists()


def test_without_a_session_there_is_no_conversation_and_that_is_no_fault(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"a\n")
    daemon.add(project)
    made = take(daemon, project)
    answer = daemon.call("checkpoint.fork", project=project, id=made["id"])
    assert (answer["resume"], answer["session_id"], answer.get("exit_status")) == (None, None, None)
    assert "it belongs to no session" in answer["warnings"][0]
    assert answer["checkpoint"]["parent_checkpoint_id"] == made["id"]


def test_a_conversation_that_cannot_be_written_is_a_refusal(
    daemon_factory: Callable[..., DaemonFixture],
) -> None:
    daemon = daemon_factory(faults="conversation.recorded=enospc")
    project = daemon.projects / "project"
    project.mkdir()
    told = Told(daemon, project)
    answer = told.fork(told.first["id"])
    assert (answer["exit_status"], answer["resume"]) == (3, None)
    assert "no space left" in answer["conversation"]["refused"]
    assert not list((daemon.claude_dir / "projects" / slug(Path(answer["directory"]))).iterdir())


# the files


def test_every_kind_of_entry_is_laid_out(daemon: DaemonFixture, project: Path) -> None:
    make_odd_tree(project)
    (project / "closed").mkdir()
    put(project, b"closed/file", b"in a closed directory\n", 0o400)
    os.chmod(project / "closed", 0o500)
    os.chmod(project, 0o750)
    daemon.add(project)
    made = take(daemon, project)
    expected = snapshot(project)
    answer = daemon.call("checkpoint.fork", project=project, id=made["id"], into=project.parent / "elsewhere")
    assert_tree(project.parent / "elsewhere", expected)
    assert stat.S_IMODE(os.stat(answer["directory"]).st_mode) == 0o750
    assert sorted(os.listdir(project.parent)) == ["elsewhere", "project"]


def test_thousands_of_files_are_laid_out(daemon: DaemonFixture, project: Path) -> None:
    make_tree(project, 1500, random.Random(5))
    daemon.add(project)
    expected, made = snapshot(project), take(daemon, project)
    shutil.rmtree(project / "d0")
    answer = daemon.call("checkpoint.fork", project=project, id=made["id"])
    assert_tree(Path(answer["directory"]), expected)
    assert answer["files_processed"] == 1500


def test_what_is_ignored_is_not_there_and_that_is_said(daemon: DaemonFixture, project: Path) -> None:
    put(project, b".git/HEAD", b"ref: refs/heads/main\n")
    put(project, b".gitignore", b"build\n*.log\n")
    put(project, b"build/out", b"made\n")
    put(project, b"a.log", b"log\n")
    put(project, b"a.c", b"int a;\n")
    os.mkfifo(project / "pipe")
    daemon.add(project)
    answer = daemon.call("checkpoint.fork", project=project, id="@")
    assert sorted(os.listdir(answer["directory"])) == [".gitignore", "a.c"]
    assert "not in it, because it is not captured: .git, 2 ignored entries" in answer["warnings"]
    assert "pipe: a special file is not copied" in answer["warnings"]
    assert not answer.get("exit_status")


def test_an_incomplete_checkpoint_names_what_is_missing(
    daemon_factory: Callable[..., DaemonFixture],
) -> None:
    daemon = daemon_factory(config="max_file_bytes: 1 KiB\n")
    project = daemon.projects / "project"
    put(project, b"big", b"x" * 2000)
    put(project, b"small", b"x")
    daemon.add(project)
    answer = daemon.call("checkpoint.fork", project=project, id="@")
    assert answer["exit_status"] == 3 and any(warning.startswith("big: ") for warning in answer["warnings"])
    assert os.listdir(answer["directory"]) == ["small"]


def test_a_project_that_is_gone_can_be_forked(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    expected = snapshot(project)
    shutil.rmtree(project)
    daemon.until(lambda: daemon.call("daemon.status")["projects"][0]["state"] == "missing")
    answer = told.fork(told.second["id"])
    assert_tree(Path(answer["directory"]), expected)
    assert said(told.copy(answer)) == ["write one", "write two"]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda place: put(place, b"mine", b"mine\n"), "refused"),
        (lambda place: put(place.parent, b"taken", b"a file\n"), "refused"),
        (lambda place: os.symlink("project", place), "refused"),
    ],
)
def test_what_is_there_stays(daemon: DaemonFixture, project: Path, make: Callable[[Path], None], code: str) -> None:
    put(project, b"a", b"a\n")
    daemon.add(project)
    place = project.parent / "taken"
    make(place)
    before = snapshot(project.parent)
    with pytest.raises(RpcError) as caught:
        daemon.call("checkpoint.fork", project=project, id="@", into=place)
    assert (caught.value.code, caught.value.data["exit_status"]) == (code, 4)
    assert snapshot(project.parent) == before
    assert checkpoints(daemon, project, "fork") == []


def test_an_empty_directory_is_taken(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"a\n")
    daemon.add(project)
    (project.parent / "empty").mkdir()
    daemon.call("checkpoint.fork", project=project, id="@", into=project.parent / "empty")
    assert_tree(project.parent / "empty", snapshot(project))


def test_places_where_nothing_may_be(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"a\n")
    daemon.add(project)
    for into, status in ((daemon.data_dir / "x", 4), (project.parent / "no" / "where", 5)):
        with pytest.raises(RpcError) as caught:
            daemon.call("checkpoint.fork", project=project, id="@", into=into)
        assert caught.value.data["exit_status"] == status
        assert not into.exists()
    for into in ("relative", "/zero\0byte"):
        with pytest.raises(RpcError, match="absolute"):
            daemon.call("checkpoint.fork", project=project, id="@", into=into)
    for name, status in (("nope", 5), ("prompt:1", 5)):
        with pytest.raises(RpcError) as caught:
            daemon.call("checkpoint.fork", project=project, id=name)
        assert caught.value.data["exit_status"] == status
    assert os.listdir(project.parent) == ["project"]


def test_R17_a_damaged_content_stops_the_fork_and_nothing_is_left(daemon: DaemonFixture, project: Path) -> None:
    precious = random.Random(1).randbytes(5000)
    put(project, b"precious", precious)
    put(project, b"fine", b"fine\n")
    daemon.add(project)
    take(daemon, project)
    (segment,) = [path for path in daemon.data_dir.rglob("*.seg") if precious[:64] in path.read_bytes()]
    damaged = segment.read_bytes().replace(precious[100:164], bytes(64))
    segment.write_bytes(damaged)
    with pytest.raises(RpcError) as caught:
        daemon.call("checkpoint.fork", project=project, id="@")
    assert caught.value.data["exit_status"] == 9
    assert os.listdir(project.parent) == ["project"]
    assert checkpoints(daemon, project, "fork") == []


def test_a_fork_inside_the_project_is_a_project_of_its_own(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"a\n")
    daemon.add(project)
    expected = snapshot(project)
    daemon.call("checkpoint.fork", project=project, id="@", into=project / "inside")
    assert_tree(project / "inside", expected)
    assert set(tree_of(daemon, project, take(daemon, project)["id"])) == {b"a"}


def test_a_dry_run_changes_nothing(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    before = checkpoints(daemon, project)
    planned = told.fork(told.first["id"], dry_run=True)
    done = told.fork(told.first["id"])
    assert planned["directory"] == done["directory"] and planned["files_processed"] == 2
    assert (planned["resume"], planned["session_id"], planned["conversation"]["messages"]) == (None, None, 3)
    assert planned["warnings"] == done["warnings"]
    assert len(checkpoints(daemon, project)) == len(before) + 1


def test_of_two_forks_to_one_place_one_is_made(daemon: DaemonFixture, project: Path) -> None:
    make_tree(project, 200, random.Random(1))
    daemon.add(project)

    def fork(_: int) -> int:
        try:
            daemon.call("checkpoint.fork", project=project, id="@", into=project.parent / "one")
        except RpcError as error:
            return int(error.data["exit_status"])
        return 0

    results = in_parallel(3, fork)
    assert results.count(0) == 1 and set(results) <= {0, 4, 8}
    assert_tree(project.parent / "one", snapshot(project))
    assert sorted(os.listdir(project.parent)) == ["one", "project"]


@pytest.mark.parametrize("point", ["fork.laid_out", "conversation.recorded"])
def test_a_fork_that_was_killed_is_made_by_the_next_one(
    daemon_factory: Callable[..., DaemonFixture], point: str
) -> None:
    daemon = daemon_factory(faults=f"{point}=kill")
    project = daemon.projects / "project"
    (project / "closed").mkdir(parents=True)
    put(project, b"closed/file", b"file\n")
    os.chmod(project / "closed", 0o500)
    told = Told(daemon, project)
    with pytest.raises((EOFError, OSError)):
        told.fork(told.first["id"])
    assert daemon.faults_hit() == [point]
    daemon.arm("")
    daemon.restart(kill=True)
    assert told.unchanged()
    if point == "conversation.recorded":  # the files are there, the conversation is not: nothing half
        directory = project.parent / f"project-{told.first['id'][:8]}"
        assert_tree(directory, tree_of(daemon, project, told.first["id"]))
        assert not list((daemon.claude_dir / "projects" / slug(directory)).glob("*.jsonl"))
    answer = told.fork(told.first["id"], **({"name": "again"} if point == "conversation.recorded" else {}))
    assert_tree(Path(answer["directory"]), tree_of(daemon, project, told.first["id"]))
    assert said(told.copy(answer)) == ["write one"]
    assert not [name for name in os.listdir(project.parent) if name.endswith("~")]
