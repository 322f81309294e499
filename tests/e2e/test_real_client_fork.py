"""The real client goes on with a copied conversation: it sends what it sent then, before the same prompt, and no more.

The conversation has parallel calls, a rewind that leaves a branch behind, a compaction and (with newer clients) a reply
that was taken back. What was sent when each prompt was new is what a copy up to that prompt has to lead to.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture
from support.heard import Said, answers, heard
from support.live_transcript import await_checkpoint, checkpoints, settle, slug
from support.real_client import VERSIONS, RealClient, UnavailableError
from support.stored import tree_of
from support.trees import assert_tree, put

pytestmark = [pytest.mark.real_client, pytest.mark.timeout(900)]

#: The prompts in their order, with "<" for a rewind to behind the parallel calls and "/" for a compaction.
TALK = ["hello", "parallel", "write", "<", "bash", "/", "quick", "retract", "fail", "task"]
PROMPTS = [name for name in TALK if len(name) > 1]


@dataclass
class Talk:
    """A conversation that has ended, with everything that came of it executed."""

    daemon: DaemonFixture
    client: RealClient
    home: Path
    session: str = ""
    then: dict[str, list[Said]] = field(default_factory=dict)
    bytes: bytes = b""

    @property
    def transcript(self) -> Path:
        return self.daemon.claude_dir / "projects" / slug(self.home) / f"{self.session}.jsonl"

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.transcript.read_bytes().splitlines()]

    def hold(self) -> None:
        """Say everything."""
        for name in TALK:
            if name == "/":
                self.client.say("/compact", self.session)
            elif name != "<":
                first = len(self.client.api.labels)
                rewind = ["--resume-session-at", self.behind_parallel()] if name == "bash" else []
                self.session = self.client.say(f"{name}, please: [[{name}]]", self.session, *rewind)
                self.then[name] = heard(self.client.api.requests[self.client.api.labels.index(f"{name}/0", first)])
            if name == "hello":
                await_checkpoint(self.daemon, self.home, "baseline")
        self.daemon.until(lambda: len(checkpoints(self.daemon, self.home, "tool_use")) >= 12)
        files = (self.daemon.claude_dir / "projects").rglob("*.jsonl")
        settle(self.daemon, self.home, sum(path.read_bytes().count(b"\n") for path in files))
        self.bytes = self.transcript.read_bytes()

    def behind_parallel(self) -> str:
        """The last word of the turn with the parallel calls."""
        return next(str(line["uuid"]) for line in self.lines() if "All are written." in json.dumps(line))

    def resumed(self, answer: dict[str, Any]) -> list[Said]:
        """What the model hears of the conversation after the command that mulligan printed."""
        first = len(self.client.api.labels)
        words = shlex.split(answer["resume"]["command"])
        assert words[:2] == ["claude", "--resume"]
        self.client.project = Path(answer["resume"]["directory"])
        assert self.client.say("elsewhere: [[fork]]", words[2]) == answer["resume"]["session_id"]
        assert self.transcript.read_bytes() == self.bytes, "the original is as it was"
        return heard(self.client.api.requests[self.client.api.labels.index("fork/0", first)])

    def fork(self, position: str, /, **options: Any) -> dict[str, Any]:
        return self.daemon.call("checkpoint.fork", project=self.home, id=position, session=self.session, **options)

    def after_call(self, script: str, number: int) -> dict[str, Any]:
        """The checkpoint of a script's call."""
        call = self.client.calls(script)[number][1]
        return next(made for made in checkpoints(self.daemon, self.home, "tool_use") if made["tool"]["id"] == call)


@pytest.fixture(scope="module", params=VERSIONS)
def talk(request: pytest.FixtureRequest) -> Iterator[Talk]:
    daemon = DaemonFixture(config="strategy: per_tool_use\n")
    home = daemon.projects / "shop"
    for name in (b"keep.txt", b"gone.txt", b"old.txt"):
        put(home, name, b"from before: " + name + b"\n")
    try:
        client = RealClient(request.param, daemon, home)
    except UnavailableError as error:
        daemon.close()
        pytest.skip(f"Claude Code {request.param}: {error}")
    try:
        made = Talk(daemon.start(), client, home)
        made.hold()
        yield made
    finally:
        client.close()
        daemon.close()


