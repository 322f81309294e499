"""Whose change it was, and which results are worth a checkpoint: a real daemon, lines and changes written by a test."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture
from support.live_transcript import APART, Agent, checkpoints, replace, settle, transcripts
from support.stored import rows, tree_of
from support.trees import put, snapshot


@pytest.fixture
def watched(daemon: DaemonFixture, project: Path) -> Path:
    """A protected project with a file that is older than its session."""
    put(project, b"old", b"old\n")
    daemon.add(project)
    return project


def settled(daemon: DaemonFixture, project: Path, agent: Agent) -> None:
    settle(daemon, project, agent.count)


def owner(daemon: DaemonFixture, path: str) -> tuple[str, str]:
    """(call, grade) of the last version of a path."""
    found = rows(daemon, os.fsencode(path))[-1]
    return found[5], found[6]


def taken(daemon: DaemonFixture, project: Path) -> list[str]:
    """The calls that checkpoints were taken at."""
    return [made["tool"]["id"] for made in checkpoints(daemon, project, "tool_use")]


def test_a_tool_that_names_its_file_owns_it(daemon: DaemonFixture, watched: Path) -> None:
    agent = Agent(daemon.claude_dir, watched)
    agent.prompt("write")
    tool = agent.open("Write", file_path=str(watched / "a"), content="a\n")
    replace(watched / "a", b"a\n")
    (watched / "beside").write_bytes(b"a person's, meanwhile\n")
    agent.close(tool, told={"type": "create", "filePath": str(watched / "a")})
    settled(daemon, watched, agent)
    assert owner(daemon, "a") == (tool, "named")
    assert owner(daemon, "beside") == ("", "")
    assert taken(daemon, watched) == [tool]


def test_M5_who_saves_while_a_read_is_open_is_nobody(daemon: DaemonFixture, watched: Path) -> None:
    agent = Agent(daemon.claude_dir, watched)
    agent.prompt("look")
    for name, arguments in (("Read", {"file_path": str(watched / "old")}), ("WebFetch", {"url": "http://a.test/"})):
        tool = agent.open(name, **arguments)
        replace(watched / "old", b"saved by a person while %s was open\n" % name.encode())
        agent.close(tool)
        settled(daemon, watched, agent)
        assert owner(daemon, "old") == ("", "")
    assert taken(daemon, watched) == []


def test_M5_who_saves_while_a_command_runs_is_never_certain(daemon: DaemonFixture, watched: Path) -> None:
    agent = Agent(daemon.claude_dir, watched)
    agent.prompt("run")
    first = agent.open("Bash", command="sleep 1; make")
    replace(watched / "old", b"a person's or the command's\n")
    agent.close(first, told={"stdout": "", "stderr": ""})
    settled(daemon, watched, agent)
    assert owner(daemon, "old") == (first, "window")
    one, two = agent.open("Bash", command="make"), agent.open("mcp__x__generate")
    (watched / "made").write_bytes(b"by one of them\n")
    agent.close(one, told={"stdout": ""})
    agent.close(two)
    settled(daemon, watched, agent)
    call, grade = owner(daemon, "made")
    assert call in (one, two)
    assert grade == "one of 2"


def test_M2_what_happens_in_no_call_is_nobodys_and_takes_none(daemon: DaemonFixture, watched: Path) -> None:
    agent = Agent(daemon.claude_dir, watched)
    agent.prompt("think")
    for number in range(50):
        (watched / f"script{number}").write_bytes(b"%d\n" % number)
    time.sleep(APART)
    tool = agent.open("Bash", command="true")
    agent.close(tool, told={"stdout": ""})
    settled(daemon, watched, agent)
    assert {owner(daemon, f"script{number}") for number in range(50)} == {("", "")}


def test_S19_smart_takes_at_what_really_changed(daemon: DaemonFixture, watched: Path) -> None:
    agent = Agent(daemon.claude_dir, watched)
    agent.prompt("do all kinds of things")
    expected = []

    def call(name: str, change: bytes | None, *, is_error: bool = False, **arguments: Any) -> str:
        tool = agent.open(name, **arguments)
        if change is not None:
            replace(watched / "f", change)
        agent.close(tool, is_error=is_error, told="Error: no" if is_error else {})
        return tool

    target = str(watched / "f")
    expected.append(call("Write", b"1\n", file_path=target, content="1\n"))
    call("Write", b"1\n", file_path=target, content="1\n")  # the same bytes again
    call("Read", None, file_path=target)
    call("Edit", None, is_error=True, file_path=target, old_string="x", new_string="y")
    call("Bash", None, command="ls")
    expected.append(call("Bash", b"2\n", command="echo 2 > f"))
    call("mcp__server__query", None)
    expected.append(call("mcp__server__query", b"3\n"))
    expected.append(call("Bash", b"4\n", is_error=True, command="echo 4 > f; false"))
    expected.append(call("ToolOfTomorrow", b"5\n"))
    settled(daemon, watched, agent)
    assert taken(daemon, watched) == expected
    agent.end_turn()
    settled(daemon, watched, agent)
    assert checkpoints(daemon, watched, "turn_end") == [], "nothing has changed since the last call"


def test_X7_a_call_without_a_result_ends_with_the_turn(daemon: DaemonFixture, watched: Path) -> None:
    agent = Agent(daemon.claude_dir, watched)
    agent.prompt("one")
    tool = agent.open("Bash", command="echo x > f; kill -9 $PPID")
    (watched / "f").write_bytes(b"x\n")
    time.sleep(APART)
    agent.prompt("two")
    settled(daemon, watched, agent)
    time.sleep(APART)
    (watched / "g").write_bytes(b"after the call was closed\n")
    time.sleep(APART)
    agent.end_turn()
    settled(daemon, watched, agent)
    assert owner(daemon, "f") == (tool, "window")
    assert owner(daemon, "g") == ("", "")
    last = checkpoints(daemon, watched, "turn_end")[-1]
    assert tree_of(daemon, watched, last["id"]) == snapshot(watched)


def test_R19_a_path_outside_of_the_project_is_never_captured(daemon: DaemonFixture, watched: Path) -> None:
    agent = Agent(daemon.claude_dir, watched)
    outside = daemon.directory / "outside"
    agent.prompt("reach out")
    for path in (str(outside), f"{watched}/../../outside", "../../outside", "/etc/passwd", "", "a\0b"):
        tool = agent.open("Write", file_path=path, content="x")
        outside.write_bytes(b"written outside\n")
        agent.close(tool, told={"filePath": path})
    settled(daemon, watched, agent)
    assert set(tree_of(daemon, watched, "latest")) == {b"old"}
    assert taken(daemon, watched) == []
    assert transcripts(daemon)["odd"] == {}


def test_an_ignored_file_that_a_tool_names_is_captured(daemon: DaemonFixture, watched: Path) -> None:
    daemon.call("settings.set", key="strategy", value="per_tool_use", project=watched)
    put(watched, b".gitignore", b"*.secret\nout/\n")
    put(watched, b"out/other", b"derived\n")
    agent = Agent(daemon.claude_dir, watched)
    agent.prompt("write what is ignored")
    for name in ("out/deep/named", "key.secret"):
        tool = agent.open("Write", file_path=str(watched / name), content="x")
        put(watched, os.fsencode(name), b"precious\n")
        agent.close(tool, told={"filePath": str(watched / name)})
        settled(daemon, watched, agent)
        made = checkpoints(daemon, watched, "tool_use")[-1]
        assert os.fsencode(name) in tree_of(daemon, watched, made["id"])
    assert b"out/other" not in tree_of(daemon, watched, made["id"])
    removed = agent.open("Bash", command="rm out/deep/named && echo y > key.secret")
    (watched / "out/deep/named").unlink()
    (watched / "key.secret").write_bytes(b"y\n")
    agent.close(removed, told={"stdout": ""})
    settled(daemon, watched, agent)
    done = daemon.call("checkpoint.restore", project=watched, id=made["id"], confirmed=True)
    assert not done["warnings"], done
    assert (watched / "out/deep/named").read_bytes() == b"precious\n"
    assert (watched / "out/other").read_bytes() == b"derived\n"


@pytest.mark.parametrize("kill", [False, True], ids=["clean", "kill9"])
def test_an_ignored_file_that_a_tool_named_is_captured_after_a_restart(
    daemon: DaemonFixture, watched: Path, kill: bool
) -> None:
    put(watched, b".gitignore", b"*.secret\nout/\n")
    for name in (b"out/other", b"out/deep/named", b"key.secret"):
        put(watched, name, b"one\n")
    daemon.call("checkpoint.create", project=watched)  # the rules are known
    agent = Agent(daemon.claude_dir, watched)
    agent.prompt("write what is ignored")
    for name in ("out/deep/named", "key.secret", "later.secret"):
        agent.open("Edit", file_path=str(watched / name))
    settled(daemon, watched, agent)
    made = daemon.call("checkpoint.create", project=watched)["checkpoint"]
    named = {b"out/deep/named", b"key.secret"}
    assert set(tree_of(daemon, watched, made["id"])) == named | {b"old", b".gitignore", b"out", b"out/deep"}
    daemon.call("checkpoint.restore", project=watched, id=made["id"], confirmed=True)
    (watched / "key.secret").unlink()
    daemon.until(lambda: rows(daemon, b"key.secret")[-1][1] == 0)
    daemon.restart(kill=kill)
    for name in (*named, b"later.secret", b"out/new", b"new.secret"):
        put(watched, name, b"two\n")
    after = daemon.call("checkpoint.create", project=watched)["checkpoint"]
    tree = tree_of(daemon, watched, after["id"])
    assert set(tree) == named | {b"later.secret", b"old", b".gitignore", b"out", b"out/deep"}
    assert tree[b"key.secret"] == tree[b"later.secret"] == snapshot(watched)[b"key.secret"]
    assert all(row[5] == "" for row in rows(daemon, b"later.secret") if row[1] == 0), "it was not there: no change"
    daemon.call("checkpoint.restore", project=watched, id=made["id"], confirmed=True)
    assert (watched / "out/deep/named").read_bytes() == (watched / "key.secret").read_bytes() == b"one\n"
    assert not (watched / "later.secret").exists()
    daemon.restart(kill=kill)
    put(watched, b"key.secret", b"three\n")
    last = daemon.call("checkpoint.create", project=watched)["checkpoint"]
    assert b"key.secret" in tree_of(daemon, watched, last["id"]), "rows of a restore say it as well"


def test_R20_an_ignored_file_that_was_there_before_is_not_deleted_by_going_back(
    daemon: DaemonFixture, watched: Path
) -> None:
    put(watched, b".gitignore", b".env\nnode_modules/\n")
    put(watched, b".env", b"TOKEN=invented\n")
    put(watched, b"node_modules/x/index.js", b"x\n")
    made = daemon.call("checkpoint.create", project=watched)["checkpoint"]
    agent = Agent(daemon.claude_dir, watched)
    agent.prompt("edit the environment")
    replace(watched / ".env", b"TOKEN=other\n")
    agent.write(agent.call("toolu_env", "Edit", input={"file_path": str(watched / ".env")}))
    agent.close("toolu_env", told={"filePath": str(watched / ".env")})
    agent.close(agent.open("Bash", command="rm -rf node_modules"), told={"stdout": ""})
    settled(daemon, watched, agent)
    tree = tree_of(daemon, watched, checkpoints(daemon, watched, "tool_use")[0]["id"])
    assert set(tree) == {b"old", b".gitignore", b".env"}
    daemon.call("checkpoint.restore", project=watched, id=made["id"], confirmed=True)
    assert (watched / ".env").read_bytes() == b"TOKEN=other\n", "what it was before nobody knows"
    assert (watched / "node_modules/x/index.js").exists()
