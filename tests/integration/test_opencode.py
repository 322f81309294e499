"""What OpenCode's plugin tells becomes prompts, calls, checkpoints and state, as with Claude Code's transcripts."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError
from support.live_transcript import APART, await_checkpoint, checkpoints, session_of
from support.opencode import OpenCodeSession, new_session
from support.store_bytes import holding
from support.stored import tree_of
from support.trees import put, snapshot

pytestmark = pytest.mark.disk


@pytest.fixture
def project(daemon: DaemonFixture) -> Path:
    """A protected project with one file."""
    project = daemon.projects / "project"
    put(project, b"a.txt", b"one\n")
    daemon.add(project)
    return project


@pytest.fixture
def agent(daemon: DaemonFixture, project: Path) -> OpenCodeSession:
    return OpenCodeSession(daemon, project)


def hooks(daemon: DaemonFixture) -> dict[str, Any]:
    found: dict[str, Any] = daemon.call("daemon.status")["daemon"]["hooks"]
    return found


def test_a_turn_leads_to_the_checkpoints_of_the_strategy(
    daemon: DaemonFixture, project: Path, agent: OpenCodeSession
) -> None:
    agent.prompt("write and run")
    first = agent.write(project / "a.txt", b"two\n")
    second = agent.start("bash", command="echo three > b.txt; exit 1")
    put(project, b"b.txt", b"three\n")
    agent.finish("bash", second, is_error=True)
    third = agent.start("read", filePath=str(project / "a.txt"))
    agent.finish("read", third)
    agent.stop()
    agent.settle()
    made = checkpoints(daemon, project, "tool_use", "prompt", "turn_end")
    assert [(one["tool"]["name"], one["tool"]["id"], one["tool"]["is_error"]) for one in made] == [
        ("write", first, False),
        ("bash", second, True),
    ]
    assert all(one["metadata"]["user_prompt"] == "write and run" for one in made)
    assert all(one["metadata"]["model_used"] == "mock-1" for one in made)
    assert {one["session_id"] for one in made} == {agent.session}
    assert tree_of(daemon, project, made[-1]["id"]) == snapshot(project)
    (line,) = daemon.call("file.blame", project=project, paths=["b.txt"])["lines"]
    assert (line["tool"], line["prompt"], line["grade"]) == ("bash", "write and run", "window")
    assert hooks(daemon)["odd"] == {}


def test_a_call_begins_with_the_tree_that_its_hook_found(
    daemon: DaemonFixture, project: Path, agent: OpenCodeSession
) -> None:
    agent.prompt("go")
    put(project, b"a.txt", b"by a person\n")
    expected = snapshot(project)
    agent.write(project / "a.txt", b"by the agent\n")
    agent.settle()
    before = await_checkpoint(daemon, project, "tool_use", 2)
    before, after = checkpoints(daemon, project, "tool_use")
    assert (before["placement"], tree_of(daemon, project, before["id"])) == ("hook", expected)
    assert tree_of(daemon, project, after["id"]) == snapshot(project)


def test_per_prompt_takes_the_tree_before_each_prompt(daemon: DaemonFixture, project: Path) -> None:
    daemon.call("settings.set", project=project, key="strategy", value="per_prompt", scope="project")
    agent = OpenCodeSession(daemon, project)
    trees = []
    for number in range(3):
        trees.append(snapshot(project))
        agent.prompt(f"prompt {number}", kind="queued" if number == 1 else "typed")
        agent.write(project / "a.txt", f"{number}\n".encode() * 2)
    agent.stop()
    agent.settle()
    made = checkpoints(daemon, project, "prompt")
    assert [one["metadata"]["user_prompt"] for one in made] == ["prompt 0", "prompt 1", "prompt 2"]
    assert [tree_of(daemon, project, one["id"]) for one in made] == trees
    assert session_of(daemon, project, agent.session)["prompts"] == 3


def test_a_project_is_added_when_an_agent_works_in_it(daemon: DaemonFixture) -> None:
    project = daemon.projects / "new"
    put(project, b"sub/a.txt", b"one\n")
    put(project, b".git/HEAD", b"ref: refs/heads/main\n")
    agent = OpenCodeSession(daemon, project / "sub")
    agent.tell("SessionStart", source="startup")
    await_checkpoint(daemon, project, "baseline")
    agent.prompt("go")
    agent.write(project / "sub/a.txt", b"two\n")
    assert await_checkpoint(daemon, project, "tool_use")["tool"]["name"] == "write"


def test_a_childs_calls_are_its_roots_and_its_prompts_nobodys(
    daemon: DaemonFixture, project: Path, agent: OpenCodeSession
) -> None:
    child = OpenCodeSession(daemon, project, root=agent.session)
    agent.prompt("let somebody do it")
    task = agent.start("task", description="sub", subagent_type="general")
    child.tell("SessionStart", source="startup")
    child.prompt("do it")
    done = child.write(project / "c.txt", b"by the child\n")
    child.tell("Usage", message_id="msg_child", model="mock-2", usage={"input_tokens": 5, "output_tokens": 6})
    child.stop()
    agent.finish("task", task)
    agent.stop()
    agent.settle()
    (made,) = checkpoints(daemon, project, "tool_use")
    assert (made["session_id"], made["tool"]["id"]) == (agent.session, done)
    session = session_of(daemon, project, agent.session)
    assert (session["prompts"], session["calls"], session["metadata"]["total_tokens"]) == (1, 2, 11)
    assert [one["id"] for one in daemon.call("session.list", project=project)["sessions"]] == [agent.session]
    (line,) = daemon.call("file.blame", project=project, paths=["c.txt"])["lines"]
    assert (line["tool"], line["prompt"], line["session_id"]) == ("write", "let somebody do it", agent.session)


def test_what_is_told_twice_or_after_a_restart_counts_once(
    daemon: DaemonFixture, project: Path, agent: OpenCodeSession
) -> None:
    told = [agent.told("UserPromptSubmit", prompt="go", prompt_id="msg_once")]
    told += [agent.told("PreToolUse", tool_name="write", tool_use_id="call_once", tool_input={"filePath": "a.txt"})]
    for one in told:
        agent.deliver(one)
    put(project, b"a.txt", b"two\n")
    time.sleep(APART)
    told.append(agent.told("PostToolUse", tool_name="write", tool_use_id="call_once"))
    told.append(agent.told("Usage", message_id="msg_answer", model="mock-1", usage={"input_tokens": 7}))
    told.append(agent.told("Stop", reason="idle"))
    for one in told:
        agent.deliver(one)
    agent.settle()
    before = agent.kept_lines()
    daemon.restart(kill=True)
    for one in told:
        agent.deliver(one)
    agent.settle(before)
    assert len(checkpoints(daemon, project, "tool_use", "turn_end")) == 1
    session = session_of(daemon, project, agent.session)
    assert (session["prompts"], session["calls"], session["metadata"]["input_tokens"]) == (1, 1, 7)


def test_what_was_acknowledged_survives_the_daemons_end(
    daemon: DaemonFixture, project: Path, agent: OpenCodeSession
) -> None:
    for number in range(20):
        agent.prompt(f"prompt {number}")
        agent.write(project / "a.txt", f"{number}\n".encode())
    daemon.restart(kill=True)
    daemon.until(lambda: session_of(daemon, project, agent.session)["calls"] == 20)
    assert session_of(daemon, project, agent.session)["prompts"] == 20
    await_checkpoint(daemon, project, "tool_use", 20)
    assert len(checkpoints(daemon, project, "tool_use")) == 20


def test_what_cannot_be_kept_is_refused_and_told_again(daemon_factory: Callable[..., DaemonFixture]) -> None:
    daemon = daemon_factory(faults="kept.append=enospc@1")
    project = daemon.projects / "project"
    put(project, b"a.txt", b"one\n")
    daemon.add(project)
    agent = OpenCodeSession(daemon, project)
    told = agent.told("UserPromptSubmit", prompt="go", prompt_id="msg_again")
    with pytest.raises(RpcError) as refused:
        agent.deliver(told)
    assert refused.value.code == "busy"
    assert agent.deliver(told) == ""
    agent.settle()
    assert session_of(daemon, project, agent.session)["prompts"] == 1
    assert hooks(daemon)["odd"] == {"could not be kept": 1}


def test_a_compaction_takes_the_state_along_and_a_childs_nothing(
    daemon: DaemonFixture, project: Path, agent: OpenCodeSession
) -> None:
    agent.prompt("go")
    agent.settle()
    assert agent.tell("PreCompact") == ""  # nothing was saved, and a placeholder is not told
    daemon.call("state.save", project=project, session=agent.session, state={"title": "The bridge"})
    text = agent.tell("PreCompact")
    assert "The bridge" in text
    child = OpenCodeSession(daemon, project, root=agent.session)
    assert child.tell("PreCompact") == ""
    late = agent.told("PreCompact")
    assert agent.deliver({**late, "time": late["time"] - 60_000}) == ""
    agent.tell("PostCompact")
    agent.settle()
    made = await_checkpoint(daemon, project, "compaction")
    assert made["session_id"] == agent.session
    loaded = daemon.call("state.load", project=project, session=agent.session)
    assert (loaded["state"], loaded["synthesized"]) == ({"title": "The bridge"}, False)
    assert not daemon.call("state.load", project=project, session=child.session)["exists"]


def test_a_fork_says_that_the_conversation_stays(daemon: DaemonFixture, project: Path, agent: OpenCodeSession) -> None:
    agent.prompt("go")
    agent.write(project / "a.txt", b"two\n")
    agent.stop()
    agent.settle()
    (made,) = checkpoints(daemon, project, "tool_use")
    daemon.call("state.save", project=project, session=agent.session, state={"title": "The bridge"})
    into = daemon.projects / "fork"
    forked = daemon.call("checkpoint.fork", project=project, id=made["id"], into=into)
    assert (into / "a.txt").read_bytes() == b"two\n"
    assert "the conversation was not copied: OpenCode keeps its conversations itself" in forked["warnings"]


def test_the_client_knows_the_session_of_a_shell(daemon: DaemonFixture, project: Path, agent: OpenCodeSession) -> None:
    other = OpenCodeSession(daemon, project)
    for one in (agent, other):
        one.prompt("go")
        one.settle()
    saved = daemon.client("state", "save", '{"title": "mine"}', cwd=project, MULLIGAN_SESSION=agent.session)
    assert (saved.returncode, saved.stderr) == (0, "")
    assert daemon.call("state.load", project=project, session=agent.session)["state"] == {"title": "mine"}
    assert not daemon.call("state.load", project=project, session=other.session)["exists"]


@pytest.mark.parametrize(
    ("event", "change"),
    [
        ("Stop", {"session_id": "../../etc/passwd"}),
        ("Stop", {"session_id": "5c0e9a1e-1111-2222-3333-444455556666"}),
        ("Stop", {"parent_session_id": "ses_short"}),
        ("Stop", {"cwd": "relative"}),
        ("Stop", {"time": -1}),
        ("Stop", {"time": "now"}),
        ("Stop", {"hook_event_name": "Start"}),
        ("Unheard", {}),
        ("PreToolUse", {"tool_use_id": "a\nb"}),
        ("UserPromptSubmit", {"kind": "shouted"}),
    ],
)
def test_odd_inputs_are_counted_and_lead_to_nothing(
    daemon: DaemonFixture, project: Path, event: str, change: dict[str, Any]
) -> None:
    agent = OpenCodeSession(daemon, project)
    told = {**agent.told(event), **change}
    answer = daemon.call("hook.deliver", agent="opencode", event=event, input=json.dumps(told))
    assert answer["output"] == ""
    assert sum(hooks(daemon)["odd"].values()) == 1
    assert list(agent.kept.parent.iterdir()) == []


def test_what_is_kept_is_the_persons_alone(daemon: DaemonFixture, project: Path, agent: OpenCodeSession) -> None:
    agent.prompt("go")
    assert stat.S_IMODE(agent.kept.stat().st_mode) == 0o600
    assert {stat.S_IMODE(made.stat().st_mode) for made in list(agent.kept.parents)[:3]} == {0o700}


def test_it_goes_with_its_project(daemon: DaemonFixture, project: Path, agent: OpenCodeSession) -> None:
    agent.prompt("a telling prompt")
    agent.write(project / "a.txt", b"two\n")
    agent.stop()
    agent.settle()
    daemon.call("state.save", project=project, session=agent.session, state={"title": "t"})
    handoff = daemon.call("state.handoff", project=project, session=agent.session)["path"]
    daemon.call("project.remove", project=project, purge=True, confirmed=True)
    assert not agent.kept.exists() and not Path(handoff).exists()
    assert holding(daemon.data_dir, b"a telling prompt") == []


def test_an_interrupted_turn_and_an_ended_session_close_their_calls(
    daemon: DaemonFixture, project: Path, agent: OpenCodeSession
) -> None:
    agent.prompt("go")
    agent.start("bash", command="sleep 1000")
    agent.settle()
    assert session_of(daemon, project, agent.session)["at_work"]
    agent.stop("interrupted")
    agent.settle()
    assert not session_of(daemon, project, agent.session)["at_work"]
    agent.tell("SessionEnd")
    agent.stop()
    agent.settle()
    assert session_of(daemon, project, agent.session)["prompts"] == 1
    assert new_session() != agent.session