def test_the_conversation_has_what_is_to_be_tested(talk: Talk) -> None:
    children = [line.get("parentUuid") for line in talk.lines() if line.get("uuid")]
    assert children.count(talk.behind_parallel()) == 2, "a branch was left behind"
    assert any(line.get("subtype") == "compact_boundary" for line in talk.lines())
    assert talk.then["write"] == talk.then["bash"], "the rewind led back to before it"
    assert not answers(talk.then["quick"]), "it was compacted"
    assert set(answers(talk.then["fail"])) == {call for _, call in talk.client.calls("quick")}


@pytest.mark.parametrize("name", PROMPTS[1:])
def test_X8_up_to_a_prompt_the_model_hears_what_it_heard_then(talk: Talk, name: str) -> None:
    answer = talk.fork(f"prompt:{PROMPTS.index(name) + 1}")
    assert not answer.get("exit_status"), answer["warnings"]
    assert_tree(Path(answer["directory"]), talk.client.tree_at(f"{name}/0"))
    assert talk.resumed(answer) == talk.then[name]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_between_parallel_calls_only_those_that_were_done_have_results(talk: Talk, number: int) -> None:
    made = talk.after_call("parallel", number)
    said = talk.resumed(talk.fork(made["id"], into=f"{talk.home}-parallel-{number}"))
    calls = [call for _, call in talk.client.calls("parallel")]
    assert list(answers(said)) == calls[: number + 1]
    assert said[: len(talk.then["parallel"])] == talk.then["parallel"]
    assert said[len(talk.then["parallel"])][2] == "parallel, please: [[parallel]]"
    assert b"p1.txt" in tree_of(talk.daemon, talk.home, made["id"])


def test_an_abandoned_branch_can_be_gone_on_with(talk: Talk) -> None:
    said = talk.resumed(talk.fork(talk.after_call("write", 0)["id"]))
    assert said[: len(talk.then["write"])] == talk.then["write"]
    assert list(answers(said))[-1] == talk.client.calls("write")[0][1]
    assert not any("[[bash]]" in str(value) for _, _, value in said)


def test_in_the_middle_of_a_subagents_work_the_conversation_ends_with_what_was_said_by_then(talk: Talk) -> None:
    said = talk.resumed(talk.fork(talk.after_call("sub", 0)["id"]))
    assert said[: len(talk.then["task"])] == talk.then["task"]
    assert said[len(talk.then["task"])][2] == "task, please: [[task]]"


def test_before_the_first_prompt_there_is_no_conversation(talk: Talk) -> None:
    answer = talk.fork("prompt:1")
    assert (answer["resume"], answer["session_id"]) == (None, None)
    assert "nothing was said before" in answer["warnings"][0]
    assert not answer.get("exit_status")


def test_a_fork_can_be_forked(talk: Talk) -> None:
    first = talk.fork("prompt:4", name="again")
    talk.resumed(first)
    home = Path(first["directory"])
    talk.daemon.until(lambda: _prompts(talk, home, first["session_id"]))
    answer = talk.daemon.call("checkpoint.fork", project=home, id="prompt:1", session=first["session_id"])
    assert talk.resumed(answer) == talk.then["bash"]


def _prompts(talk: Talk, home: Path, session: str) -> int:
    shown = talk.daemon.call("session.show", project=home, session=session)["session"]
    return int(shown["prompts"])


def test_zy_the_conversation_is_restored_for_the_projects_own_directory(talk: Talk) -> None:
    name = f"prompt:{PROMPTS.index('quick') + 1}"
    answer = talk.daemon.call(
        "checkpoint.restore", project=talk.home, id=name, session=talk.session, conversation=True, confirmed=True
    )
    assert answer["resume"]["directory"] == os.fspath(talk.home)
    assert talk.resumed(answer) == talk.then["quick"]


def test_zz_a_fork_in_place_goes_on_in_the_project(talk: Talk) -> None:
    answer = talk.fork(talk.after_call("bash", 0)["id"], in_place=True, confirmed=True)
    said = talk.resumed(answer)
    assert said[: len(talk.then["bash"])] == talk.then["bash"]
    assert list(answers(said))[-1] == talk.client.calls("bash")[0][1]
    assert (talk.home / "moved.txt").exists() and not (talk.home / "q.txt").exists()
