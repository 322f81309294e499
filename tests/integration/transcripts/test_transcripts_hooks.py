"""What hooks tell refines what the lines tell, and counts nothing twice; told as the client tells it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, in_parallel
from support.live_transcript import APART, Agent, await_checkpoint, checkpoints, replace, session_of, settle, started
from support.stored import rows, tree_of
from support.trees import put, snapshot

pytestmark = pytest.mark.disk


@pytest.fixture
def daemon(daemon_factory: Callable[..., DaemonFixture]) -> DaemonFixture:
    return started(daemon_factory)


@pytest.fixture
def project(daemon: DaemonFixture) -> Path:
    """A protected project with one file."""
    project = daemon.projects / "project"
    put(project, b"a.txt", b"one\n")
    daemon.add(project)
    return project


class Hooked(Agent):
    """A session with hooks; `hook` delivers as the hook program does."""

    def __init__(self, daemon: DaemonFixture, project: Path) -> None:
        super().__init__(daemon.claude_dir, project)
        self.daemon, self.project, self.lines = daemon, project, 0

    def hook(self, event: str, **more: Any) -> str:
        told = {"session_id": self.session, "cwd": str(self.project), "hook_event_name": event, **more}
        output = self.daemon.call("hook.deliver", event=event, input=json.dumps(told), sent=time.monotonic_ns())
        return str(output["output"])

    def before(self, tool: str, name: str = "Bash", **arguments: Any) -> None:
        assert self.hook("PreToolUse", tool_name=name, tool_use_id=tool, tool_input=arguments) == ""

    def write(self, *lines: Any) -> None:
        super().write(*lines)
        self.lines += len(lines)

    def settle(self) -> None:
        settle(self.daemon, self.project, self.lines)


@pytest.fixture
def agent(daemon: DaemonFixture, project: Path) -> Hooked:
    return Hooked(daemon, project)


def new_tool() -> str:
    return f"toolu_{uuid.uuid4().hex[:12]}"


def hooks(daemon: DaemonFixture) -> dict[str, Any]:
    found: dict[str, Any] = daemon.call("daemon.status")["daemon"]["hooks"]
    return found


def before(daemon: DaemonFixture, project: Path, tool: str) -> list[dict[str, Any]]:
    """The checkpoints of the tree that a call began with."""
    made = checkpoints(daemon, project, "tool_use")
    return [one for one in made if one["tool"]["id"] == tool and one["placement"] == "hook"]


def test_a_call_begins_with_the_tree_that_its_hook_found(daemon: DaemonFixture, agent: Hooked, project: Path) -> None:
    agent.prompt("go")
    tool = new_tool()
    replace(project / "a.txt", b"by a person\n")
    expected = snapshot(project)
    agent.before(tool, command="echo > a.txt")
    replace(project / "a.txt", b"by the call\n")
    agent.write(agent.call(tool, "Bash", input={"command": "echo > a.txt"}), agent.result(tool))
    await_checkpoint(daemon, project, "tool_use", 2)
    agent.settle()
    (made,) = before(daemon, project, tool)
    assert tree_of(daemon, project, made["id"]) == expected
    assert made["session_id"] == agent.session and made["metadata"]["user_prompt"] == "go"
    first, second = checkpoints(daemon, project, "tool_use")
    assert (first["id"], second["parent_checkpoint_id"]) == (made["id"], made["id"])
    assert [row[5:] for row in rows(daemon, b"a.txt")[1:]] == [("", ""), (tool, "window")]
    assert hooks(daemon) == {"taken": {"PreToolUse": 1}, "odd": {}, "unguarded": 0}


def test_nothing_is_taken_before_a_call_if_the_tree_is_one_that_has_a_checkpoint(
    daemon: DaemonFixture, agent: Hooked, project: Path
) -> None:
    first, second, third = new_tool(), new_tool(), new_tool()
    agent.before(first)
    replace(project / "a.txt", b"1\n")
    time.sleep(APART)
    one = [agent.call(first, "Bash", input={"command": "x"}), agent.result(first)]
    time.sleep(APART)  # lines have milliseconds, and no client starts its hooks within one
    agent.before(second)  # before the client wrote what became of the first
    replace(project / "a.txt", b"2\n")
    time.sleep(APART)
    agent.write(*one, agent.call(second, "Bash", input={"command": "x"}), agent.result(second))
    await_checkpoint(daemon, project, "tool_use", 2)
    replace(project / "a.txt", b"3\n")
    agent.before(third, "Read", file_path=str(project / "a.txt"))  # changes nothing
    agent.write(agent.call(third, "Read", input={"file_path": str(project / "a.txt")}), agent.result(third))
    agent.settle()
    assert [one["tool"]["id"] for one in checkpoints(daemon, project, "tool_use")] == [first, second]
    assert session_of(daemon, project, agent.session)["calls"] == 3
    assert [row[5] for row in rows(daemon, b"a.txt")[1:]] == [first, second, ""]


def test_a_call_without_a_line_has_its_checkpoint_all_the_same(
    daemon: DaemonFixture, agent: Hooked, project: Path
) -> None:
    tool = new_tool()
    replace(project / "a.txt", b"precious\n")
    agent.before(tool, command="rm -rf .")
    (project / "a.txt").unlink()
    made = await_checkpoint(daemon, project, "tool_use")
    assert (made["tool"]["id"], made["placement"]) == (tool, "hook")
    assert {b"a.txt"} == tree_of(daemon, project, made["id"]).keys()


def test_a_line_that_was_there_before_the_hook_is_refined(daemon: DaemonFixture, agent: Hooked, project: Path) -> None:
    tool = new_tool()
    agent.write(agent.call(tool, "Bash", input={"command": "x"}))
    agent.settle()
    replace(project / "a.txt", b"by a person, while the agent waits for leave\n")
    agent.before(tool)
    replace(project / "b.txt", b"by the call\n")
    agent.close(tool)
    await_checkpoint(daemon, project, "tool_use", 2)
    assert rows(daemon, b"a.txt")[-1][5:] == ("", "")
    assert rows(daemon, b"b.txt")[-1][5:] == (tool, "window")
    (made,) = before(daemon, project, tool)
    assert b"b.txt" not in tree_of(daemon, project, made["id"])


def test_an_ignored_file_that_a_call_is_about_to_destroy_is_kept(
    daemon: DaemonFixture, agent: Hooked, project: Path
) -> None:
    put(project, b".gitignore", b".env\n")
    put(project, b".env", b"secret\n")
    daemon.call("watch.sync", project=project)
    tool = new_tool()
    agent.before(tool, command="rm .env")
    (project / ".env").unlink()
    made = await_checkpoint(daemon, project, "tool_use")
    assert b".env" in tree_of(daemon, project, made["id"])


def test_a_prompts_line_takes_the_moment_of_its_hook(daemon: DaemonFixture, agent: Hooked, project: Path) -> None:
    daemon.call("settings.set", key="strategy", value="per_prompt", scope="global")
    replace(project / "a.txt", b"by a person\n")
    expected = snapshot(project)
    assert agent.hook("UserPromptSubmit", prompt="refused by another hook") == ""
    assert agent.hook("UserPromptSubmit", prompt="do it\n") == ""
    replace(project / "a.txt", b"by a call that is faster than the line\n")
    agent.prompt("do it")
    agent.end_turn()
    made = await_checkpoint(daemon, project, "prompt")
    agent.settle()
    assert made["placement"] == "hook"
    assert tree_of(daemon, project, made["id"]) == expected
    assert session_of(daemon, project, agent.session)["prompts"] == 1
    agent.prompt("without a hook")
    assert await_checkpoint(daemon, project, "prompt", 2)["placement"] == "timestamp"


def test_parallel_calls_are_each_guarded(daemon: DaemonFixture, agent: Hooked, project: Path) -> None:
    agent.prompt("go")
    tools = [new_tool() for _ in range(8)]
    replace(project / "a.txt", b"by a person\n")
    in_parallel(len(tools), lambda number: agent.before(tools[number], "Write", file_path=str(project / f"{number}")))
    calls = [agent.call(tool, "Write", input={"file_path": str(project / f"{n}")}) for n, tool in enumerate(tools)]
    for number in range(len(tools)):
        replace(project / f"{number}", b"x\n")
    agent.write(*calls, *[agent.result(tool) for tool in tools])
    agent.settle()
    daemon.until(lambda: len(before(daemon, project, tools[0])) + len(checkpoints(daemon, project, "tool_use")) > 1)
    for number, tool in enumerate(tools):
        assert rows(daemon, b"%d" % number)[-1][5:] == (tool, "named")
    made = [one for one in checkpoints(daemon, project, "tool_use") if one["placement"] == "hook"]
    assert len(made) == 1 and tree_of(daemon, project, made[0]["id"]).keys() == {b"a.txt"}


def test_a_compaction_tells_the_new_context_of_the_task_once(
    daemon: DaemonFixture, agent: Hooked, project: Path
) -> None:
    agent.prompt("go")
    agent.settle()
    daemon.call("state.save", project=project, session=agent.session, state={"title": "Login"})
    for source in ("startup", "resume", "clear"):
        assert agent.hook("SessionStart", source=source) == ""
    for _ in range(2):
        assert agent.hook("PreCompact", trigger="manual") == ""
        told = json.loads(agent.hook("SessionStart", source="compact"))["hookSpecificOutput"]
        assert told["hookEventName"] == "SessionStart" and "Login" in told["additionalContext"]
        assert agent.hook("SessionStart", source="compact") == "", "this context was told"
    (kept,) = daemon.call("state.list", project=project, session=agent.session)["snapshots"]
    assert kept["checkpoint_id"] == checkpoints(daemon, project)[-1]["id"]


def test_without_a_state_a_placeholder_is_made_and_not_told(
    daemon: DaemonFixture, agent: Hooked, project: Path
) -> None:
    agent.hook("PreCompact", trigger="auto")
    assert agent.hook("SessionStart", source="compact") == ""
    assert daemon.call("state.load", project=project, session=agent.session)["synthesized"]


def test_a_directory_is_adopted_when_its_agent_begins(daemon: DaemonFixture) -> None:
    project = daemon.projects / "new"
    put(project, b"a.txt", b"one\n")
    agent = Hooked(daemon, project)
    assert agent.hook("SessionStart", source="startup") == ""
    await_checkpoint(daemon, project, "baseline")
    agent.before(new_tool())
    assert hooks(daemon)["odd"] == {}


def test_the_end_of_a_client_closes_its_calls(daemon: DaemonFixture, agent: Hooked, project: Path) -> None:
    tool = new_tool()
    agent.write(agent.call(tool, "Bash", input={"command": "x"}))
    agent.settle()
    assert agent.hook("SessionEnd", reason="other") == ""
    agent.settle()
    time.sleep(APART)
    replace(project / "a.txt", b"by a person\n")
    daemon.call("watch.sync", project=project)
    agent.settle()
    assert rows(daemon, b"a.txt")[-1][5:] == ("", "")


@pytest.mark.parametrize(
    ("event", "raw", "what"),
    [
        ("PreToolUse", "", "malformed"),
        ("PreToolUse", "[]", "malformed"),
        ("PreToolUse", '{"session_id": "../x", "cwd": "/", "hook_event_name": "PreToolUse"}', "malformed"),
        ("Stop", '{"session_id": "%s", "cwd": "/", "hook_event_name": "PreToolUse"}', "malformed"),
        ("Nothing", "{}", "unknown event"),
        ("Stop", '{"session_id": "%s", "cwd": "/nowhere", "hook_event_name": "Stop"}', "not watched"),
    ],
)
def test_what_cannot_be_used_is_counted_and_no_error(daemon: DaemonFixture, event: str, raw: str, what: str) -> None:
    raw = raw.replace("%s", str(uuid.uuid4()))
    assert daemon.call("hook.deliver", event=event, input=raw)["output"] == ""
    assert hooks(daemon)["odd"] == {what: 1}


def test_a_hook_that_could_not_wait_leaves_its_call_unguarded(
    daemon: DaemonFixture, agent: Hooked, project: Path
) -> None:
    tool = new_tool()
    told = {
        "session_id": agent.session, "cwd": str(project), "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_use_id": tool, "tool_input": {"command": "x"},
    }  # fmt: skip
    long_ago = time.monotonic_ns() - 10**9
    daemon.call("hook.deliver", event="PreToolUse", input=json.dumps(told), sent=long_ago)
    agent.write(agent.call(tool, "Bash", input={"command": "x"}))
    replace(project / "a.txt", b"2\n")
    agent.close(tool)
    await_checkpoint(daemon, project, "tool_use")
    agent.settle()
    assert hooks(daemon)["unguarded"] == 1
    assert not before(daemon, project, tool)
