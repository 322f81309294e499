"""Blame and history on a scripted set: tools, the shell, a person and a second session; every line has its answer.

What happened in no call has nobody's: the control sets hold that.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture
from support.live_transcript import APART, Agent, checkpoints, replace, settle
from support.trees import put

#: (session, tool, prompt, model, grade)
Answer = tuple[str | None, str | None, str | None, str | None, str]
BEFORE: Answer = (None, None, None, None, "before mulligan")
NOBODY: Answer = (None, None, None, None, "nobody")
GAP: Answer = (None, None, None, None, "gap")
LINES = [b"line %d\n" % number for number in range(1, 31)]


@dataclass
class Story:
    """A project in which several work, and what is to be answered."""

    daemon: DaemonFixture
    project: Path
    agents: list[Agent] = field(default_factory=list)

    def agent(self, prompt: str) -> Agent:
        made = Agent(self.daemon.claude_dir, self.project)
        made.prompt(prompt)
        self.agents.append(made)
        time.sleep(APART)
        return made

    def settle(self) -> None:
        settle(self.daemon, self.project, sum(agent.count for agent in self.agents))

    def edit(self, agent: Agent, path: str, change: Callable[[bytes], bytes], name: str = "Edit") -> str:
        place = self.project / path
        tool = agent.open(name, file_path=str(place))
        replace(place, change(place.read_bytes() if place.exists() else b""))
        agent.close(tool, told={"filePath": str(place)})
        return tool

    def bash(self, agent: Agent, command: str) -> str:
        tool = agent.open("Bash", command=command)
        subprocess.run(["sh", "-c", command], cwd=self.project, check=True)
        agent.close(tool, told={"stdout": "", "stderr": ""})
        return tool

    def person(self, path: str, change: Callable[[bytes], bytes]) -> None:
        """Somebody saves, in place, at a time at which no call is open."""
        place = self.project / path
        time.sleep(APART)
        put(self.project, os.fsencode(path), change(place.read_bytes() if place.exists() else b""))
        time.sleep(APART)

    def blame(self, path: str, **more: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.daemon.call("file.blame", project=self.project, paths=[path], **more)[
            "lines"
        ]
        return found

    def answers(self, path: str, **more: Any) -> list[Answer]:
        return [
            (one["session_id"], one["tool"], one["prompt"], one["model"], one["grade"])
            for one in self.blame(path, **more)
        ]


def by(agent: Agent, tool: str, prompt: str, grade: str) -> Answer:
    return agent.session, tool, prompt, "m-1", grade


def line(number: int, new: bytes) -> Callable[[bytes], bytes]:
    """Another text for one line."""

    def change(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        lines[number - 1] = new
        return b"".join(lines)

    return change


@pytest.fixture
def story(daemon: DaemonFixture, project: Path) -> Story:
    put(project, b"src/app.py", b"".join(LINES))
    put(project, b"old.md", b"a person's notes\n")
    put(project, b"logo.bin", b"\0\1\2")
    daemon.add(project)
    return Story(daemon, project)


def test_every_line_of_every_file_has_its_answer(story: Story) -> None:
    first, second = story.agent("add rate limiting"), story.agent("write the docs")
    edited = story.edit(first, "src/app.py", line(3, b"limit(3)\n"))
    story.edit(second, "src/app.py", line(15, b"document(15)\n"))
    story.person("src/app.py", line(27, b"# TODO ask Ana\n"))
    story.bash(first, "sed -i 's/^line 20$/shell(20)/' src/app.py")
    story.edit(first, "new.py", lambda _: b"one\ntwo\nthree\n", "Write")
    (story.project / "docs").mkdir()
    story.edit(second, "docs/guide.md", lambda _: b"# Guide\n", "Write")
    story.person("mine.py", lambda _: b"mine\n")
    story.person("new.py", lambda data: data + b"a person's end\n")
    first.prompt("now format it")
    time.sleep(APART)
    # a formatter: other lines are changed, and these stay whose they were
    story.bash(first, "sed -i 's/^line \\([0-9]\\)$/line(\\1)/' src/app.py")
    one, two = first.open("Bash", command="make"), second.open("Bash", command="make docs")
    (story.project / "made.txt").write_bytes(b"by one of them\n")
    first.close(one, told={"stdout": ""})
    second.close(two, told={"stdout": ""})
    story.bash(first, "mv src/app.py src/main.py")
    story.edit(first, "src/main.py", lambda data: data + b"after the move\n")
    story.settle()

    limiting, formatting, docs = "add rate limiting", "now format it", "write the docs"
    main = [BEFORE] * 30 + [by(first, "Edit", formatting, "named")]
    main[:9] = [by(first, "Bash", formatting, "window")] * 9
    main[2] = by(first, "Edit", limiting, "named")
    main[14] = by(second, "Edit", docs, "named")
    main[19] = by(first, "Bash", limiting, "window")
    main[26] = NOBODY
    assert story.answers("src/main.py") == main
    write = by(first, "Write", limiting, "named")
    assert story.answers("new.py") == [write, write, write, NOBODY]
    assert story.answers("docs/guide.md") == [by(second, "Write", docs, "named")]
    assert story.answers("mine.py") == [NOBODY]
    assert story.answers("old.md") == [BEFORE]
    (made,) = story.answers("made.txt")
    assert made[0] in (first.session, second.session) and made[4] == "one of 2"

    taken = {one["tool"]["id"]: one for one in checkpoints(story.daemon, story.project, "tool_use")}
    third = story.blame("src/main.py")[2]
    assert (third["checkpoint_id"], third["tool_id"], third["text"]) == (taken[edited]["id"], edited, "limit(3)")
    at_first = story.answers("src/app.py", id=taken[edited]["id"])
    assert at_first == [by(first, "Edit", limiting, "named") if number == 2 else BEFORE for number in range(30)]


def test_every_version_has_its_answer_and_its_bytes(story: Story) -> None:
    agent = story.agent("add rate limiting")
    story.edit(agent, "src/app.py", line(3, b"limit(3)\n"))
    story.person("src/app.py", line(27, b"# TODO\n"))
    story.bash(agent, "mv src/app.py src/main.py")
    story.bash(agent, "rm src/main.py")
    story.settle()
    history = story.daemon.call("file.history", project=story.project, paths=["src/main.py"])["versions"]
    assert [(one["path"], one["kind"], one["tool"], one["grade"]) for one in history] == [
        ("src/main.py", "absent", "Bash", "window"),
        ("src/main.py", "file", "Bash", "window"),
        ("src/app.py", "file", None, "nobody"),
        ("src/app.py", "file", "Edit", "named"),
        ("src/app.py", "file", None, "before mulligan"),
    ]
    assert [one["renamed_from"] for one in history] == [None, "src/app.py", None, None, None]
    assert [one["prompt_number"] for one in history] == [1, 1, None, 1, None]
    texts = []
    for one in history[1:]:
        found = story.daemon.call("file.cat", project=story.project, id=one["id"], paths=[one["path"]])
        assert (found["hash"], found["size"]) == (one["hash"], one["size"])
        texts.append(found["content"])
    limited = b"".join(LINES).replace(b"line 3\n", b"limit(3)\n").decode()
    todo = limited.replace("line 27\n", "# TODO\n")
    assert texts == [todo, todo, limited, b"".join(LINES).decode()]


def test_M2_what_happens_in_no_call_is_nobodys(story: Story) -> None:
    git = ["git", "-C", str(story.project), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "one"], ["checkout", "-qb", "other"]):
        subprocess.run([*git, *words], check=True)
    for number in range(400):
        put(story.project, b"tree/%d/f%d" % (number % 20, number), b"of the other branch %d\n" % number)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "two"], check=True)
    subprocess.run([*git, "checkout", "-q", "main"], check=True)
    story.daemon.call("watch.sync", project=story.project)

    agent = story.agent("think about it")
    tool = agent.open("Read", file_path=str(story.project / "old.md"))
    agent.close(tool)
    for number in range(50):
        put(story.project, b"script%d.txt" % number, b"by a script %d\n" % number)
    story.person("old.md", lambda data: data + b"and more\n")
    story.bash(agent, "true")
    time.sleep(APART)
    subprocess.run([*git, "checkout", "-q", "other"], check=True)
    story.settle()
    paths = [f"script{number}.txt" for number in range(50)] + [f"tree/{n % 20}/f{n}" for n in range(400)]
    with story.daemon.connect() as connection:
        for path in paths:
            lines = connection.call("file.blame", project=str(story.project), paths=[path])["lines"]
            assert [(one["session_id"], one["grade"]) for one in lines] == [(None, "nobody")], path
            versions = connection.call("file.history", project=str(story.project), paths=[path])["versions"]
            assert {one["session_id"] for one in versions} == {None}, path
    assert story.answers("old.md") == [BEFORE, NOBODY]
    found = story.daemon.call("file.search", project=story.project, text="of the other branch 399")["matches"]
    assert {one["appeared"]["session_id"] for one in found} == {None}


def test_what_changed_while_the_daemon_was_away_is_a_gap_unless_a_call_did_it(story: Story) -> None:
    agent = story.agent("work on")
    story.settle()
    assert story.daemon.stop() == 0
    story.person("old.md", lambda data: data + b"while nobody watched\n")
    time.sleep(0.1)
    story.edit(agent, "src/app.py", line(3, b"limit(3)\n"))
    story.daemon.start()
    story.daemon.until(lambda: story.answers("src/app.py")[2][0], what="the call was not read")
    assert story.answers("old.md") == [BEFORE, GAP]
    assert story.answers("src/app.py")[2] == by(agent, "Edit", "work on", "named")


def test_lines_that_a_restore_brings_back_stay_whose_they_were(story: Story) -> None:
    agent = story.agent("add rate limiting")
    story.edit(agent, "src/app.py", line(3, b"limit(3)\n"))
    story.settle()
    made = story.daemon.call("checkpoint.create", project=story.project)["checkpoint"]
    story.person("src/app.py", lambda _: b"all gone\n")
    busy = agent.open("Bash", command="sleep 1")
    story.daemon.call("checkpoint.restore", project=story.project, id=made["id"], confirmed=True, force=True)
    agent.close(busy, told={"stdout": ""})
    story.settle()
    expected = [by(agent, "Edit", "add rate limiting", "named") if n == 2 else BEFORE for n in range(30)]
    assert story.answers("src/app.py") == expected
    newest = story.daemon.call("file.history", project=story.project, paths=["src/app.py"])["versions"][0]
    assert (newest["grade"], newest["session_id"]) == ("restored", None), "a restore is no call's, whatever runs beside"


def test_a_large_history_is_compared_in_a_child_with_the_same_answer(story: Story) -> None:
    agent = story.agent("write a lot")
    text = b"".join(b"%d of many lines of a long file\n" % number for number in range(30_000))
    story.edit(agent, "long.txt", lambda _: text, "Write")
    for number in (7, 20_000):
        story.person("long.txt", line(number, b"a person's\n"))
    story.settle()
    answers = story.answers("long.txt")
    assert {n + 1 for n, one in enumerate(answers) if one == NOBODY} == {7, 20_000}
    assert set(answers) == {NOBODY, by(agent, "Write", "write a lot", "named")}
