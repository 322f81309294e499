"""The real OpenCode works in a real project, with the plugin as `integrate opencode` installs it.

While it waits for a reply the tree is recorded; each checkpoint must hold the tree that was recorded for its moment.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.daemon import DaemonFixture, stopped
from support.live_transcript import await_checkpoint, checkpoints, session_of
from support.real_client import UnavailableError
from support.real_opencode import STATE, RealOpenCode
from support.stored import tree_of
from support.trees import put

pytestmark = [pytest.mark.opencode, pytest.mark.timeout(600)]

CONVERSATION = ["hello", "write", "edit", "bash", "fail", "parallel", "task"]
#: (script, turn, tool, is_error) of the calls that change something, in their order.
CHANGING = [
    ("write", 0, "write", False),
    ("edit", 1, "edit", False),
    ("bash", 0, "bash", False),
    ("fail", 1, "bash", True),
    ("task", 0, "write", False),
]


@dataclass
class Run:
    """A conversation that has ended, with everything that came of it."""

    daemon: DaemonFixture
    agent: RealOpenCode
    session: str = ""
    made: list[dict[str, Any]] = field(default_factory=list)

    def taken(self, trigger: str) -> list[dict[str, Any]]:
        return [one for one in self.made if one["trigger"] == trigger]


def prepared(config: str) -> tuple[DaemonFixture, RealOpenCode]:
    """A daemon, and OpenCode with the plugin in a project that nobody has protected yet."""
    daemon = DaemonFixture(config=config)
    project = daemon.projects / "project"
    put(project, b"src/main.py", b"print()\n", 0o755)
    for name in (b"keep.txt", b"gone.txt"):
        put(project, name, b"from before: " + name + b"\n", 0o600)
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    try:
        agent = RealOpenCode(daemon, project)
    except UnavailableError as error:
        daemon.close()
        pytest.skip(f"OpenCode: {error}")
    done = daemon.client("integrate", "opencode", cwd=project)
    assert done.returncode == 0, done.stderr
    daemon.start()
    return daemon, agent


def settle(daemon: DaemonFixture, session: str, calls: int) -> None:
    """Wait until so many calls of a session were closed and its turn has ended."""
    project = daemon.projects / "project"
    daemon.until(lambda: session_of(daemon, project, session)["calls"] >= calls)
    daemon.until(lambda: not session_of(daemon, project, session)["at_work"])
    daemon.call("watch.sync", project=project)


def script_of(one: dict[str, Any]) -> str:
    """The script of the prompt that a checkpoint belongs to."""
    return str(one["metadata"]["user_prompt"]).partition("[[")[2].partition("]]")[0]


@pytest.fixture(scope="module", params=["smart", "per_prompt"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    daemon, agent = prepared(f"strategy: {request.param}\n")
    try:
        run = Run(daemon, agent)
        for script in CONVERSATION:
            run.session = agent.say(script, run.session)
            if script == "hello":
                await_checkpoint(daemon, agent.project, "baseline")
        settle(daemon, run.session, 9)
        run.made = checkpoints(daemon, agent.project)
        yield run
    finally:
        agent.close()
        daemon.close()


def test_every_prompt_and_call_counts_once(run: Run) -> None:
    session = session_of(run.daemon, run.agent.project, run.session)
    assert (session["prompts"], session["calls"]) == (len(CONVERSATION), len(run.agent.api.calls))
    assert session["metadata"]["model_used"] == "mock-1"
    assert session["metadata"]["total_tokens"] > 0
    hooks = run.daemon.call("daemon.status")["daemon"]["hooks"]
    assert (hooks["odd"], hooks["unguarded"]) == ({}, 0)
    known = run.daemon.call("session.list", project=run.agent.project)["sessions"]
    assert [one["id"] for one in known] == [run.session]


def test_a_shell_knows_its_session(run: Run) -> None:
    assert (run.agent.project / "session.txt").read_text() == f"{run.session}\n"


def test_the_right_checkpoints_with_their_trees(run: Run) -> None:
    if run.taken("prompt"):
        pytest.skip("of another strategy")
    made = [one for one in run.taken("tool_use") if script_of(one) != "parallel"]
    found = [(script_of(one), one["tool"]["name"], one["tool"]["is_error"]) for one in made]
    assert found == [(script, tool, is_error) for script, _, tool, is_error in CHANGING]
    ids = {(label, tool): call for label, tool, call in run.agent.api.calls}
    for one, (script, turn, tool, _) in zip(made, CHANGING, strict=True):
        label = "child/0" if script == "task" else f"{script}/{turn}"
        assert one["tool"]["id"] == ids[label, tool]
        assert tree_of(run.daemon, run.agent.project, one["id"]) == run.agent.tree_at(f"{script}/{turn + 1}")
    both = [one for one in run.taken("tool_use") if script_of(one) == "parallel"]
    assert {one["tool"]["name"] for one in both} == {"write"}
    assert tree_of(run.daemon, run.agent.project, both[-1]["id"]) == run.agent.tree_at("parallel/1")


def test_the_tree_before_each_prompt(run: Run) -> None:
    if not run.taken("prompt"):
        pytest.skip("of another strategy")
    made = run.taken("prompt")
    assert [script_of(one) for one in made] == CONVERSATION
    for one in made[1:]:
        assert tree_of(run.daemon, run.agent.project, one["id"]) == run.agent.tree_at(f"{script_of(one)}/0")


def test_lines_know_their_prompt_and_tool(run: Run) -> None:
    for path, tool, script in (
        ("a.txt", "write", "write"),
        ("half.txt", "bash", "fail"),
        ("child.txt", "write", "task"),
    ):
        (line,) = run.daemon.call("file.blame", project=run.agent.project, paths=[path])["lines"]
        assert (line["tool"], line["session_id"]) == (tool, run.session)
        assert f"[[{script}]]" in line["prompt"]


def test_a_compaction_carries_the_state_into_the_summary() -> None:
    daemon, agent = prepared("")
    try:
        session = agent.say("state", more=" and all of this" * 3_000)
        settle(daemon, session, 1)
        assert daemon.call("state.load", project=agent.project, session=session)["state"] == json.loads(STATE)
        before = len(agent.api.requests)
        agent.limit(13_000)
        agent.say("hello", session)
        asked = [json.dumps(request) for request in agent.api.requests[before:]]
        told = [one for one in asked if "The bridge over the river" in one and not json.loads(one).get("tools")]
        assert len(told) == 1, agent.api.labels
        made = await_checkpoint(daemon, agent.project, "compaction")
        assert made["session_id"] == session
    finally:
        agent.close()
        daemon.close()


def test_without_a_daemon_and_with_one_that_hangs_nothing_is_said_and_nothing_stops() -> None:
    daemon, agent = prepared("")
    try:
        answered = agent.run("hello")
        with stopped(daemon):
            hung = agent.run("write")
        assert daemon.stop() == 0
        away = agent.run("fail")
        for done in (answered, hung, away):
            assert (done.returncode, done.stderr) == (0, "")
            assert all(json.loads(line)["sessionID"] for line in done.stdout.splitlines())
            assert "mulligan" not in done.stdout.replace(str(daemon.directory), "")
    finally:
        agent.close()
        daemon.close()
