"""The real client with hooks, as `integrate claude` installs them: exact moments, what they cost, and their end."""

from __future__ import annotations

import json
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, stopped
from support.live_transcript import checkpoints, session_of, settle
from support.real_client import VERSIONS, RealClient, UnavailableError
from support.stored import rows, tree_of
from support.trees import Snapshot, difference, put

pytestmark = [pytest.mark.real_client, pytest.mark.timeout(900)]

ROUNDS, CALLS = 4, 25
#: A hook beside ours: what the tree is before a tool, found by other means and in a process of its own.
RECORDER = """
import json, os, pickle, sys
sys.path.insert(0, {tests!r})
from support.trees import snapshot
told = json.load(sys.stdin)
with open(os.path.join({place!r}, told["tool_use_id"]), "wb") as file:
    pickle.dump(snapshot({project!r}), file)
"""
SETTINGS = """{
    "env": {"THEIRS":   "1"},
    "hooks": {
        "PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": %s}]}]
	}
}"""


@dataclass
class Hooked:
    """A client with hooks, and a recorder of what each tool begins with."""

    daemon: DaemonFixture
    client: RealClient
    settings: bytes
    session: str = ""
    made: list[dict[str, Any]] = field(default_factory=list)

    @property
    def project(self) -> Path:
        return self.client.project

    def recorded(self, call: str) -> Snapshot:
        import pickle  # noqa: PLC0415

        found: Snapshot = pickle.loads((self.daemon.directory / "recorded" / call).read_bytes())
        return found

    def integrate(self, *words: str) -> dict[str, Any]:
        done = self.daemon.client("--json", "integrate", "claude", *words, cwd=self.project)
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    def hook(self, event: str) -> list[str]:
        """The command of an event, as the client runs it."""
        plugin = self.daemon.data_dir / "agents/claude/plugin"
        told = json.loads((plugin / "hooks/hooks.json").read_text())["hooks"][event]
        return ["/bin/sh", "-c", f"CLAUDE_PLUGIN_ROOT={shlex.quote(str(plugin))}; {told[0]['hooks'][0]['command']}"]

    def lines(self) -> int:
        files = (self.daemon.claude_dir / "projects").rglob("*.jsonl")
        return sum(path.read_bytes().count(b"\n") for path in files)


def person(run: Hooked, label: str) -> None:
    """Somebody saves while the model thinks, so that each call begins with a tree of its own."""
    if label.startswith("many/"):
        put(run.project, b"person.txt", f"{label} {time.monotonic_ns()}\n".encode())


def turn(round_: int, number: int, project: Path) -> list[dict[str, Any]]:
    if number % 2:
        return [{"Bash": {"command": f"echo {number} >> bash.txt; rm -f w{number - 2}.txt", "description": "x"}}]
    return [{"Write": {"file_path": str(project / f"w{number}.txt"), "content": f"{round_}\n"}}]


@pytest.fixture(scope="module", params=VERSIONS)
def run(request: pytest.FixtureRequest) -> Iterator[Hooked]:
    daemon = DaemonFixture()
    project = daemon.projects / "project"
    put(project, b"keep.txt", b"keep\n")
    (daemon.directory / "recorded").mkdir()
    recorder = daemon.directory / "recorder.py"
    tests = str(Path(__file__).parents[1])
    recorder.write_text(RECORDER.format(tests=tests, place=str(daemon.directory / "recorded"), project=str(project)))
    settings = (SETTINGS % json.dumps(f"{sys.executable} -S {recorder}")).encode()
    (daemon.claude_dir / "settings.json").write_bytes(settings)
    try:
        client = RealClient(request.param, daemon, project)
    except UnavailableError as error:
        daemon.close()
        pytest.skip(f"Claude Code {request.param}: {error}")
    try:
        made = Hooked(daemon.start(), client, settings)
        daemon.add(project)
        converse(made)
        yield made
    finally:
        client.close()
        daemon.close()


