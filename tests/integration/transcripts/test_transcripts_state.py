"""Task state beside a session's transcript: triggers, checkpoints, restores, forks, and whose state a caller means."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError
from support.live_transcript import LiveConversation, LiveTranscript, checkpoints, settle
from support.stored import restore, take
from support.told import Told
from support.trees import put


def compact(talk: LiveConversation, trigger: str = "manual") -> dict[str, Any]:
    """The client compacts the conversation: a boundary, and the summary as a user's line."""
    before, talk.last = talk.last, None
    boundary = talk.line(
        "system", subtype="compact_boundary", logicalParentUuid=before, compactMetadata={"trigger": trigger}
    )
    talk.write(boundary, talk.user("This session is continued", isCompactSummary=True))
    return boundary


def save(daemon: DaemonFixture, session: str, **state: Any) -> dict[str, Any]:
    return daemon.call("state.save", session=session, state=state)


def load(daemon: DaemonFixture, session: str) -> dict[str, Any]:
    return daemon.call("state.load", session=session)


def snapshots(daemon: DaemonFixture, session: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.call("state.list", session=session)["snapshots"]
    return found


# T15: compactions


def test_T15_a_compaction_keeps_the_state_and_is_a_landmark(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    session = told.talk.session
    saved = save(daemon, session, title="Fix the login", steps=[{"id": 1, "text": "read"}])
    boundary = compact(told.talk)
    settle(daemon, project, 10)
    (landmark,) = checkpoints(daemon, project, "compaction")
    assert landmark["message_uuid"] == boundary["logicalParentUuid"] and landmark["session_id"] == session
    (kept,) = snapshots(daemon, session)
    assert (kept["kind"], kept["title"], kept["checkpoint_id"]) == ("auto", "Fix the login", landmark["id"])
    assert load(daemon, session)["updated_at"] == saved["updated_at"]
    shown = daemon.call("checkpoint.show", project=project, id=landmark["id"])["state"]
    assert (shown["session_id"], shown["state"]) == (session, saved["state"])
    # the conversation can be copied as it was before, with all that was said
    forked = told.fork(landmark["id"])
    assert [line.get("uuid") for line in told.copy(forked)][-2] == boundary["logicalParentUuid"]
    assert load(daemon, forked["session_id"])["state"] == saved["state"]


def test_T15_a_compaction_of_nothing_leaves_a_marked_placeholder(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    session = told.talk.session
    daemon.call("settings.set", project=project, key="strategy", value="manual")
    compact(told.talk, "auto")
    settle(daemon, project, 10)
    found = load(daemon, session)
    assert (found["exists"], found["synthesized"]) == (True, True) and "steps" not in found["state"]
    assert checkpoints(daemon, project, "compaction") == [], "nothing is taken under manual"
    assert daemon.call("state.status", session=session)["synthesized"]
    told_in_text = daemon.client("state", "status", "--session", session).stdout
    assert "a placeholder that mulligan made" in told_in_text
    saved = save(daemon, session, goal="real")
    assert (saved["synthesized"], saved["state"]) == (False, {"goal": "real"})
    daemon.call("state.clear", session=session, confirmed=True)
    assert not load(daemon, session)["exists"]
    compact(told.talk)
    settle(daemon, project, 12)
    assert load(daemon, session)["synthesized"], "cleared is as never saved"


def test_a_subagents_compaction_is_not_its_parents(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    told.talk.write(told.talk.line("system", subtype="compact_boundary", isSidechain=True, agentId="a1"))
    settle(daemon, project, 9)
    assert not load(daemon, told.talk.session)["exists"]
    assert checkpoints(daemon, project, "compaction") == []


# T16: prompts


def test_T16_every_fifth_prompt_over_restarts(daemon: DaemonFixture, project: Path) -> None:
    daemon.add(project)
    talk = LiveTranscript(daemon.claude_dir, project)
    talk.prompt("1")
    settle(daemon, project, 1)
    saved = save(daemon, talk.session, title="t")
    for number in range(2, 5):
        talk.prompt(str(number))
    settle(daemon, project, 4)
    assert snapshots(daemon, talk.session) == []
    daemon.restart(kill=True)
    talk.prompt("5")
    daemon.until(lambda: len(snapshots(daemon, talk.session)) == 1, what="the fifth prompt kept nothing")
    assert snapshots(daemon, talk.session)[0]["kind"] == "auto"
    for number in range(6, 12):
        talk.prompt(str(number))
    settle(daemon, project, 7)
    assert len(snapshots(daemon, talk.session)) == 1, "nothing has changed since"
    assert load(daemon, talk.session)["updated_at"] == saved["updated_at"]
    save(daemon, talk.session, title="u")
    for number in range(12, 16):
        talk.prompt(str(number))
    daemon.until(lambda: len(snapshots(daemon, talk.session)) == 2, what="the fifteenth prompt kept nothing")
    assert [each["title"] for each in snapshots(daemon, talk.session)] == ["u", "t"]


# checkpoints and their state


def test_a_checkpoint_shows_the_state_of_its_moment(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    session = told.talk.session
    before = take(daemon, project)
    save(daemon, session, title="one", steps=[{"id": "a", "status": "done"}, {"id": "b"}])
    first = take(daemon, project)
    save(daemon, session, title="two", blockers=["ci"])
    second = take(daemon, project)

    def shown(made: dict[str, Any]) -> Any:
        return daemon.call("checkpoint.show", project=project, id=made["id"])["state"]

    assert shown(before) is None
    assert [shown(made)["state"]["title"] for made in (first, second)] == ["one", "two"]
    assert "state       one (active), 1 of 2 steps done\n" in told.client("show", first["id"])[1]
    assert "state  " not in told.client("show", before["id"])[1]
    assert json.loads(told.client("show", second["id"], "--json")[1])["state"]["state"]["blockers"] == ["ci"]


def test_B7_a_restore_takes_the_state_along_and_undo_and_redo_too(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    session = told.talk.session
    save(daemon, session, title="one")
    then = take(daemon, project)
    put(project, b"one", b"changed\n")
    now = save(daemon, session, title="two")["state"]
    planned = daemon.call("checkpoint.restore", project=project, id=then["id"], state=True, dry_run=True)
    assert planned["state"]["state"] == {"title": "one"} and load(daemon, session)["state"] == now
    assert restore(daemon, project, then["id"]).get("state") is None and load(daemon, session)["state"] == now
    daemon.call("operation.undo", project=project, confirmed=True)
    status, out, _ = told.client("restore", then["id"], "--state", "--yes")
    assert status == 0 and f"task state of session {session[:8]}: one (active)" in out
    assert load(daemon, session)["state"] == {"title": "one"}
    (kept,) = snapshots(daemon, session)
    assert kept["kind"] == "pre_restore" and kept["title"] == "two" and kept["name"] in out
    undone = daemon.call("operation.undo", project=project, confirmed=True)
    assert undone["warnings"] == [f"the task state of session {session[:8]} went back too"]
    assert load(daemon, session)["state"] == now
    daemon.call("operation.redo", project=project, confirmed=True)
    assert load(daemon, session)["state"] == {"title": "one"}
    save(daemon, session, next="changed since")
    undone = daemon.call("operation.undo", project=project, confirmed=True)
    assert "changed since, and stays" in undone["warnings"][0]
    assert load(daemon, session)["state"] == {"title": "one", "next": "changed since"}


def test_a_restore_of_a_moment_without_state_says_so(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    now = save(daemon, told.talk.session, title="later")["state"]
    answer = restore(daemon, project, told.first["id"], state=True)
    assert answer["state"] is None and answer["warnings"] == ["the task state stays as it is: none was saved by then"]
    assert load(daemon, told.talk.session)["state"] == now


@pytest.mark.parametrize("option", ["conversation", "conversation_only"])
def test_a_copied_conversation_gets_the_state_and_the_old_one_keeps_its_own(
    daemon: DaemonFixture, project: Path, option: str
) -> None:
    told = Told(daemon, project)
    session = told.talk.session
    save(daemon, session, title="one")
    then = take(daemon, project)
    save(daemon, session, title="two")
    answer = restore(daemon, project, then["id"], state=True, session=session, **{option: True})
    copy = answer["resume"]["session_id"]
    assert answer["state"]["session_id"] == copy != session
    assert (load(daemon, copy)["state"], load(daemon, session)["state"]) == ({"title": "one"}, {"title": "two"})


def test_B7_a_fork_has_the_state_of_then_and_its_own_from_there(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    session = told.talk.session
    save(daemon, session, title="one")
    then = take(daemon, project)
    save(daemon, session, title="two")
    assert told.fork(then["id"], dry_run=True)["state"]["state"] == {"title": "one"}
    status, out, _ = told.client("fork", then["id"], "--session", session, "--json")
    answer = json.loads(out)
    assert status == 0 and answer["state"]["state"] == {"title": "one"}
    branch = answer["session_id"]
    save(daemon, branch, title="elsewhere")
    assert load(daemon, session)["state"] == {"title": "two"} and snapshots(daemon, session) == []
    placed = told.fork(then["id"], in_place=True, confirmed=True, session=session)
    assert load(daemon, placed["session_id"])["state"] == {"title": "one"}
    early = told.fork(told.first["id"])
    assert early["state"] is None and not load(daemon, early["session_id"])["exists"]


def test_the_state_outlives_transcript_project_and_directory(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    session = told.talk.session
    state = save(daemon, session, title="kept")["state"]
    told.talk.path.unlink()
    daemon.restart()
    assert load(daemon, session[:8])["state"] == state
    daemon.call("project.remove", project=project)
    assert load(daemon, session)["state"] == state
    shutil.rmtree(project)
    daemon.restart()
    assert load(daemon, session)["state"] == state
    assert daemon.call("state.load", project=project)["session_id"] == session, "its project is known by it"
    assert save(daemon, session, next="go on")["state"] == {"title": "kept", "next": "go on"}


# whose state


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for a client."""
    with subprocess.Popen(["sleep", "300"]) as sleeping:
        yield sleeping
        sleeping.kill()


def says(daemon: DaemonFixture, pid: int, session: str, cwd: Path) -> None:
    """The client's own file about itself."""
    directory = daemon.claude_dir / "sessions"
    directory.mkdir(exist_ok=True)
    (directory / f"{pid}.json").write_text(json.dumps({"pid": pid, "sessionId": session, "cwd": str(cwd)}))


def test_the_environment_of_an_agent_may_be_stale(
    daemon: DaemonFixture, project: Path, process: subprocess.Popen[bytes]
) -> None:
    daemon.add(project)
    old, new = str(uuid.uuid4()), str(uuid.uuid4())
    says(daemon, process.pid, old, project)
    environ = {"CLAUDE_CODE_SESSION_ID": old, "CLAUDE_PID": str(process.pid), "MULLIGAN_SESSION": str(uuid.uuid4())}

    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return daemon.client("state", *words, "--json", cwd=project, **{**environ, **more})

    assert json.loads(run("save", '{"title": "old"}').stdout)["session_id"] == old
    says(daemon, process.pid, new, project)  # as after /clear
    assert json.loads(run("save", '{"title": "new"}').stdout)["session_id"] == new
    assert load(daemon, old)["state"] == {"title": "old"}
    assert json.loads(run("load", "--session", old[:8]).stdout)["state"] == {"title": "old"}
    # without its number nobody knows whether the environment's session goes on in the one that runs
    said = run("load", CLAUDE_PID="")
    assert said.returncode == 2
    candidates = json.loads(said.stderr)["error"]["data"]["candidates"]
    assert {each["id"] for each in candidates} == {old, new}
    (daemon.claude_dir / "sessions" / f"{process.pid}.json").unlink()
    assert json.loads(run("load").stdout)["state"] == {"title": "old"}, "no client runs: what it says is all there is"


def test_without_an_agent_it_is_the_active_session_or_an_error(
    daemon: DaemonFixture, project: Path, process: subprocess.Popen[bytes]
) -> None:
    daemon.add(project)

    def which() -> str:
        return str(daemon.call("state.load", project=project)["session_id"])

    assert which() == "manual"
    assert daemon.call("state.save", project=project, state={"title": "mine"})["session_id"] == "manual"
    one = LiveTranscript(daemon.claude_dir, project)
    one.prompt("hello")
    settle(daemon, project, 1)
    assert which() == one.session and not load(daemon, one.session)["exists"]
    two = LiveTranscript(daemon.claude_dir, project)
    two.prompt("hello")
    settle(daemon, project, 2)
    with pytest.raises(RpcError) as ambiguous:
        which()
    assert ambiguous.value.code == "ambiguous" and ambiguous.value.data["exit_status"] == 2
    assert {each["id"] for each in ambiguous.value.data["candidates"]} == {one.session, two.session}
    says(daemon, process.pid, one.session, project)
    assert which() == one.session, "its client is the only one that runs"
    says(daemon, os.getpid(), two.session, project)
    with pytest.raises(RpcError, match="2 sessions"):
        which()
    assert daemon.call("state.load", project=project, session="manual")["state"] == {"title": "mine"}


def test_a_session_is_named_by_its_beginning_and_never_guessed(daemon: DaemonFixture, project: Path) -> None:
    daemon.add(project)
    first, second = (f"0000000{n}-0000-4000-8000-000000000000" for n in (1, 2))
    for session in (first, second, "ses_abcdefghijklmnop01"):
        daemon.call("state.save", project=project, session=session, state={"title": session})
    assert load(daemon, "00000001")["session_id"] == first
    assert load(daemon, "ses_abc")["state"]["title"] == "ses_abcdefghijklmnop01"
    for name, code in (("0000000", "ambiguous"), ("zz", "not_found"), ("../x", "usage"), ("a b", "usage")):
        with pytest.raises(RpcError) as wrong:
            load(daemon, name)
        assert wrong.value.code == code
    with pytest.raises(RpcError) as nowhere:
        daemon.call("state.save", session=str(uuid.uuid4()), state={})
    assert nowhere.value.code == "not_found" and "project" in nowhere.value.hint
    with pytest.raises(RpcError) as nobody:
        daemon.call("state.load")
    assert nobody.value.code == "usage" and "session" in nobody.value.hint
    with pytest.raises(RpcError) as unprotected:
        daemon.call("state.load", project="/nobody/s")
    assert unprotected.value.code == "not_found"


def test_a_state_that_cannot_be_written_keeps_no_files_back(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    session = told.talk.session
    save(daemon, session, title="one")
    then = take(daemon, project)
    now = save(daemon, session, title="two")["state"]
    assert daemon.stop() == 0
    with closing(sqlite3.connect(daemon.data_dir / "state.db")) as newer:
        newer.execute("pragma user_version = 99")
    daemon.start()
    put(project, b"one", b"changed\n")
    forked = told.fork(then["id"])
    assert forked["exit_status"] == 3 and forked["state"] is None and forked["resume"]
    assert "newer" in forked["warnings"][-1] and (Path(forked["directory"]) / "one").read_bytes() == b"one\n"
    answer = restore(daemon, project, then["id"], state=True)
    assert answer["exit_status"] == 3 and "newer" in answer["warnings"][-1]
    assert (project / "one").read_bytes() == b"one\n" and load(daemon, session)["state"] == now
    compact(told.talk)
    told.talk.prompt("goes on")
    settle(daemon, project, 3)
    assert len(checkpoints(daemon, project, "compaction")) == 1, "nothing else is kept back"
    assert daemon.log().count("the task state is not kept") == 1


def test_a_conversation_that_is_not_copied_takes_no_state_along(daemon: DaemonFixture, project: Path) -> None:
    told = Told(daemon, project)
    save(daemon, told.talk.session, title="one")
    then = take(daemon, project)
    told.talk.path.unlink()
    forked = told.fork(then["id"])
    assert forked["state"] is None and "the task state was not copied" in forked["warnings"][-1]
