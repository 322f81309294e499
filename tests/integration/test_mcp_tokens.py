"""restore, revert and undo over MCP: the plan first, and nothing without the token of just this plan."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture
from support.live_transcript import APART, Agent, await_checkpoint, checkpoints, session_of
from support.mcp_client import AgentClient, ToolError, agent_client
from support.trees import put, snapshot

pytestmark = pytest.mark.disk


@dataclass
class Scene:
    """A project in which a session wrote `a.txt` by its first prompt, and a client of it."""

    daemon: DaemonFixture
    project: Path
    talk: Agent
    agent: AgentClient
    base: str = ""
    made: str = ""

    def plan(self, tool: str, **arguments: Any) -> str:
        """The token of a plan."""
        planned = self.agent.call(tool, **arguments)
        assert planned["done"] is False
        return str(planned["token"])

    def refuses(self, code: str, said: str, tool: str, **arguments: Any) -> ToolError:
        """The tool refuses, and no byte of the project changes."""
        before = snapshot(self.project)
        with pytest.raises(ToolError, match=said) as refused:
            self.agent.call(tool, **arguments)
        assert refused.value.code == code and refused.value.hint
        assert snapshot(self.project) == before
        return refused.value


@pytest.fixture(scope="module")
def place() -> Iterator[Scene]:
    daemon = DaemonFixture().start()
    try:
        project = daemon.projects / "shop"
        put(project, b"a.txt", b"found\n")
        daemon.add(project)
        talk = Agent(daemon.claude_dir, project)
        with agent_client(daemon, project, CLAUDE_CODE_SESSION_ID=talk.session) as agent:
            yield Scene(daemon, project, talk, agent)
    finally:
        daemon.close()


@pytest.fixture
def scene(place: Scene) -> Scene:
    """The same project; files as `base` has them, and then what the session did by one more prompt."""
    known = len(checkpoints(place.daemon, place.project, "tool_use"))
    put(place.project, b"a.txt", b"found\n")
    put(place.project, b"b.txt", b"found\n")
    base = str(place.daemon.call("checkpoint.create", project=place.project)["checkpoint"]["ordinal"])
    time.sleep(APART)
    place.talk.prompt("write it")
    place.talk.edit(place.project / "a.txt", b"by the agent\n")
    made = await_checkpoint(place.daemon, place.project, "tool_use", known + 1)
    return replace(place, base=base, made=str(made["ordinal"]))


def test_a_restore_is_planned_then_done_then_undone(scene: Scene) -> None:
    planned = scene.agent.call("restore", id=scene.base)
    assert planned["plan"]["write"] == ["a.txt"] and planned["plan"]["to"] == scene.base
    assert planned["plan"]["whose"][0]["by"] == "this_session"
    assert (scene.project / "a.txt").read_bytes() == b"by the agent\n"
    done = scene.agent.call("restore", id=scene.base, token=planned["token"])
    assert (done["done"], done["partly"], done["verified"], done["write"]) == (True, False, True, ["a.txt"])
    assert (scene.project / "a.txt").read_bytes() == b"found\n"
    way_back = scene.daemon.call("checkpoint.show", project=scene.project, id=done["pre_restore_checkpoint_id"])
    assert way_back["checkpoint"]["session_id"] == scene.talk.session
    undone = scene.agent.call("undo", token=scene.plan("undo"))
    assert undone["done"] and (scene.project / "a.txt").read_bytes() == b"by the agent\n"


def test_a_token_holds_once(scene: Scene) -> None:
    token = scene.plan("restore", id=scene.base)
    scene.agent.call("restore", id=scene.base, token=token)
    refused = scene.refuses("refused", "no plan has this token", "restore", id=scene.base, token=token)
    assert refused.hint == "call restore without a token for a plan and a new one"


def test_an_invented_token_is_refused(scene: Scene) -> None:
    scene.plan("restore", id=scene.base)
    scene.refuses("refused", "no plan has this token", "restore", id=scene.base, token="AAAAAAAAAAAAAAAA")
    scene.refuses("refused", "no plan has this token", "undo", token="AAAAAAAAAAAAAAAA")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("restore", {"id": "BASE", "paths": ["a.txt"]}),
        ("restore", {"id": "BASE", "keep_others": True}),
        ("restore", {"id": "latest"}),
        ("revert", {"target": "prompt:-1"}),
    ],
)
def test_a_token_of_another_plan_is_refused_and_used_up(scene: Scene, tool: str, arguments: dict[str, Any]) -> None:
    token = scene.plan("restore", id=scene.base)
    arguments = {name: scene.base if value == "BASE" else value for name, value in arguments.items()}
    scene.refuses("refused", "the token is of another plan", tool, **arguments, token=token)
    scene.refuses("refused", "no plan has this token", "restore", id=scene.base, token=token)


def test_a_token_is_refused_after_what_it_would_change_has_changed(scene: Scene) -> None:
    token = scene.plan("restore", id=scene.base)
    put(scene.project, b"a.txt", b"by a person, meanwhile\n")
    refused = scene.refuses(
        "conflict", "files have changed since this was planned", "restore", id=scene.base, token=token
    )
    assert refused.hint == "call restore without a token for a plan and a new one"
    assert scene.agent.call("restore", id=scene.base, token=scene.plan("restore", id=scene.base))["done"]


def test_a_token_is_refused_if_more_would_be_changed(scene: Scene) -> None:
    token = scene.plan("restore", id=scene.base)
    put(scene.project, b"b.txt", b"another file, meanwhile\n")
    scene.refuses("conflict", "files have changed", "restore", id=scene.base, token=token)


def test_what_a_plan_does_not_touch_may_change(scene: Scene) -> None:
    token = scene.plan("restore", id=scene.base, paths=["a.txt"])
    put(scene.project, b"b.txt", b"another file, meanwhile\n")
    assert scene.agent.call("restore", id=scene.base, paths=["a.txt"], token=token)["done"]
    assert (scene.project / "b.txt").read_bytes() == b"another file, meanwhile\n"


def test_the_plan_is_of_what_the_name_meant_then(scene: Scene) -> None:
    put(scene.project, b"a.txt", b"by a person\n")
    token = scene.plan("restore", id="latest")
    scene.daemon.call("checkpoint.create", project=scene.project)
    scene.agent.call("restore", id="latest", token=token)
    assert (scene.project / "a.txt").read_bytes() == b"by the agent\n"


def test_revert_and_undo_are_refused_when_things_moved_on(scene: Scene) -> None:
    token = scene.plan("revert", target="prompt:-1")
    put(scene.project, b"a.txt", b"by the agent\nand a person\n")
    scene.refuses("conflict", "files have changed", "revert", target="prompt:-1", token=token)
    put(scene.project, b"a.txt", b"by the agent\n")
    done = scene.agent.call("revert", target="prompt:-1", token=scene.plan("revert", target="prompt:-1"))
    assert done["of"].startswith("prompt:") and (scene.project / "a.txt").read_bytes() == b"found\n"
    token = scene.plan("undo")
    put(scene.project, b"a.txt", b"by a person\n")
    scene.refuses("conflict", "files have changed", "undo", token=token)
    assert scene.agent.call("undo")["next_step"] == "there is nothing to do"


def test_a_conflict_gets_no_token(scene: Scene) -> None:
    put(scene.project, b"a.txt", b"a person's\n")
    planned = scene.agent.call("revert", target="prompt:-1")
    assert [one["path"] for one in planned["plan"]["conflicts"]] == ["a.txt"]
    assert "token" not in planned and "write_conflicts" in planned["next_step"]
    marked = scene.agent.call("revert", target="prompt:-1", write_conflicts=True)
    done = scene.agent.call("revert", target="prompt:-1", write_conflicts=True, token=marked["token"])
    assert done["partly"] and b"<<<<<<<" in (scene.project / "a.txt").read_bytes()


def test_nothing_to_do_gets_no_token(scene: Scene) -> None:
    planned = scene.agent.call("restore", id=scene.made)
    assert "token" not in planned and planned["next_step"] == "there is nothing to do"


def test_another_server_does_not_know_the_token(scene: Scene) -> None:
    token = scene.plan("restore", id=scene.base)
    session = scene.talk.session
    with (
        agent_client(scene.daemon, scene.project, CLAUDE_CODE_SESSION_ID=session) as other,
        pytest.raises(ToolError, match="no plan has this token"),
    ):
        other.call("restore", id=scene.base, token=token)


def test_the_session_that_asks_is_not_waited_for_and_another_is(scene: Scene) -> None:
    call = scene.talk.open("mcp__mulligan__restore", id=scene.base)
    scene.daemon.until(lambda: scene.daemon.call("session.of", project=scene.project, call=call)["session_id"])
    token = scene.plan("restore", id=scene.base)
    assert scene.agent.call("restore", id=scene.base, token=token)["done"]
    other = Agent(scene.daemon.claude_dir, scene.project)
    other.prompt("something else")
    tool = other.open("Bash", command="sleep 60")
    session_of(scene.daemon, scene.project, other.session)
    planned = scene.agent.call("restore", id=scene.made)
    assert f"session {other.session[:8]} is at work: the restore waits for a pause" in planned["warnings"]
    ending = threading.Timer(0.5, lambda: other.close(tool))
    ending.start()
    assert scene.agent.call("restore", id=scene.made, token=planned["token"])["done"]
    assert not ending.is_alive()
    assert (scene.project / "a.txt").read_bytes() == b"by the agent\n"
