"""Conversations for a project's own directory: `restore --conversation`, and forks in place, through the client."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.daemon import DaemonFixture, RpcError
from support.live_transcript import checkpoints, slug, started
from support.told import Told
from support.trees import assert_tree, snapshot


@pytest.fixture
def daemon(daemon_factory: Callable[..., DaemonFixture]) -> DaemonFixture:
    """A running daemon that looks at transcripts already."""
    return started(daemon_factory)


def current_of(daemon: DaemonFixture, project: Path) -> str:
    """The project's current checkpoint."""
    return str(daemon.call("checkpoint.list", project=project)["current_checkpoint_id"])


def test_X8_a_restore_brings_the_conversation_as_a_session_of_its_own(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    status, out, _ = told.client("restore", told.first["id"], "--conversation", "--yes", "--json")
    answer = json.loads(out)
    assert status == 0 and answer["resume"]["directory"] == str(project)
    assert answer["resume"]["command"] == f"claude --resume {answer['resume']['session_id']}"
    (copy,) = told.copies()
    assert [line["sessionId"] for line in copy] == [answer["resume"]["session_id"]] * 4
    assert {line["cwd"] for line in copy[:3]} == {str(project)}
    assert copy[-1]["customTitle"] == f"back to {told.first['ordinal']}"
    assert told.unchanged()
    assert not (project / "two").exists()
    assert answer["pre_restore_checkpoint_id"]
    shown = daemon.call("session.show", project=project, session=answer["resume"]["session_id"])["session"]
    assert shown["current_checkpoint_id"] == told.first["id"]
    assert daemon.client("undo", "--yes", cwd=project).returncode == 0
    assert (project / "two").exists()


def test_a_restore_ends_with_the_line_that_brings_the_conversation(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    status, out, _ = told.client("restore", str(told.first["ordinal"]), "--yes")
    assert status == 0
    assert out.splitlines()[-1] == f"conversation too: mulligan restore {told.first['ordinal']} --conversation"
    assert told.copies() == []
    status, out, _ = told.client("restore", "1", "--yes")
    assert status == 0 and "conversation" not in out, "the baseline is nobody's"
    status, out, _ = told.client("restore", str(told.second["ordinal"]), "--yes", "--conversation")
    assert out.splitlines()[1] == "go on there:" and "claude --resume" in out.splitlines()[2]


def test_the_conversation_alone_leaves_the_files_as_they_are(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    before, current = snapshot(project), current_of(daemon, project)
    status, out, _ = told.client("restore", told.first["id"], "--conversation-only", "--yes", "--json")
    answer = json.loads(out)
    assert status == 0 and answer["files_processed"] == 0
    assert_tree(project, before)
    assert len(told.copies()) == 1
    kept = next(made for made in checkpoints(daemon, project) if made["id"] == answer["pre_restore_checkpoint_id"])
    assert kept["trigger"] == "pre_restore"
    assert current_of(daemon, project) == current, "the files are where they were"


def test_a_conversation_asks_first(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    for option in ("--conversation", "--conversation-only"):
        status, out, err = told.client("restore", told.first["id"], option)
        assert status == 4 and "conversation  3 messages" in out and "--yes" in err
        assert told.client("restore", told.first["id"], option, "--dry-run")[0] == 0
    assert told.copies() == [] and (project / "two").exists()
    assert told.client("restore", told.first["id"], "--conversation", "--conversation-only")[0] == 2
    with pytest.raises(RpcError, match="not confirmed"):
        daemon.call("checkpoint.restore", project=project, id="@", conversation_only=True)


def test_files_are_restored_although_the_conversation_is_refused(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project, version="4.0.0")
    status, _, err = told.client("restore", told.first["id"], "--conversation", "--yes")
    assert status == 3 and "version 4.0.0" in err
    assert not (project / "two").exists()
    status, _, err = told.client("restore", told.first["id"], "--conversation-only", "--yes")
    assert status == 4 and "version 4.0.0" in err
    assert told.copies() == []


def test_where_nothing_was_said_there_is_nothing_to_bring(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    for name in ("1", "prompt:1"):
        status, _, err = told.client("restore", name, "--conversation-only", "--yes")
        assert status == 5 and "no conversation" in err
    status, out, err = told.client("restore", "1", "--conversation", "--yes", "--json")
    assert status == 0 and json.loads(out)["resume"] is None
    assert "no conversation: it belongs to no session" in err


# forks in place


def test_a_fork_in_place_asks_and_can_be_undone(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    before = snapshot(project)
    status, out, err = told.client("fork", told.first["id"], "--in-place")
    assert status == 4 and "delete" in out and "--yes" in err
    assert_tree(project, before)
    status, out, _ = told.client("fork", told.first["id"], "--in-place", "-m", "bucket", "--yes", "--json")
    answer = json.loads(out)
    assert status == 0 and answer["directory"] == str(project)
    assert sorted(snapshot(project)) == [b"README", b"one"]
    branch = answer["checkpoint"]
    assert (branch["trigger"], branch["parent_checkpoint_id"]) == ("fork", told.first["id"])
    assert (branch["session_id"], branch["description"]) == (answer["session_id"], "bucket")
    assert current_of(daemon, project) == branch["id"]
    (copy,) = told.copies()
    assert copy[-1] == {"type": "custom-title", "customTitle": "bucket", "sessionId": answer["session_id"]}
    assert told.unchanged()
    assert told.client("undo", "--yes")[0] == 0
    assert_tree(project, before)


def test_a_fork_goes_into_a_directory_or_stays_in_place(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    assert told.client("fork", "@", "--in-place", "--into", "x")[0] == 2
    with pytest.raises(RpcError) as caught:
        daemon.call("checkpoint.fork", project=project, id="@", in_place=True, into="/x")
    assert caught.value.data["exit_status"] == 2


def test_a_person_reads_where_to_go_on(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    status, out, err = told.client("fork", str(told.first["ordinal"]), "--into", "../with blank")
    place = project.parent / "with blank"
    (branch,) = checkpoints(daemon, project, "fork")
    (copy,) = [path.stem for path in (daemon.claude_dir / "projects" / slug(place)).iterdir()]
    assert status == 0
    assert out.splitlines() == [
        f"forked into {place}, branch {branch['ordinal']}: 2 files",
        "go on there:",
        f"  cd '{place}' && claude --resume {copy}",
    ]
    assert f"the conversation speaks of files in {project}" in err
    status, out, _ = told.client("fork", str(told.first["ordinal"]), "--dry-run")
    assert status == 0 and f"project-{told.first['id'][:8]}" in out and "3 messages" in out
