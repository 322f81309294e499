"""The eight state tools over MCP: always of the session of the caller, and of no other."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.daemon import DaemonFixture
from support.live_transcript import LiveTranscript, session_of
from support.mcp_client import AgentClient, ToolError, agent_client
from support.trees import put

pytestmark = pytest.mark.disk


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonFixture]:
    made = DaemonFixture().start()
    put(made.projects / "shop", b"a.txt", b"one\n")
    try:
        made.add(made.projects / "shop")
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def project(daemon: DaemonFixture) -> Path:
    return daemon.projects / "shop"


@pytest.fixture
def agent(daemon: DaemonFixture, project: Path) -> Iterator[AgentClient]:
    """A client in a session of its own."""
    talk = LiveTranscript(daemon.claude_dir, project)
    talk.prompt("keep my state")
    session_of(daemon, project, talk.session)
    with agent_client(daemon, project, CLAUDE_CODE_SESSION_ID=talk.session) as client:
        yield client


STATE = {
    "title": "release",
    "steps": [{"id": 1, "text": "tag", "status": "done"}, {"id": 2, "text": "push", "status": "pending"}],
    "blockers": ["the tests are red"],
    "budget": {"euros": 5},
}


def test_a_state_is_saved_merged_and_loaded(agent: AgentClient) -> None:
    empty = agent.call("state_load")
    assert (empty["exists"], empty["state"]) == (False, {})
    saved = agent.call("state_save", state=STATE)
    assert saved["changed"] is True and saved["snapshot"] is None
    again = agent.call("state_save", state={"steps": [{"id": 2, "status": "done"}], "blockers": [], "budget": None})
    assert again["changed"] is True
    loaded = agent.call("state_load")
    assert loaded["state"]["steps"][1] == {"id": 2, "text": "push", "status": "done"}
    assert loaded["state"]["title"] == "release" and "budget" not in loaded["state"]
    assert (loaded["exists"], loaded["synthesized"], loaded["session_id"]) == (True, False, saved["session_id"])
    unchanged = agent.call("state_save", state={"title": "release"})
    assert unchanged["changed"] is False and unchanged["updated_at"] == loaded["updated_at"] == again["updated_at"]
    status = agent.call("state_status")
    assert (status["exists"], status["title"], status["steps"]["total"], status["steps"]["done"]) == (
        True, "release", 2, 2,
    )  # fmt: skip
    assert json.loads(agent.read("mulligan://state"))["state"] == loaded["state"]
    assert agent.call("state_load", keys=["title"])["state"] == {"title": "release"}


def test_snapshots_are_listed_read_and_restored(agent: AgentClient) -> None:
    named = agent.call("state_save", state={"title": "first"}, snapshot="begin")
    assert (named["snapshot"]["name"], named["snapshot"]["kind"]) == ("begin", "named")
    agent.call("state_save", state={"title": "second"}, snapshot="middle")
    agent.call("state_save", state={"title": "third"})
    assert [(one["name"], one["title"]) for one in agent.call("state_list")["snapshots"]] == [
        ("middle", "second"), ("begin", "first"),
    ]  # fmt: skip
    page = agent.call("state_list", limit=1)
    assert [one["name"] for one in agent.call("state_list", limit=1, cursor=page["next_cursor"])["snapshots"]] == [
        "begin"
    ]
    assert agent.call("state_load_snapshot", name="begin")["state"]["title"] == "first"
    assert agent.call("state_load")["state"]["title"] == "third"
    restored = agent.call("state_restore_snapshot", name="begin")
    assert restored["state"]["title"] == agent.call("state_load")["state"]["title"] == "first"
    assert restored["undo"].startswith("pre-restore-")
    assert agent.call("state_restore_snapshot", name=restored["undo"])["state"]["title"] == "third"
    with pytest.raises(ToolError) as unknown:
        agent.call("state_load_snapshot", name="nothing")
    assert unknown.value.code == "not_found"


def test_clearing_wants_the_token_of_its_plan(agent: AgentClient) -> None:
    assert "token" not in agent.call("state_clear")
    agent.call("state_save", state={"title": "t"}, snapshot="s")
    planned = agent.call("state_clear")
    assert planned["would_clear"]["title"] == "t" and planned["would_clear"]["snapshots"] == 1
    with pytest.raises(ToolError, match="no plan has this token"):
        agent.call("state_clear", token="AAAAAAAAAAAAAAAA")
    agent.call("state_save", state={"title": "u"})
    with pytest.raises(ToolError, match="changed since this was planned") as changed:
        agent.call("state_clear", token=planned["token"])
    assert changed.value.hint == "call state_clear without a token for a new plan"
    assert agent.call("state_load")["state"] == {"title": "u"}
    cleared = agent.call("state_clear", token=agent.call("state_clear")["token"])
    assert cleared["done"] and cleared["cleared"] is True and cleared["snapshots"] == 1
    assert agent.call("state_load")["exists"] is False and agent.call("state_list")["snapshots"] == []


def test_a_state_that_is_too_large_for_an_answer_comes_in_parts(agent: AgentClient) -> None:
    agent.call("state_save", state={"title": "t", "notes": "n" * 50_000})
    loaded = agent.call("state_load")
    assert loaded["state"] == {"title": "t"} and loaded["left_out"].keys() == {"notes"}
    first = agent.call("state_load", keys=["notes"])
    assert len(first["text"]) == int(first["next_cursor"]) < 50_000


@pytest.mark.parametrize(
    ("state", "said"),
    [("text", "is not of type 'object'"), ({"status": "unheard of"}, "status"), ({"steps": "none"}, "steps")],
)
def test_a_state_of_another_form_is_refused_by_name(agent: AgentClient, state: object, said: str) -> None:
    agent.call("state_save", state={"title": "kept"})
    with pytest.raises(ToolError, match=said) as wrong:
        agent.call("state_save", state=state)
    assert wrong.value.code == "usage"
    assert agent.call("state_load")["state"] == {"title": "kept"}


def test_no_value_crosses_between_five_clients(daemon: DaemonFixture, project: Path) -> None:
    rng, sessions = random.Random(4), [str(uuid.uuid4()) for _ in range(5)]
    expected: dict[str, dict[str, str]] = {session: {} for session in sessions}
    with ExitStack() as stack:
        clients = {
            session: stack.enter_context(agent_client(daemon, project, CLAUDE_CODE_SESSION_ID=session))
            for session in sessions
        }
        for number in range(60):
            session = rng.choice(sessions)
            key = rng.choice("abc")
            value = f"{session[:4]} {number}"
            if rng.random() < 0.1 and expected[session]:
                clients[session].call("state_clear", token=clients[session].call("state_clear")["token"])
                expected[session] = {}
            else:
                clients[session].call("state_save", state={key: value})
                expected[session][key] = value
            reader = rng.choice(sessions)
            assert clients[reader].call("state_load")["state"] == expected[reader]


def test_a_state_that_no_message_holds_is_refused_with_the_next_step(agent: AgentClient) -> None:
    with pytest.raises(ToolError, match="1,048,576 bytes") as refused:
        agent.call("state_save", state={"notes": "x" * 2_000_000})
    assert "less" in refused.value.hint