def converse(run: Hooked) -> None:
    assert run.integrate()["changed"]
    run.client.say("install the plugin: [[hello]]")  # older clients use it from the next start on
    run.client.while_waiting = lambda label: person(run, label)
    for round_ in range(ROUNDS):
        run.client.api.scripts["many"] = [turn(round_, number, run.project) for number in range(CALLS)]
        run.session = run.client.say("go: [[many]]", run.session)
    settle(run.daemon, run.project, run.lines())
    count = len(run.client.calls("many"))
    run.daemon.until(lambda: len(hooked(run)) >= count, what="not all calls have a checkpoint before them")
    run.made = checkpoints(run.daemon, run.project)


def hooked(run: Hooked) -> list[dict[str, Any]]:
    return [one for one in checkpoints(run.daemon, run.project, "tool_use") if one["placement"] == "hook"]


def test_each_call_begins_with_exactly_the_tree_that_its_checkpoint_holds(run: Hooked) -> None:
    calls = [call for _, call in run.client.calls("many")]
    assert len(calls) == ROUNDS * CALLS == 100
    before = {one["tool"]["id"]: one for one in hooked(run)}
    assert set(before) == set(calls)
    for call in calls:
        wrong = difference(run.recorded(call), tree_of(run.daemon, run.project, before[call]["id"]))
        assert not wrong, "\n".join(wrong)
        assert before[call]["complete"] and before[call]["session_id"] == run.session


def test_nothing_is_counted_twice(run: Hooked) -> None:
    calls = [call for _, call in run.client.calls("many")]
    after = [one["tool"]["id"] for one in run.made if one["trigger"] == "tool_use" and one["placement"] != "hook"]
    assert sorted(after) == sorted(calls)
    shown = session_of(run.daemon, run.project, run.session)
    assert (shown["prompts"], shown["calls"]) == (ROUNDS, len(calls))
    told = run.daemon.call("daemon.status")["daemon"]["hooks"]
    assert told["taken"]["PreToolUse"] == len(calls) and told["odd"] == {} and told["unguarded"] == 0


def test_what_a_person_saved_before_a_call_is_nobodys(run: Hooked) -> None:
    assert {row[5:] for row in rows(run.daemon, b"person.txt")} == {("", "")}
    assert {row[6] for row in rows(run.daemon, b"bash.txt")} == {"window"}
    assert {row[6] for row in rows(run.daemon, b"w24.txt")} == {"named"}


def test_every_prompt_has_the_moment_of_its_hook(run: Hooked) -> None:
    run.daemon.call("settings.set", key="strategy", value="per_prompt", scope="global")
    try:
        run.client.say("once: [[hello]]")
        run.daemon.until(lambda: checkpoints(run.daemon, run.project, "prompt"))
    finally:
        run.daemon.call("settings.unset", key="strategy", scope="global")
    assert [one["placement"] for one in checkpoints(run.daemon, run.project, "prompt")] == ["hook"]


def test_the_agent_is_told_nothing(run: Hooked) -> None:
    texts = [json.dumps(request["messages"]).lower() for request in run.client.api.requests]
    assert len(texts) > ROUNDS * CALLS
    words = (
        "hook success",
        "hook error",
        "hook additional context",
        "tooluse:",
        "tooluse hook",
        "submit hook",
        "hook_",
    )
    assert not [word for word in words for text in texts if word in text]
    for path in (run.daemon.claude_dir / "projects").rglob("*.jsonl"):
        for line in map(json.loads, path.read_bytes().splitlines()):
            told = line.get("attachment") or {}
            if str(told.get("type")).startswith("hook"):
                assert not any(told.get(key) for key in ("stdout", "stderr", "content", "blockingError")), told


def tool_input(run: Hooked, number: int) -> bytes:
    told = {
        "session_id": run.session, "cwd": str(run.project), "hook_event_name": "PreToolUse", "tool_name": "Write",
        "tool_use_id": f"toolu_cost{number}",
        "tool_input": {"file_path": str(run.project / "cost.txt"), "content": "line\n" * 200},
    }  # fmt: skip
    return json.dumps(told).encode()


def seconds_of(command: list[str], environ: dict[str, str], raw: bytes) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, env=environ, input=raw, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    return time.perf_counter() - began


