"""The real client with `mulligan mcp`: its agent makes checkpoints, keeps its state, and restores by plan and token."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture
from support.live_transcript import await_checkpoint
from support.mock_api import text_of
from support.real_client import VERSIONS, RealClient, UnavailableError
from support.trees import put, snapshot

pytestmark = [pytest.mark.real_client, pytest.mark.timeout(600)]

#: In place of a token that the client will only be told.
LATER = "AAAAAAAAAAAAAAAA"


def mcp(tool: str, **arguments: Any) -> list[dict[str, Any]]:
    """A turn that calls one of our tools."""
    return [{f"mcp__mulligan__{tool}": arguments}]


@dataclass
class Run:
    """A project, a client that has the server, and what its tools answered."""

    daemon: DaemonFixture
    client: RealClient

    @property
    def project(self) -> Path:
        return self.client.project

    def say(self, *turns: list[dict[str, Any]], session: str = "") -> tuple[str, list[dict[str, Any]]]:
        """One prompt whose turns call tools: the session, and what each answered."""
        script = f"s{len(self.client.api.scripts)}"
        self.client.api.scripts[script] = [*turns, "Done."]
        self.client.while_waiting = lambda _label: self._give_token(turns)
        known = len(self.client.api.requests)
        server = {
            "command": sys.executable,
            "args": ["-m", "mulligan.client.main", "mcp"],
            "env": {
                name: self.daemon.env[name]
                for name in ("MULLIGAN_SOCKET", "MULLIGAN_TEST_MARK", "PYTHONPATH")
                if name in self.daemon.env
            },
        }
        options = ["--mcp-config", json.dumps({"mcpServers": {"mulligan": server}}), "--strict-mcp-config"]
        said = self.client.say(f"use your tools: [[{script}]]", session, *options)
        labels = self.client.api.labels[known:]
        asked = [
            request
            for label, request in zip(labels, self.client.api.requests[known:], strict=True)
            if label.startswith(f"{script}/")
        ]
        return said, [answer_in(request) for request in asked[1:]]

    def _give_token(self, turns: tuple[list[dict[str, Any]], ...]) -> None:
        """The model reads the token in the answer and gives it back."""
        answer = answer_in(self.client.api.requests[-1])
        for turn in turns if "token" in answer else ():
            for arguments in (value for block in turn for value in block.values()):
                if isinstance(arguments, dict) and arguments.get("token") == LATER:
                    arguments["token"] = answer["token"]


def answer_in(request: dict[str, Any]) -> dict[str, Any]:
    """What the tool answered whose result is the last word of a request; {} if it is none of ours."""
    content = request["messages"][-1]["content"]
    results = [block for block in content if isinstance(block, dict) and block.get("type") == "tool_result"]
    if not results:
        return {}
    told = text_of(results[-1]["content"])
    try:
        found: dict[str, Any] = json.JSONDecoder().raw_decode(told)[0]  # the client may add words of its own
    except ValueError:
        return {"failed": told}
    return found


@pytest.fixture(scope="module", params=VERSIONS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    daemon = DaemonFixture()
    project = daemon.projects / "project"
    put(project, b"keep.txt", b"kept\n")
    try:
        client = RealClient(request.param, daemon, project)
    except UnavailableError as error:
        daemon.close()
        pytest.skip(f"Claude Code {request.param}: {error}")
    try:
        made = Run(daemon.start(), client)
        client.say("greet me: [[hello]]")
        await_checkpoint(daemon, project, "baseline")
        yield made
    finally:
        client.close()
        daemon.close()


def test_the_agent_makes_a_checkpoint_in_its_own_session_and_asks_of_it(run: Run) -> None:
    session, (made, listed, shown, blamed) = run.say(
        mcp("checkpoint_create", description="by the agent"),
        mcp("checkpoint_list", limit=5),
        mcp("checkpoint_diff"),
        mcp("blame", path="keep.txt"),
    )
    assert (made["checkpoint"]["session_id"], made["checkpoint"]["description"]) == (session, "by the agent")
    assert listed["checkpoints"][0]["id"] == made["checkpoint"]["id"]
    assert shown["files"] == [] and blamed["runs"][0]["text"] == "kept"


def test_the_agents_state_is_its_sessions_and_no_others(run: Run) -> None:
    first, (saved,) = run.say(mcp("state_save", state={"title": "mine", "status": "active"}, snapshot="begin"))
    assert saved["session_id"] == first and saved["changed"] is True
    second, (other,) = run.say(mcp("state_load"))
    assert second != first and (other["session_id"], other["exists"]) == (second, False)
    again, (loaded, listed) = run.say(mcp("state_load"), mcp("state_list"), session=first)
    assert again == first and loaded["state"]["title"] == "mine"
    assert [one["name"] for one in listed["snapshots"]] == ["begin"]


def test_a_restore_without_its_token_changes_nothing_and_with_it_all(run: Run) -> None:
    before = snapshot(run.project)
    base = run.daemon.call("checkpoint.create", project=run.project)["checkpoint"]["ordinal"]
    write = {"Write": {"file_path": str(run.project / "new.txt"), "content": "new\n"}}
    session, _ = run.say([write])
    changed = snapshot(run.project)
    assert changed != before
    _, (planned,) = run.say(mcp("restore", id=str(base)), session=session)
    assert planned["done"] is False and planned["plan"]["delete"] == ["new.txt"] and planned["token"]
    assert snapshot(run.project) == changed
    _, (refused,) = run.say(mcp("restore", id=str(base), token="BBBBBBBBBBBBBBBB"), session=session)
    assert "no plan has this token" in refused["failed"]
    assert snapshot(run.project) == changed
    _, (_, done) = run.say(mcp("restore", id=str(base)), mcp("restore", id=str(base), token=LATER), session=session)
    assert done["done"] is True and done["partly"] is False
    assert snapshot(run.project) == before
    _, (_, undone) = run.say(mcp("undo"), mcp("undo", token=LATER), session=session)
    assert undone.get("done") is True, undone
    assert snapshot(run.project) == changed
