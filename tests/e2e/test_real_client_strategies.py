"""The real client works in a real project under each strategy: what is taken, which tree it holds, whose change it was.

While the client waits for a reply, the tree is recorded; each checkpoint must hold, and restore, the tree that was
recorded for its moment. The project is found and protected by the daemon itself.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture
from support.live_transcript import await_checkpoint, checkpoints, session_of, settle, transcripts
from support.real_client import VERSIONS, RealClient, UnavailableError, usage_of
from support.stored import rows, tree_of
from support.trees import Snapshot, assert_tree, difference, put

pytestmark = [pytest.mark.real_client, pytest.mark.timeout(900)]

SCRIPTS = ["hello", "write", "edit", "overwrite", "bash", "parallel", "fail", "quick", "task"]
STRATEGIES = {
    "manual": ["hello", "write", "bash"],
    "per_prompt": SCRIPTS,
    "per_tool_use": SCRIPTS,
    "smart": SCRIPTS,
}


@dataclass
class Run:
    """A conversation that has ended, with everything that came of it read and executed."""

    strategy: str
    daemon: DaemonFixture
    client: RealClient
    session: str = ""
    fork: str = ""
    made: list[dict[str, Any]] = field(default_factory=list)

    @property
    def project(self) -> Path:
        return self.client.project

    def taken(self, trigger: str) -> list[dict[str, Any]]:
        return [one for one in self.made if one["trigger"] == trigger]

    def files(self, session: str) -> list[Path]:
        """A session's transcripts, its subagents' too."""
        found = (self.daemon.claude_dir / "projects").rglob("*.jsonl")
        return [path for path in found if session in str(path)]

    def tree_of_turn_end(self, one: dict[str, Any]) -> Snapshot:
        """The tree before the last word of the prompt whose turn ended.

        Newer clients let a subagent work on behind the last word, and tell when it has ended; the fork comes after it.
        """
        script = script_of(one)
        last = f"{script}/{len(self.client.api.scripts[script]) - 1}"
        return self.client.tree_at("fork/0" if script == "task" else last)


def script_of(one: dict[str, Any]) -> str:
    """The script of the prompt that a checkpoint belongs to."""
    return str(one["metadata"]["user_prompt"]).partition("[[")[2].partition("]]")[0]


def converse(run: Run, scripts: list[str]) -> None:
    """Say every prompt in one session, then one in a fork of it."""
    for script in scripts:
        run.session = run.client.say(f"{script}, please: [[{script}]]", run.session)
        if script == "hello":
            await_checkpoint(run.daemon, run.project, "baseline")
    run.fork = run.client.say("go on in a fork: [[fork]]", run.session, "--fork-session")
    lines = sum(path.read_bytes().count(b"\n") for path in (run.daemon.claude_dir / "projects").rglob("*.jsonl"))
    settle(run.daemon, run.project, lines)
    run.made = checkpoints(run.daemon, run.project)


@pytest.fixture(scope="module", params=[(version, strategy) for version in VERSIONS for strategy in STRATEGIES],
                ids="-".join)  # fmt: skip
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    version, strategy = request.param
    daemon = DaemonFixture(config=f"strategy: {strategy}\n")
    project = daemon.projects / "project"
    put(project, b"src/main.py", b"print()\n", 0o755)
    for name in (b"keep.txt", b"gone.txt", b"old.txt"):
        put(project, name, b"from before: " + name + b"\n", 0o600)
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    try:
        client = RealClient(version, daemon, project)
    except UnavailableError as error:
        daemon.close()
        pytest.skip(f"Claude Code {version}: {error}")
    try:
        made = Run(strategy, daemon.start(), client)
        converse(made, STRATEGIES[strategy])
        yield made
    finally:
        client.close()
        daemon.close()


def test_the_client_did_what_it_was_told(run: Run) -> None:
    assert run.fork != run.session
    tree = run.client.tree_at("fork/0")
    assert {b"a.txt", b"sub/b.txt", b"moved.txt"} <= tree.keys()
    assert not {b"gone.txt", b"old.txt"} & tree.keys()
    assert transcripts(run.daemon)["odd"] == {}


def test_S16_to_S19_the_right_checkpoints_each_once(run: Run) -> None:
    calls = [call for _, _, call in run.client.api.calls]
    tools = [one["tool"]["id"] for one in run.taken("tool_use")]
    prompts = [script_of(one) for one in run.taken("prompt")]
    ends = [script_of(one) for one in run.taken("turn_end")]
    assert len(run.taken("baseline")) == 1
    assert {one["strategy"] for one in run.made if one["trigger"] != "baseline"} <= {run.strategy}
    match run.strategy:
        case "manual":
            assert len(run.made) == 1
        case "per_prompt":
            assert prompts == [*SCRIPTS, "fork"]
            assert ends == [script for script in SCRIPTS if script not in ("hello", "fail")]
            assert tools == []
        case "per_tool_use":
            assert sorted(tools) == sorted(calls)
            assert prompts == ends == []
        case "smart":
            changing = changing_calls(run)
            assert sorted(tools) == sorted(changing)
            assert prompts == ends == []


def changing_calls(run: Run) -> list[str]:
    """The calls that change files, by the scripts."""
    idle = {"Read", "Agent", "Task"}
    return [call for label, tool, call in run.client.api.calls if tool not in idle and not label.startswith("fail/")]


def test_S18_tools_and_their_errors_are_named(run: Run) -> None:
    names = {call: (tool, label.startswith("fail/")) for label, tool, call in run.client.api.calls}
    for one in run.taken("tool_use"):
        tool = one["tool"]
        assert (tool["name"], tool["is_error"]) == names[tool["id"]]
        assert one["session_id"] == run.session


def test_X10_a_prompts_checkpoint_holds_the_tree_before_its_first_change(run: Run) -> None:
    for one in run.taken("prompt"):
        script = script_of(one)
        if script == "hello":
            assert one["placement"] == "baseline"
            continue
        assert one["placement"] == "timestamp"
        assert one["session_id"] == (run.fork if script == "fork" else run.session)
        assert_same(one, run.client.tree_at(f"{script}/0"), run)


def test_a_calls_checkpoint_holds_the_tree_after_it(run: Run) -> None:
    for one in run.taken("tool_use"):
        label = next(label for label, _, call in run.client.api.calls if call == one["tool"]["id"])
        script, turn = label.split("/")
        if script not in {"parallel", "fail"}:
            assert_same(one, run.client.tree_at(f"{script}/{int(turn) + 1}"), run)


def test_parallel_calls_each_hold_their_own_and_the_last_one_holds_all(run: Run) -> None:
    made = {one["tool"]["id"]: one for one in run.taken("tool_use")}
    for script in ("parallel", "fail"):
        calls = [(tool, call) for tool, call in run.client.calls(script) if call in made]
        if not calls:
            continue
        last = max((made[call] for _, call in calls), key=lambda one: (one["timestamp"], one["ordinal"]))
        assert_same(last, run.client.tree_at(f"{script}/1"), run)
    for (_, call), path in zip(run.client.calls("parallel"), (b"p1.txt", b"p2.txt", b"p3.txt"), strict=False):
        if call in made:
            assert path in tree_of(run.daemon, run.project, made[call]["id"])


def test_the_end_of_a_turn_holds_what_the_turn_left(run: Run) -> None:
    for one in run.taken("turn_end"):
        assert_same(one, run.tree_of_turn_end(one), run)


def assert_same(one: dict[str, Any], expected: Snapshot, run: Run) -> None:
    """A checkpoint is complete and holds the tree that was recorded."""
    wrong = difference(expected, tree_of(run.daemon, run.project, one["id"]))
    assert not wrong, f"{one['trigger']} {one['tool']} of {script_of(one)}:\n" + "\n".join(wrong)
    assert one["complete"], one["incomplete_paths"]


def test_S7_the_history_is_one_line_from_the_baseline(run: Run) -> None:
    by_time = sorted(run.made, key=lambda one: (one["timestamp"], one["ordinal"]))
    parents = [one["parent_checkpoint_id"] for one in by_time]
    assert parents[0] is None
    assert len(set(parents)) == len(parents), "nobody has two children"
    times = {one["id"]: one["timestamp"] for one in run.made}
    assert all(times[one["parent_checkpoint_id"]] <= one["timestamp"] for one in by_time[1:])


def test_S4_prompts_calls_and_tokens_are_counted_once(run: Run) -> None:
    shown = session_of(run.daemon, run.project, run.session)
    fork = session_of(run.daemon, run.project, run.fork)
    assert (shown["prompts"], fork["prompts"]) == (len(STRATEGIES[run.strategy]), 1)
    assert (shown["calls"], fork["calls"]) == (len(run.client.api.calls), 0)
    mine = usage_of(run.files(run.session))
    both = usage_of([*run.files(run.session), *run.files(run.fork)])
    for name in mine:
        assert shown["metadata"][name] == mine[name], name
        assert fork["metadata"][name] == both[name] - mine[name], name
    assert fork["metadata"]["user_prompt"] == "go on in a fork: [[fork]]"


def test_every_change_has_its_owner(run: Run) -> None:
    def owners(path: bytes) -> list[tuple[str, str]]:
        return [(row[5], row[6]) for row in rows(run.daemon, path) if not row[4] & 4]

    calls = {script: [call for _, call in run.client.calls(script)] for script in run.client.api.scripts}
    assert owners(b"a.txt")[0] == (calls["write"][0], "named")
    for path in (b"sub/b.txt", b"gone.txt", b"old.txt", b"moved.txt"):
        assert set(owners(path)) == {(calls["bash"][0], "window")}, path
    if run.strategy == "manual":
        return
    assert owners(b"a.txt") == [(calls["write"][0], "named"), (calls["edit"][1], "named")]
    assert owners(b"keep.txt") == [(calls["overwrite"][1], "named")]
    assert owners(b"p1.txt") == [(calls["parallel"][0], "named")]
    assert owners(b"p2.txt") == [(calls["parallel"][1], "named")]
    assert owners(b"p3.txt")[-1] == (calls["parallel"][2], "window")
    edits = [(call, "named") for call in calls["quick"][:3]]
    assert [one for one in owners(b"q.txt") if one[1] == "named"] == edits
    assert owners(b"q.txt")[-1] == (calls["quick"][3], "window")
    assert owners(b"sub.txt")[0] == (calls["sub"][0], "named")
    assert owners(b"sub.txt")[-1] == (calls["sub"][1], "window")


def test_zz_restoring_each_checkpoint_gives_the_tree_of_its_moment(run: Run) -> None:
    """The last of all: from here on the tree is another one."""
    for one in [*run.made, *reversed(run.made)]:
        expected = tree_of(run.daemon, run.project, one["id"])
        done = run.daemon.call("checkpoint.restore", project=run.project, id=one["id"], confirmed=True)
        assert not done["warnings"], done["warnings"]
        assert_tree(run.project, expected)
