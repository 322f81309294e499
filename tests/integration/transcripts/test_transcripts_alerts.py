"""What is told of sessions: destruction inside a call, and two of them in one file. A real daemon, fed transcripts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Connection, DaemonFixture, RpcError
from support.live_transcript import APART, Agent, replace, settle, transcripts
from support.stored import restore, rows, take
from support.trees import put


@pytest.fixture
def watched(daemon: DaemonFixture, project: Path) -> Path:
    """A protected project with twelve files in a directory and one beside it."""
    for number in range(12):
        put(project, b"src/f%d" % number, b"file %d\n" % number * 10)
    put(project, b"README", b"read me\n")
    daemon.add(project)
    return project


def listening(daemon: DaemonFixture, *topics: str) -> Connection:
    connection = daemon.connect()
    connection.call("events.subscribe", topics=list(topics))
    return connection


def event(connection: Connection) -> dict[str, Any]:
    found: dict[str, Any] = connection.read()["params"]
    return found


def told(daemon: DaemonFixture, project: Path, topic: str) -> list[dict[str, Any]]:
    """The events of a topic up to now: a checkpoint by hand is the last one heard."""
    with daemon.connect() as connection:
        connection.call("events.subscribe", topics=[topic, "checkpoint"], since=0)
        mark = take(daemon, project)["id"]
        found = []
        while (heard := event(connection)).get("id") != mark:
            found += [heard] if heard["topic"] == topic else []
        return found


def alarms(daemon: DaemonFixture) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.call("daemon.status")["projects"][0]["alarms"]
    return found


def test_B1_a_destruction_inside_a_call_is_told_and_shown_until_it_is_rescued(
    daemon: DaemonFixture, watched: Path
) -> None:
    agent = Agent(daemon.claude_dir, watched)
    agent.prompt("clean up")
    with listening(daemon, "destruction") as heard:
        tool = agent.open("Bash", command="rm -rf src && : > README")
        shutil.rmtree(watched / "src")
        (watched / "README").write_bytes(b"")
        agent.close(tool, told={"stdout": ""})
        alarm = event(heard)
    assert alarm["topic"] == "destruction" and alarm["project"] == str(watched)
    assert (alarm["session"], alarm["call"], alarm["tool"]) == (agent.session, tool, "Bash")
    assert (alarm["command"], alarm["vanished"], alarm["emptied"]) == ("rm -rf src && : > README", 12, 1)
    assert alarm["bytes"] == sum(len(b"file %d\n" % number) * 10 for number in range(12)) + 8
    assert len(alarm["paths"]) == 13 and "src/f11" in alarm["paths"]
    (shown,) = alarms(daemon)
    assert (shown["call_id"], shown["session_id"], shown["vanished"], shown["emptied"]) == (tool, agent.session, 12, 1)
    text = daemon.client("status", cwd=watched).stdout
    assert 'a call did away with 13 files (Bash "rm -rf src && : > README"); mulligan rescue brings them back' in text
    listed = daemon.client("rescue", "--dry-run", cwd=watched).stdout
    assert f'{agent.session[:8]} Bash "rm -rf src' in listed
    done = json.loads(daemon.client("rescue", "--yes", "--json", cwd=watched).stdout)
    calls = [entry["call"] for entry in done["entries"]]
    assert [(call["id"], call["prompt"]) for call in calls] == [(tool, "clean up")] * 13
    assert alarms(daemon) == []
    assert (watched / "src/f11").read_bytes() == b"file 11\n" * 10
    assert (watched / "README").read_bytes() == b"read me\n"


def test_M2_no_alarm_without_a_call_nor_for_what_moved_or_came_back(daemon: DaemonFixture, watched: Path) -> None:
    agent = Agent(daemon.claude_dir, watched)
    agent.prompt("work")
    tool = agent.open("Bash", command="mv src lib")
    os.rename(watched / "src", watched / "lib")
    agent.close(tool, told={"stdout": ""})
    tool = agent.open("Bash", command="make again")
    shutil.rmtree(watched / "lib")
    time.sleep(APART)
    for number in range(12):
        put(watched, b"lib/f%d" % number, b"other %d\n" % number * 10)
    agent.close(tool, told={"stdout": ""})
    settle(daemon, watched, agent.count)
    shutil.rmtree(watched / "lib")  # by a person
    time.sleep(APART)
    agent.end_turn()
    settle(daemon, watched, agent.count)
    assert (alarms(daemon), told(daemon, watched, "destruction")) == ([], [])


def test_M2_no_alarm_for_another_branch(daemon: DaemonFixture, watched: Path) -> None:
    def git(*words: str) -> None:
        config = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *config, *words], cwd=watched, check=True, capture_output=True)

    git("init", "-q", ".")
    git("add", "README")
    git("commit", "-qm", "one")
    git("checkout", "-qb", "other")
    git("add", "src")
    git("commit", "-qm", "two")
    agent = Agent(daemon.claude_dir, watched)
    agent.prompt("look at main")
    tool = agent.open("Bash", command="git checkout main")
    git("checkout", "-q", "main")
    agent.close(tool, told={"stdout": ""})
    settle(daemon, watched, agent.count)
    assert not (watched / "src").exists()
    assert (alarms(daemon), told(daemon, watched, "destruction")) == ([], [])
    git("checkout", "-q", "other")
    daemon.call("watch.sync", project=watched)
    time.sleep(APART)  # what happens right before a call may be its doing
    tool = agent.open("Bash", command="rm -rf src")
    shutil.rmtree(watched / "src")
    agent.close(tool, told={"stdout": ""})
    settle(daemon, watched, agent.count)
    assert [alarm["vanished"] for alarm in alarms(daemon)] == [12], "git has them, and did not take them away"


def test_B11_two_sessions_in_one_file_are_told(daemon: DaemonFixture, watched: Path) -> None:
    one, two = Agent(daemon.claude_dir, watched), Agent(daemon.claude_dir, watched)
    one.prompt("one")
    two.prompt("two")
    with listening(daemon, "conflict") as heard:
        one.edit(watched / "src/f1", b"by one\n")
        one.edit(watched / "src/f2", b"by one\n")
        two.edit(watched / "src/f3", b"by two\n")
        two.edit(watched / "src/f1", b"by two\n")
        conflict = event(heard)
        assert conflict["topic"] == "conflict" and conflict["project"] == str(watched)
        assert conflict["sessions"] == sorted([one.session, two.session])
        assert (conflict["files"], conflict["paths"]) == (1, ["src/f1"])
        one.edit(watched / "src/f1", b"by one again: told already\n")
        one.edit(watched / "src/f3", b"by one\n")
        assert event(heard)["paths"] == ["src/f3"]
    settle(daemon, watched, one.count + two.count)
    for mine, other in ((one, two), (two, one)):
        shown = daemon.call("session.show", project=watched, session=mine.session)["session"]["shared_files"]
        assert [(file["path"], file["session_id"]) for file in shown] == [
            ("src/f3", other.session),
            ("src/f1", other.session),
        ]
        text = daemon.client("session", "show", mine.session, cwd=watched).stdout
        assert "shared files src/f3  with " + other.session[:8] in text
    assert len(told(daemon, watched, "conflict")) == 2


def test_M5_what_is_not_certain_is_no_conflict(daemon: DaemonFixture, watched: Path) -> None:
    one, two = Agent(daemon.claude_dir, watched), Agent(daemon.claude_dir, watched)
    one.prompt("one")
    two.prompt("two")
    one.edit(watched / "README", b"by one\n")
    first, second = one.open("Bash", command="make"), two.open("Bash", command="make")
    replace(watched / "README", b"by one of them\n")
    one.close(first, told={"stdout": ""})
    two.close(second, told={"stdout": ""})
    replace(watched / "README", b"by a person\n")
    settle(daemon, watched, one.count + two.count)
    assert [row[6] for row in rows(daemon, b"README")] == ["", "named", "one of 2", ""]
    assert told(daemon, watched, "conflict") == []
    assert daemon.call("session.show", project=watched, session=two.session)["session"]["shared_files"] == []


def test_S1_a_session_that_is_forgotten_leaves_memory_and_nothing_is_lost(daemon: DaemonFixture, watched: Path) -> None:
    made = take(daemon, watched)
    agent = Agent(daemon.claude_dir, watched)
    agent.prompt("work")
    agent.edit(watched / "README", b"by the agent\n")
    agent.open("Bash", command="sleep 1000")
    settle(daemon, watched, agent.count)
    before = daemon.call("session.show", project=watched, session=agent.session)["session"]
    assert before["at_work"] is True
    done = daemon.client("session", "forget", agent.session[:8], "--json", cwd=watched)
    result = json.loads(done.stdout)
    assert (done.returncode, result["was_in_memory"], result["session"]["at_work"]) == (0, True, False)
    daemon.until(lambda: transcripts(daemon)["sessions_in_memory"] <= 1)  # the one of `settle` may be the other
    after = daemon.call("session.show", project=watched, session=agent.session)["session"]
    assert (after["prompts"], after["calls"]) == (before["prompts"], before["calls"])
    restore(daemon, watched, made["id"], wait_seconds=0)
    agent.prompt("go on after all")
    settle(daemon, watched, agent.count)
    again = daemon.call("session.show", project=watched, session=agent.session)["session"]
    assert (again["prompts"], again["at_work"]) == (before["prompts"] + 1, True)
    with pytest.raises(RpcError) as unknown:
        daemon.call("session.forget", project=watched, session="nobody")
    assert unknown.value.code == "not_found"
