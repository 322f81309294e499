"""A real daemon and what becomes of transcript files: rewritten, replaced, torn, full of garbage, in odd places."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from support.daemon import DaemonFixture
from support.live_transcript import (
    LiveTranscript,
    await_checkpoint,
    checkpoints,
    session_of,
    settle,
    transcripts,
)


@pytest.fixture
def watched(daemon: DaemonFixture, project: Path) -> Path:
    """A project that is protected and takes a checkpoint at each prompt."""
    daemon.call("settings.set", key="strategy", value="per_prompt", scope="global")
    daemon.add(project)
    return project


def prompts(daemon: DaemonFixture, project: Path, session: str = "") -> list[str]:
    """The prompts that checkpoints were taken at, in their order."""
    return [made["metadata"]["user_prompt"] for made in checkpoints(daemon, project, "prompt", session=session)]


def test_X5_a_file_that_is_truncated_and_written_anew_is_followed(daemon: DaemonFixture, watched: Path) -> None:
    session = LiveTranscript(daemon.claude_dir, watched)
    for number in range(20):
        session.prompt(f"p{number}")
    await_checkpoint(daemon, watched, "prompt", 20)
    whole = session.path.read_bytes().splitlines(keepends=True)
    fd = os.open(session.path, os.O_WRONLY)
    os.ftruncate(fd, len(b"".join(whole[:10])))
    os.lseek(fd, 0, os.SEEK_END)
    os.write(fd, b"".join(whole[12:]) + json.dumps(session.user("p20")).encode() + b"\n")
    os.close(fd)
    await_checkpoint(daemon, watched, "prompt", 21)
    session.prompt("p21")
    await_checkpoint(daemon, watched, "prompt", 22)
    assert prompts(daemon, watched) == [f"p{number}" for number in range(22)]
    assert session_of(daemon, watched, session.session)["prompts"] == 22


def test_X5_the_same_size_and_other_bytes_is_noticed(daemon: DaemonFixture, watched: Path) -> None:
    session = LiveTranscript(daemon.claude_dir, watched)
    session.prompt("one")
    session.prompt("aaa")
    await_checkpoint(daemon, watched, "prompt", 2)
    first, _ = session.path.read_bytes().splitlines(keepends=True)
    second = json.dumps(session.user("bbb")).encode() + b"\n"
    with session.path.open("r+b") as stream:
        stream.write(first + second)
    await_checkpoint(daemon, watched, "prompt", 3)
    assert prompts(daemon, watched) == ["one", "aaa", "bbb"]
    assert transcripts(daemon)["odd"]["restart: rewritten"] == 1


def test_X5_replaced_by_rename_or_deleted_and_made_again(daemon: DaemonFixture, watched: Path) -> None:
    session = LiveTranscript(daemon.claude_dir, watched)
    session.prompt("one")
    await_checkpoint(daemon, watched, "prompt", 1)
    other = session.path.with_suffix(".new")
    other.write_bytes(session.path.read_bytes() + json.dumps(session.user("two")).encode() + b"\n")
    other.rename(session.path)
    await_checkpoint(daemon, watched, "prompt", 2)
    whole = session.path.read_bytes()
    session.path.unlink()
    daemon.call("watch.sync", project=watched)
    session.write(whole)
    session.prompt("three")
    await_checkpoint(daemon, watched, "prompt", 3)
    session.path.unlink()  # swept away by the agent, with its directory
    session.path.parent.rmdir()
    session.prompt("four")
    await_checkpoint(daemon, watched, "prompt", 4)
    assert prompts(daemon, watched) == ["one", "two", "three", "four"]


def test_X4_half_a_line_waits_for_its_rest(daemon: DaemonFixture, watched: Path) -> None:
    session = LiveTranscript(daemon.claude_dir, watched)
    line = json.dumps(session.user("größer \N{GRINNING FACE}"), ensure_ascii=False).encode() + b"\r\n"
    cut = line.index("\N{GRINNING FACE}".encode()) + 2
    session.write(line[:cut])
    other = LiveTranscript(daemon.claude_dir, watched)
    other.prompt("whole")
    await_checkpoint(daemon, watched, "prompt", 1)
    session.write(line[cut:])
    await_checkpoint(daemon, watched, "prompt", 2)
    assert sorted(prompts(daemon, watched)) == ["größer \N{GRINNING FACE}", "whole"]
    assert transcripts(daemon)["odd"] == {}


def test_X4_garbage_is_counted_and_what_follows_is_read(daemon: DaemonFixture, watched: Path) -> None:
    session = LiveTranscript(daemon.claude_dir, watched)
    deep = b'{"type":"user","message":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    wrong = session.user("x")
    wrong["message"] = "a string"
    session.write(
        b"\n", b"not json\n", b"[1, 2]\n", b"null\n", b"\xff\xfe\x00\n", deep, wrong,
        {"type": "a type of tomorrow", "sessionId": session.session},
        {"type": "assistant", "message": {"content": [{"type": "tool_use", "input": None}]}},
        {**session.user("self"), "parentUuid": "u-self", "uuid": "u-self"},
        {**session.user("lone \ud800 half"), "cwd": None},
        b'{"type":"user","uuid":"big","message":{"content":"' + b"x" * (12 << 20) + b'"}}\n',
        session.user("after all of it"),
    )  # fmt: skip
    daemon.until(lambda: "after all of it" in prompts(daemon, watched))
    odd = transcripts(daemon)["odd"]
    assert odd["not json"] == 2
    assert odd["not an object"] == 2
    assert odd["nested too deeply"] == 1
    assert odd["unknown type"] == 1
    assert odd["wrong shape"] == 2
    assert "lone \N{REPLACEMENT CHARACTER} half" in prompts(daemon, watched)
    assert daemon.call("daemon.stats")["rss_bytes"] < 400 << 20


def test_X1_lines_that_are_no_prompts_make_none(daemon: DaemonFixture, watched: Path) -> None:
    session = LiveTranscript(daemon.claude_dir, watched)
    session.write(
        session.user("meta", isMeta=True),
        session.user("summary", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        session.user("sidechain", isSidechain=True, agentId="a1"),
        session.user([{"type": "text", "text": "[Request interrupted by user]"}]),
        session.user("<local-command-stdout>out</local-command-stdout>"),
        session.user("<bash-stdout>out</bash-stdout>"),
        session.user("<task-notification>done</task-notification>"),
        session.result("toolu_unknown"),
        session.user([{"type": "text", "text": "words"}, {"type": "image", "source": {}}]),
        session.user("<div> is no tag of the client's"),
    )
    settle(daemon, watched, 10)
    assert prompts(daemon, watched) == ["words", "<div> is no tag of the client's"]


def test_X9_the_project_is_where_the_lines_say_never_where_the_name_says(daemon: DaemonFixture) -> None:
    daemon.call("settings.set", key="strategy", value="per_prompt", scope="global")
    names = ["with-hyphen", "with.dot", "with space", "with_underscore", "wïth-ümlaut \N{GRINNING FACE}", "with"]
    for name in names:
        place = daemon.projects / name / "sub"
        place.mkdir(parents=True)
        (place.parent / ".git").mkdir()
        LiveTranscript(daemon.claude_dir, place).prompt(f"in {name}")
    for name in names:
        made = await_checkpoint(daemon, daemon.projects / name, "prompt")
        assert made["metadata"]["user_prompt"] == f"in {name}"
        assert made["project_path"] == str(daemon.projects / name)


def test_X9_two_configuration_directories(daemon_factory: Callable[..., DaemonFixture]) -> None:
    daemon = daemon_factory(start=False)
    other = daemon.directory / "other config"
    daemon.config_file.write_text(f"strategy: per_prompt\nclaude_config_dirs: ['{other}']\n")
    link = daemon.directory / "linked"
    link.symlink_to(daemon.claude_dir)
    daemon.env["CLAUDE_CONFIG_DIR"] = str(link)
    project = daemon.projects / "project"
    project.mkdir()
    daemon.start()
    daemon.add(project)
    LiveTranscript(daemon.claude_dir, project).prompt("by the one")
    LiveTranscript(other, project).prompt("by the other")  # comes to be while the daemon runs
    await_checkpoint(daemon, project, "prompt", 2)
    assert sorted(prompts(daemon, project)) == ["by the one", "by the other"]
    settle(daemon, project, 2)
    assert transcripts(daemon)["lines"] == 3, "each file once, whatever names lead to it"


def test_X9_a_session_that_moves_to_another_project_leaves_both_what_is_theirs(daemon: DaemonFixture) -> None:
    daemon.call("settings.set", key="strategy", value="per_tool_use", scope="global")
    one, two = daemon.projects / "one", daemon.projects / "two"
    for root in (one, two):
        root.mkdir()
        daemon.add(root)
    session = LiveTranscript(daemon.claude_dir, one)
    first, second = (f"toolu_{uuid.uuid4().hex[:12]}" for _ in range(2))
    lines = [session.user("begin here"), session.call(first, "Bash", input={"command": "touch a"})]
    (one / "a").write_bytes(b"a\n")
    lines.append(session.result(first))
    time.sleep(0.05)
    session.cwd = str(two)
    lines.append(session.call(second, "Bash", input={"command": "touch b"}))
    (two / "b").write_bytes(b"b\n")
    lines.append(session.result(second))
    session.write(*lines)
    assert await_checkpoint(daemon, one, "tool_use")["tool"]["id"] == first
    assert await_checkpoint(daemon, two, "tool_use")["tool"]["id"] == second
    assert len(checkpoints(daemon, one, "tool_use")) == len(checkpoints(daemon, two, "tool_use")) == 1


def test_subagents_calls_are_their_parents_and_their_prompts_nobodys(daemon: DaemonFixture, watched: Path) -> None:
    daemon.call("settings.set", key="strategy", value="per_tool_use", scope="global")
    session = LiveTranscript(daemon.claude_dir, watched)
    session.prompt("delegate")
    agents = [
        session.path.with_suffix("") / "subagents" / "agent-1a2b3c.jsonl",
        session.path.with_suffix("") / "subagents" / "workflows" / "wf_1" / "agent-4d5e6f.jsonl",
        session.path.parent / "agent-7a8b9c0d.jsonl",
    ]
    for number, path in enumerate(agents, 1):
        agent = LiveTranscript(daemon.claude_dir, watched, session.session)
        agent.path = path
        agent.count = number * 1000
        mark = {"isSidechain": True, "agentId": path.stem.removeprefix("agent-")}
        tool = f"toolu_agent{number}"
        agent.write(b"")  # the file is there before its first line
        time.sleep(0.1)
        (watched / f"by{number}").write_bytes(b"x\n")
        agent.write(
            agent.user("do a part", **mark),
            agent.call(tool, "Write", input={"file_path": str(watched / f"by{number}")}, **mark),
            agent.result(tool, **mark),
        )
        made = await_checkpoint(daemon, watched, "tool_use", number)
        assert (made["tool"]["id"], made["session_id"]) == (tool, session.session)
    shown = session_of(daemon, watched, session.session)
    assert (shown["prompts"], shown["calls"]) == (1, 3)
    assert shown["transcript"] == str(session.path)
