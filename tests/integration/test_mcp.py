"""`mulligan mcp`, driven by the official SDK's client: each tool that looks, on a real daemon and real files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from mcp import MCPError

from support.daemon import DaemonFixture
from support.live_transcript import Agent, await_checkpoint, settle
from support.mcp_client import AgentClient, ToolError, agent_client
from support.trees import put

pytestmark = pytest.mark.disk

READ_ONLY = {
    "blame", "checkpoint_diff", "checkpoint_list", "checkpoint_show", "file_history", "rescue_list", "search",
    "state_list", "state_load", "state_load_snapshot", "state_status",
}  # fmt: skip
CREATING = {"checkpoint_create", "state_migrate", "state_restore_snapshot", "state_save"}
DESTRUCTIVE = {"restore", "revert", "state_clear", "undo"}


@dataclass
class Scene:
    """A project in which a session wrote `src/a.py` twice, and a client of it."""

    daemon: DaemonFixture
    project: Path
    session: str
    agent: AgentClient


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    daemon = DaemonFixture().start()
    project = daemon.projects / "shop"
    put(project, b"src/a.py", b"one\ntwo\n")
    put(project, b"notes.txt", b"remember\n")
    try:
        daemon.add(project)
        talk = Agent(daemon.claude_dir, project)
        talk.prompt("make it louder")
        talk.edit(project / "src/a.py", b"one\nTWO\n")
        await_checkpoint(daemon, project, "tool_use")
        talk.prompt("and longer")
        talk.edit(project / "src/a.py", b"one\nTWO\nthree\n")
        await_checkpoint(daemon, project, "tool_use", 2)
        talk.end_turn()
        settle(daemon, project, 7)
        with agent_client(daemon, project) as agent:
            yield Scene(daemon, project, talk.session, agent)
    finally:
        daemon.close()


def test_every_tool_says_what_it_is_and_does(scene: Scene) -> None:
    tools = {tool.name: tool for tool in scene.agent.tools()}
    assert set(tools) == READ_ONLY | CREATING | DESTRUCTIVE
    for name, tool in tools.items():
        assert tool.description and tool.annotations is not None
        assert tool.annotations.read_only_hint is (name in READ_ONLY), name
        assert tool.annotations.destructive_hint is (name in DESTRUCTIVE), name
        assert tool.input_schema["additionalProperties"] is False
        assert all(one.get("description") for one in tool.input_schema["properties"].values()), name
    assert sum(len(json.dumps(tool.input_schema)) + len(tool.description or "") for tool in tools.values()) < 16_000


def test_a_checkpoint_is_made_in_the_session_of_the_caller(scene: Scene) -> None:
    made = scene.agent.call("checkpoint_create", description="before it gets risky", pin=True)["checkpoint"]
    assert (made["session_id"], made["trigger"], made["pinned"]) == (scene.session, "manual", True)
    known = scene.daemon.call("checkpoint.show", project=scene.project, id=made["id"])["checkpoint"]
    assert (known["description"], known["pinned"]) == ("before it gets risky", True)


def test_checkpoints_come_in_pages_newest_first(scene: Scene) -> None:
    expected = [one["id"] for one in scene.daemon.call("checkpoint.list", project=scene.project)["checkpoints"]]
    found, cursor = list[str](), {}
    while True:
        answer = scene.agent.call("checkpoint_list", limit=1, **cursor)
        found += [one["id"] for one in answer["checkpoints"]]
        assert len(answer["checkpoints"]) == 1
        if answer["next_cursor"] is None:
            break
        cursor = {"cursor": answer["next_cursor"]}
    assert found == expected
    mine = scene.agent.call("checkpoint_list", mine=True)["checkpoints"]
    assert {one["session_id"] for one in mine} == {scene.session}
    assert [one["prompt"] for one in mine if one["trigger"] == "tool_use"] == ["and longer", "make it louder"]
    with pytest.raises(ToolError, match="no cursor"):
        scene.agent.call("checkpoint_list", cursor="nonsense")


def test_one_checkpoint_is_shown_with_its_changes_or_its_tree(scene: Scene) -> None:
    newest = next(
        one["id"] for one in scene.agent.call("checkpoint_list")["checkpoints"] if one["trigger"] == "tool_use"
    )
    shown = scene.agent.call("checkpoint_show", id=newest)
    assert shown["changes"] == [{"path": "src/a.py", "change": "modified", "additions": 1, "deletions": 0}]
    assert (shown["checkpoint"]["tool"], shown["checkpoint"]["changed"]) == ("Edit", {"modified": 1})
    assert shown["files_in_tree"] == 2
    tree = scene.agent.call("checkpoint_show", id=newest, tree=True, limit=2)
    assert [one["path"] for one in tree["tree"]] == ["notes.txt", "src"] and tree["next_cursor"] == "2"
    rest = scene.agent.call("checkpoint_show", id=newest, tree=True, limit=2, cursor="2")
    assert [one["path"] for one in rest["tree"]] == ["src/a.py"] and rest["next_cursor"] is None
    with pytest.raises(ToolError) as unknown:
        scene.agent.call("checkpoint_show", id="zz")
    assert unknown.value.code == "not_found" and "nearest" in unknown.value.hint


def test_a_diff_is_a_patch_in_pages(scene: Scene) -> None:
    whole = scene.agent.call("checkpoint_diff", from_="1", to="latest")
    assert whole["files"] == [{"path": "src/a.py", "change": "modified", "additions": 2, "deletions": 1}]
    assert whole["patch"].endswith("@@ -1,2 +1,3 @@\n one\n-two\n+TWO\n+three\n") and whole["next_cursor"] is None
    first = scene.agent.call("checkpoint_diff", from_="1", to="latest", limit=40)
    second = scene.agent.call("checkpoint_diff", from_="1", to="latest", cursor=first["next_cursor"])
    assert first["patch"] + second["patch"] == whole["patch"] and second["files"] == []
    assert scene.agent.call("checkpoint_diff", from_="1", to="latest", stat=True)["patch"] == ""
    assert scene.agent.call("checkpoint_diff", from_="prompt:-1", paths=["src/*.py"])["files"][0]["additions"] == 1
    assert scene.agent.call("checkpoint_diff")["files_total"] == 0


def test_history_blame_and_search_name_prompt_and_tool(scene: Scene) -> None:
    versions = scene.agent.call("file_history", path="src/a.py")
    assert [one["by"].get("prompt") for one in versions["versions"]] == ["and longer", "make it louder", None]
    assert versions["versions"][0]["by"]["session_id"] == scene.session
    runs = scene.agent.call("blame", path="src/a.py")
    assert [(run["lines"], run["by"].get("prompt_number"), run["text"]) for run in runs["runs"]] == [
        ("1", None, "one"), ("2", 1, "TWO"), ("3", 2, "three"),
    ]  # fmt: skip
    page = scene.agent.call("blame", path="src/a.py", limit=2)
    assert page["next_cursor"] == "2" and page["total_lines"] == 3
    assert scene.agent.call("blame", path="src/a.py", cursor="2")["runs"][0]["text"] == "three"
    assert scene.agent.call("blame", path="src/a.py", id="prompt:1")["runs"][0]["text"] == "one\ntwo"
    (place,) = scene.agent.call("search", text="TWO")["matches"]
    assert (place["path"], place["line_number"], place["appeared"]["by"]["prompt"]) == ("src/a.py", 2, "make it louder")
    assert "vanished" not in place
    first = scene.agent.call("search", text="re", limit=1)
    second = scene.agent.call("search", text="re", limit=1, cursor=first["next_cursor"])
    assert {one["path"] for one in first["matches"] + second["matches"]} == {"src/a.py", "notes.txt"}
    assert second["next_cursor"] is None


def test_losses_are_listed_and_nothing_is_changed(scene: Scene) -> None:
    (scene.project / "notes.txt").unlink()
    lost = scene.agent.call("rescue_list", since="5m")
    assert [(one["path"], one["how"], one["size"]) for one in lost["losses"]] == [("notes.txt", "vanished", 9)]
    assert "mulligan rescue --since 5m" in lost["next_step"]
    assert not (scene.project / "notes.txt").exists()
    put(scene.project, b"notes.txt", b"remember\n")
    assert scene.agent.call("rescue_list", since="5m")["losses"] == []


def test_the_text_holds_what_the_structure_holds(scene: Scene) -> None:
    text = scene.agent.text("blame", path="src/a.py")
    assert "TWO" in text and "make it louder" in text and scene.session in text
    assert re.search(r"^token: \S{16}$", scene.agent.text("restore", id="1"), re.MULTILINE)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("blame", {}, "'path' is a required property"),
        ("blame", {"path": 1}, "path: 1 is not of type 'string'"),
        ("checkpoint_list", {"limit": 0}, "limit: 0 is less than the minimum of 1"),
        ("checkpoint_list", {"lmit": 3}, "'lmit' was unexpected"),
        ("checkpoint_create", {"project": "/elsewhere"}, "'project' was unexpected"),
        ("state_load", {"session": "another"}, "'session' was unexpected"),
        ("blame", {"path": "../../etc/passwd"}, "is outside of"),
        ("file_history", {"path": "nothing.here"}, "nothing.here"),
        ("search", {"text": "(", "regex": True}, "regular expression"),
        ("revert", {"target": "session:nobody"}, 'no session "nobody"'),
    ],
)  # fmt: skip
def test_wrong_arguments_are_told_and_harm_nothing(
    scene: Scene, tool: str, arguments: dict[str, object], said: str
) -> None:
    with pytest.raises(ToolError, match=re.escape(said)) as wrong:
        scene.agent.call(tool, **arguments)
    assert wrong.value.code in {"usage", "not_found"}
    assert wrong.value.hint and wrong.value.hint in wrong.value.text


def test_what_is_not_there_is_a_fault_of_the_protocol(scene: Scene) -> None:
    with pytest.raises(MCPError, match="no tool"):
        scene.agent.result("checkpoint_destroy")
    with pytest.raises(MCPError, match="no resource"):
        scene.agent.read("mulligan://secrets")


def test_the_timeline_is_a_resource(scene: Scene) -> None:
    assert [str(one.uri) for one in scene.agent.resources()] == ["mulligan://timeline", "mulligan://state"]
    timeline = json.loads(scene.agent.read("mulligan://timeline"))
    assert timeline["session_id"] == scene.session
    ordinals = [one["ordinal"] for one in timeline["checkpoints"]]
    assert ordinals == sorted(ordinals, reverse=True) and len(ordinals) == timeline["total_checkpoints"]


def test_a_daemon_that_is_not_there_is_told_and_one_that_comes_back_is_found(scene: Scene) -> None:
    scene.daemon.stop()
    with pytest.raises(ToolError, match="the daemon is not running") as stopped:
        scene.agent.call("checkpoint_list")
    assert (stopped.value.code, stopped.value.hint) == ("not_running", "run: mulligan start")
    scene.daemon.start()
    scene.daemon.add(scene.project)
    assert scene.agent.call("checkpoint_list")["checkpoints"]


def test_a_directory_that_is_nobodys_project_is_told(scene: Scene) -> None:
    elsewhere = scene.daemon.directory / "elsewhere"
    elsewhere.mkdir()
    with agent_client(scene.daemon, elsewhere) as agent, pytest.raises(ToolError, match="nobody's project") as told:
        agent.call("checkpoint_create")
    assert "mulligan project add" in told.value.hint
    with agent_client(scene.daemon, elsewhere, CLAUDE_PROJECT_DIR=str(scene.project)) as agent:
        assert agent.call("checkpoint_list")["checkpoints"]


def test_without_the_sdk_one_line_says_what_to_install(daemon: DaemonFixture, tmp_path: Path) -> None:
    without = tmp_path / "sitecustomize.py"
    without.write_text("import sys\nsys.modules['mcp'] = None\n")
    told = daemon.client("mcp", PYTHONPATH=str(tmp_path))
    assert told.returncode == 1 and told.stdout == ""
    assert re.fullmatch(r"mulligan: mulligan mcp needs .* -m pip install 'mulligan\[mcp\]'\n", told.stderr)
