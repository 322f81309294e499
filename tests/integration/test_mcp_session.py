"""Whose call it is: the environment of a server is that of its start, and the client's session changes meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.daemon import DaemonFixture, RpcError
from support.live_transcript import Agent, LiveTranscript, session_of
from support.mcp_client import AgentClient, ToolError, agent_client
from support.trees import put

pytestmark = pytest.mark.disk


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonFixture]:
    made = DaemonFixture().start()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def project(daemon: DaemonFixture) -> Iterator[Path]:
    path = daemon.projects / uuid.uuid4().hex[:8]
    put(path, b"a.txt", b"one\n")
    daemon.add(path)
    yield path
    shutil.rmtree(daemon.claude_dir / "sessions", ignore_errors=True)


def begin(daemon: DaemonFixture, project: Path, session: str = "") -> LiveTranscript:
    """A session with one prompt, known to the daemon."""
    talk = LiveTranscript(daemon.claude_dir, project, session)
    talk.prompt(f"hello from {talk.session[:4]}")
    session_of(daemon, project, talk.session)
    return talk


def live(daemon: DaemonFixture, project: Path, session: str) -> None:
    """The client says that it is in this session, as it does in a file of its own; it is this process."""
    directory = daemon.claude_dir / "sessions"
    directory.mkdir(exist_ok=True)
    said = {"pid": os.getpid(), "sessionId": session, "cwd": str(project), "startedAt": 0}
    (directory / f"{os.getpid()}.json").write_text(json.dumps(said))


def caller(agent: AgentClient) -> str:
    """The session in which a checkpoint of the agent stands."""
    return str(agent.call("checkpoint_create")["checkpoint"]["session_id"])


def test_the_session_of_the_living_client_wins_over_the_environment(daemon: DaemonFixture, project: Path) -> None:
    first, second, third = (begin(daemon, project) for _ in range(3))
    live(daemon, project, first.session)
    with agent_client(daemon, project, CLAUDE_CODE_SESSION_ID=first.session) as agent:
        assert caller(agent) == first.session
        live(daemon, project, second.session)  # cleared: another session of the same client
        assert caller(agent) == second.session
        live(daemon, project, third.session)  # resumed or forked
        assert caller(agent) == third.session


def test_the_client_is_found_by_its_process_alone(daemon: DaemonFixture, project: Path) -> None:
    first, second = begin(daemon, project), begin(daemon, project)
    live(daemon, project, first.session)
    with agent_client(daemon, project) as agent:
        assert caller(agent) == first.session
        live(daemon, project, second.session)
        assert caller(agent) == second.session


def test_the_client_is_looked_for_behind_shells_and_not_further() -> None:
    asked = "from mulligan.agents.seat import client_pid; print(client_pid())"
    behind = f'sh -c "sh -c \\"{sys.executable} -c \'{asked}\'; true\\"; true"'
    script = f"import os, subprocess; print(os.getpid()); subprocess.run({behind!r}, shell=True, check=True)"
    done = subprocess.run([sys.executable, "-uc", script], capture_output=True, text=True, check=True)
    client, found = done.stdout.split()
    assert client == found and client != str(os.getpid())


def test_a_file_of_a_client_that_is_dead_says_nothing(daemon: DaemonFixture, project: Path) -> None:
    dead = begin(daemon, project)
    (daemon.claude_dir / "sessions").mkdir()
    said = {"pid": 2**22 + 1, "sessionId": dead.session, "cwd": str(project)}
    (daemon.claude_dir / "sessions" / f"{2**22 + 1}.json").write_text(json.dumps(said))
    found = daemon.call("session.of", project=project, pid=2**22 + 1, session=(other := str(uuid.uuid4())))
    assert found == {"version": 1, "session_id": other, "source": "environment"}


def test_a_call_says_whose_it_is(daemon: DaemonFixture, project: Path) -> None:
    begin(daemon, project)
    mine = Agent(daemon.claude_dir, project)
    mine.prompt("mine")
    tool = mine.open("mcp__mulligan__checkpoint_create")
    begin(daemon, project)
    with agent_client(daemon, project) as agent:
        result = agent.result("checkpoint_create", {"claudecode/toolUseId": tool})
    assert result.structured_content["checkpoint"]["session_id"] == mine.session


def test_a_call_whose_line_comes_late_is_waited_for(daemon: DaemonFixture, project: Path) -> None:
    begin(daemon, project)
    mine = Agent(daemon.claude_dir, project)
    mine.prompt("mine")
    begin(daemon, project)
    with daemon.connect() as connection:
        connection._socket.sendall(  # the request first, the line after
            json.dumps({
                "jsonrpc": "2.0", "id": 1, "method": "session.of",
                "params": {"project": str(project), "call": "toolu_late00000000"},
            }).encode() + b"\n"
        )  # fmt: skip
        mine.write(mine.call("toolu_late00000000", "mcp__mulligan__blame", input={}))
        assert connection.read()["result"] == {"version": 1, "session_id": mine.session, "source": "call"}


def test_the_only_session_that_awaits_such_a_call_is_meant(daemon: DaemonFixture, project: Path) -> None:
    first, second = Agent(daemon.claude_dir, project), Agent(daemon.claude_dir, project)
    with agent_client(daemon, project) as agent:
        first.prompt("first")
        second.prompt("second")
        tool = first.open("mulligan_checkpoint_create")
        second.open("mulligan_blame", path="a.txt")
        other = second.open("git_checkpoint_create")  # of another server
        daemon.until(lambda: daemon.call("session.of", project=project, call=other)["session_id"] == second.session)
        assert caller(agent) == first.session
        first.close(tool)
        with pytest.raises(ToolError, match="not certain which session"):
            daemon.until(lambda: caller(agent) != first.session)


def test_the_only_active_session_is_meant_and_of_two_none(daemon: DaemonFixture, project: Path) -> None:
    with agent_client(daemon, project) as agent:
        first = begin(daemon, project)
        assert caller(agent) == first.session
        second = begin(daemon, project)
        with pytest.raises(ToolError, match="not certain which session") as unclear:
            agent.call("checkpoint_create")
    assert unclear.value.code == "ambiguous"
    assert [one["id"] for one in unclear.value.error["candidates"]] == [second.session, first.session]
    assert f'{first.session} "hello from {first.session[:4]}"' in unclear.value.hint
    with agent_client(daemon, project, MULLIGAN_SESSION=first.session) as agent:
        assert caller(agent) == first.session


def test_a_session_that_began_before_the_server_is_told_from_one_since(daemon: DaemonFixture, project: Path) -> None:
    old = begin(daemon, project)
    assert daemon.call("session.of", project=project)["session_id"] == old.session
    with agent_client(daemon, project) as agent:
        new = begin(daemon, project)
        assert caller(agent) == new.session


def test_an_environment_that_others_have_overtaken_is_no_answer(daemon: DaemonFixture, project: Path) -> None:
    old = begin(daemon, project)
    with agent_client(daemon, project, CLAUDE_CODE_SESSION_ID=old.session) as agent:
        assert caller(agent) == old.session
        begin(daemon, project)
        with pytest.raises(ToolError, match=f"began with session {old.session}, and since then others"):
            agent.call("checkpoint_create")
        known = _last(daemon, project, old.session)
        old.prompt("I am still here")
        daemon.until(lambda: _last(daemon, project, old.session) > known)
        assert caller(agent) == old.session


def _last(daemon: DaemonFixture, project: Path, session: str) -> str:
    return str(daemon.call("session.show", project=project, session=session)["session"]["last_activity"])


def test_without_any_session_the_projects_own_is_meant(daemon: DaemonFixture, project: Path) -> None:
    assert daemon.call("session.of", project=project) == {"version": 1, "session_id": None, "source": None}
    with agent_client(daemon, project) as agent:
        assert caller(agent) == "manual"
        assert [one["session_id"] for one in agent.call("checkpoint_list", mine=True)["checkpoints"]] == ["manual"] * 2
        assert agent.call("state_save", state={"title": "by no agent"})["session_id"] == "manual"
        assert json.loads(agent.read("mulligan://timeline"))["total_checkpoints"] == 2


@pytest.mark.parametrize("session", ["../../x", "a b", "x" * 200, "-x"])
def test_an_odd_id_is_refused(daemon: DaemonFixture, project: Path, session: str) -> None:
    with pytest.raises(RpcError, match="is no id") as odd:
        daemon.call("session.of", project=project, session=session)
    assert odd.value.code == "usage"


def test_an_agent_may_give_itself_an_id(daemon: DaemonFixture, project: Path) -> None:
    daemon.call("checkpoint.create", project=project, description="before")
    name = f"build-{project.name}"
    with agent_client(daemon, project, MULLIGAN_SESSION=name) as agent:
        assert agent.call("state_save", state={"title": "mine"})["session_id"] == name
        assert caller(agent) == name
        assert len(agent.call("checkpoint_list", mine=True)["checkpoints"]) == 1
        assert json.loads(agent.read("mulligan://timeline"))["session_id"] == name
        put(project, b"a.txt", b"two\n")
        daemon.call("watch.sync", project=project)
        plan = agent.call("restore", id="2")
        assert agent.call("restore", id="2", token=plan["token"])["done"]
        assert agent.call("undo", token=agent.call("undo")["token"])["done"]
    # another whose id only begins in the same way is another one, and a person's client in that shell is this one
    with agent_client(daemon, project, MULLIGAN_SESSION=name[:-1]) as agent:
        assert agent.call("state_load") == {
            "session_id": name[:-1], "exists": False, "synthesized": False, "updated_at": None, "state": {}
        }  # fmt: skip
    done = daemon.client("state", "load", "--json", cwd=project, MULLIGAN_SESSION=name)
    assert json.loads(done.stdout)["state"] == {"title": "mine"}
    assert daemon.call("session.show", project=project, session=name)["session"]["prompts"] == 0


def test_an_id_of_ones_own_is_of_one_project(daemon: DaemonFixture, project: Path) -> None:
    name, other = f"one-{project.name}", project.with_name(f"{project.name}-other")
    put(other, b"a.txt", b"one\n")
    daemon.add(other)
    daemon.call("state.save", project=project, own_session=name, state={"title": "here"})
    assert daemon.call("state.load", project=other, own_session=name)["state"] == {"title": "here"}
    daemon.call("project.remove", project=other)


@pytest.mark.parametrize("session", ["../../x", "a b", "x" * 201, "-x", "manual-0123456789abcdef"])
def test_an_odd_id_of_ones_own_is_refused(daemon: DaemonFixture, project: Path, session: str) -> None:
    with pytest.raises(RpcError, match="no session's id") as odd:
        daemon.call("session.of", project=project, own=session)
    assert odd.value.code == "usage" and "letters" in odd.value.hint
    done = daemon.client("state", "save", '{"title": "t"}', cwd=project, MULLIGAN_SESSION=session)
    assert done.returncode == 2 and "no session's id" in done.stderr