def test_a_hook_takes_little_time(run: Hooked) -> None:
    environ = {"PATH": run.daemon.env["PATH"], "HOME": run.daemon.env["HOME"]}
    python = shlex.split(run.hook("PreToolUse")[2].partition("; ")[2])[0]
    bare = ["/bin/sh", "-c", f"{shlex.quote(python)} -I -S -E -c pass 2>/dev/null || :"]
    whole, least = [], []
    for number in range(40):
        put(run.project, b"cost.txt", b"%d\n" % number)
        whole.append(seconds_of(run.hook("PreToolUse"), environ, tool_input(run, number)))
        least.append(seconds_of(bare, environ, tool_input(run, number)))
    assert statistics.median(whole) - statistics.median(least) < 0.012
    assert min(whole) < 0.015
    assert run.daemon.call("daemon.status")["daemon"]["hooks"]["unguarded"] == 0


def test_a_daemon_that_hangs_holds_nobody_up_and_the_call_is_unguarded(run: Hooked) -> None:
    environ = {"PATH": run.daemon.env["PATH"], "HOME": run.daemon.env["HOME"]}
    with stopped(run.daemon):
        took = [seconds_of(run.hook("PreToolUse"), environ, tool_input(run, 100 + number)) for number in range(5)]
        assert min(took) < 0.22
        session = run.client.say("all the same: [[write]]")
    settle(run.daemon, run.project, run.lines())
    (call,) = [call for _, call in run.client.calls("write")]
    run.daemon.until(
        lambda: any(one["tool"]["id"] == call for one in checkpoints(run.daemon, run.project, "tool_use")),
        what="the call has no checkpoint",
    )
    assert session_of(run.daemon, run.project, session)["calls"] == 1
    (made,) = [one for one in checkpoints(run.daemon, run.project, "tool_use") if one["tool"]["id"] == call]
    shown = run.daemon.call("checkpoint.show", project=run.project, id=made["id"])["checkpoint"]
    assert shown["tool"]["unguarded"] is True
    lines = run.daemon.call("file.blame", project=run.project, paths=["a.txt"])["lines"]
    assert {one["unguarded"] for one in lines} == {True}


def test_a_compaction_carries_the_state_into_the_next_request_once(run: Hooked) -> None:
    with run.client.talking() as say:
        session = say("begin: [[hello]]")["session_id"]
        state = {"title": "Login by e-mail", "next": "the page that takes the link"}
        run.daemon.call("state.save", project=run.project, session=session, state=state)
        for _ in range(2):  # the second time nothing of the state is new, but the context is
            say("/compact")
            first = len(run.client.api.requests)
            say("go on: [[hello]]")
            say("and on: [[hello]]")
            asked = [
                json.dumps(request["messages"])
                for request, label in zip(run.client.api.requests[first:], run.client.api.labels[first:], strict=True)
                if label != "side"
            ]
            assert [text.count("Login by e-mail") for text in asked] == [1, 1]
            assert "kept by mulligan" in asked[0]
    kept = run.daemon.call("state.list", project=run.project, session=session)["snapshots"]
    assert [one["kind"] for one in kept] == ["auto"] and kept[0]["checkpoint_id"]


def test_without_a_state_a_compaction_tells_nothing(run: Hooked) -> None:
    with run.client.talking() as say:
        session = say("begin: [[hello]]")["session_id"]
        say("/compact")
        say("go on: [[hello]]")
    assert "kept by mulligan" not in json.dumps(run.client.api.requests[-1]["messages"])
    loaded = run.daemon.call("state.load", project=run.project, session=session)
    assert loaded["synthesized"]


def test_removed_the_settings_are_what_they_were_and_no_hook_is_left(run: Hooked) -> None:
    assert not run.integrate()["changed"]
    assert run.integrate("--remove")["changed"]
    assert (run.daemon.claude_dir / "settings.json").read_bytes() == run.settings
    assert not (run.daemon.data_dir / "agents/claude").exists()
    before = run.daemon.call("daemon.status")["daemon"]["hooks"]["taken"]
    session = run.client.say("without hooks: [[quick]]")
    settle(run.daemon, run.project, run.lines())
    assert run.daemon.call("daemon.status")["daemon"]["hooks"]["taken"] == before
    assert session_of(run.daemon, run.project, session)["calls"] == 4
    assert not run.integrate("--remove")["changed"]
