"""The real client, its shell, a second session and a person in one project: every line of every file has its answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture
from support.live_transcript import APART, await_checkpoint, checkpoints, settle
from support.real_client import VERSIONS, RealClient, UnavailableError
from support.trees import put, snapshot

pytestmark = [pytest.mark.real_client, pytest.mark.timeout(600)]

KEPT = b"".join(b"kept line %d\n" % number for number in range(1, 6))


@dataclass
class Run:
    """Two conversations that have ended, a person's work between them, and the control set."""

    daemon: DaemonFixture
    client: RealClient
    first: str = ""
    second: str = ""

    @property
    def project(self) -> Path:
        return self.client.project

    def person(self, path: bytes, data: bytes) -> None:
        """Somebody saves while no client runs."""
        time.sleep(2 * APART)
        put(self.project, path, data)
        time.sleep(2 * APART)

    def blame(self, path: str) -> list[tuple[str, str | None, str | None, str]]:
        """(text, session, tool, grade) of each line."""
        lines: list[dict[str, Any]] = self.daemon.call("file.blame", project=self.project, paths=[path])["lines"]
        return [(one["text"], one["session_id"], one["tool"], one["grade"]) for one in lines]


@pytest.fixture(scope="module", params=VERSIONS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    daemon = DaemonFixture()
    project = daemon.projects / "project"
    put(project, b"keep.txt", KEPT)
    put(project, b"gone.txt", b"gone\n")
    put(project, b"old.txt", b"from before\n")
    try:
        client = RealClient(request.param, daemon, project)
    except UnavailableError as error:
        daemon.close()
        pytest.skip(f"Claude Code {request.param}: {error}")
    try:
        made = Run(daemon.start(), client)
        converse(made)
        yield made
    finally:
        client.close()
        daemon.close()


def converse(run: Run) -> None:
    """A person works before, between and after what two sessions do."""
    run.first = run.client.say("greet me: [[hello]]")
    await_checkpoint(run.daemon, run.project, "baseline")
    run.person(b"keep.txt", KEPT.replace(b"kept line 3\n", b"a person's line 3\n"))
    for script in ("write", "edit", "bash"):
        run.first = run.client.say(f"{script}, please: [[{script}]]", run.first)
    run.person(b"a.txt", (run.project / "a.txt").read_bytes() + b"a person's end\n")
    run.person(b"sub/b.txt", b"a person's top\n" + (run.project / "sub/b.txt").read_bytes())
    run.second = run.client.say("in another session, all at once: [[parallel]]")
    run.person(b"p1.txt", b"p1\na person's\n")
    run.first = run.client.say("quickly: [[quick]]", run.first)
    for number in range(50):  # the control set
        put(run.project, b"script%d.txt" % number, b"by a script\n")
    lines = sum(path.read_bytes().count(b"\n") for path in (run.daemon.claude_dir / "projects").rglob("*.jsonl"))
    settle(run.daemon, run.project, lines)


def test_every_line_of_every_file_has_its_answer(run: Run) -> None:
    person, before = (None, None, "nobody"), (None, None, "before mulligan")
    first, second = run.first, run.second
    assert first != second
    expected = {
        "keep.txt": [
            ("kept line 1", *before), ("kept line 2", *before), ("a person's line 3", *person),
            ("kept line 4", *before), ("kept line 5", *before),
        ],
        "a.txt": [
            ("one", first, "Write", "named"), ("zwei", first, "Edit", "named"), ("a person's end", *person),
        ],
        "sub/b.txt": [("a person's top", *person), ("b", first, "Bash", "window")],
        "moved.txt": [("from before", *before)],
        "p1.txt": [("p1", second, "Write", "named"), ("a person's", *person)],
        "p2.txt": [("p2", second, "Write", "named")],
        "p3.txt": [("p3", second, "Bash", "window")],
        "q.txt": [("4", first, "Bash", "window")],
        **{f"script{number}.txt": [("by a script", *person)] for number in range(50)},
    }  # fmt: skip
    files = {path.decode() for path, (kind, _, _) in snapshot(run.project).items() if kind == "file"}
    assert files == set(expected)
    assert {path: run.blame(path) for path in sorted(files)} == expected


def test_each_line_leads_to_the_prompt_and_the_checkpoint(run: Run) -> None:
    taken = {one["tool"]["id"]: one["id"] for one in checkpoints(run.daemon, run.project, "tool_use")}
    scripts = {"one": "write", "zwei": "edit"}
    for one in run.daemon.call("file.blame", project=run.project, paths=["a.txt"])["lines"][:2]:
        assert one["prompt"] == f"{scripts[one['text']]}, please: [[{scripts[one['text']]}]]"
        assert one["checkpoint_id"] == taken[one["tool_id"]]
        assert one["model"]


def test_the_history_has_every_version_with_its_call(run: Run) -> None:
    def versions(path: str) -> list[tuple[str, str | None, str]]:
        found = run.daemon.call("file.history", project=run.project, paths=[path])["versions"]
        return [(one["kind"], one["tool"], one["grade"]) for one in found]

    assert versions("a.txt") == [("file", None, "nobody"), ("file", "Edit", "named"), ("file", "Write", "named")]
    assert versions("moved.txt") == [("file", "Bash", "window"), ("file", None, "before mulligan")]
    assert versions("gone.txt") == [("absent", "Bash", "window"), ("file", None, "before mulligan")]
    assert [tool for _, tool, _ in versions("q.txt")] == ["Bash", "Edit", "Edit", "Write"]
