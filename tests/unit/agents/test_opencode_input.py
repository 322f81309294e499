"""What an input of OpenCode's plugin means, and which tools can own what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mulligan.agents.opencode_input import OpenCodeInput, events_of, read_input
from mulligan.session.tools import ToolClass, classify, destructive, is_shell
from mulligan.transcript.events import CallFinished, CallStarted, Prompt, PromptKind
from mulligan.transcript.kept import kept_lines, parse_kept

SESSION = "ses_dd259d620ffeb4kvzlLpZPQwKr"
CHILD = "ses_dd260a550ffekuYqsTDvdydRUY"


def told(event: str, **more: Any) -> OpenCodeInput:
    common = {"hook_event_name": event, "session_id": SESSION, "cwd": "/home/dev/shop", "time": 1_796_062_195_745}
    return read_input(event, json.dumps({**common, **more}))


@pytest.mark.parametrize(
    ("tool", "arguments", "paths", "command"),
    [
        ("write", {"filePath": "/home/dev/shop/a.txt"}, (b"/home/dev/shop/a.txt",), ""),
        ("edit", {"filePath": "src/../a.txt"}, (b"/home/dev/shop/a.txt",), ""),
        ("bash", {"command": "rm a.txt"}, (), "rm a.txt"),
        ("github_search", {"command": "not a shell's"}, (), ""),
        (
            "apply_patch",
            {"patchText": "*** Begin Patch\n*** Update File: a.txt\n*** Move to: b.txt\n@@\n-x\n+*** Add File: no\n"},
            (b"/home/dev/shop/a.txt", b"/home/dev/shop/b.txt"),
            "",
        ),
    ],
)
def test_a_call_names_its_paths(tool: str, arguments: dict[str, Any], paths: tuple[bytes, ...], command: str) -> None:
    one = told("PreToolUse", tool_name=tool, tool_use_id="call_1", tool_input=arguments)
    (event,) = events_of(one)
    assert isinstance(event, CallStarted)
    assert (event.name, event.paths, event.command, event.agent) == (tool, paths, command, False)
    assert one.written == ((b"/home/dev/shop/a.txt",) if tool == "bash" else ())


def test_a_childs_doings_are_its_roots_and_nothing_else_of_it() -> None:
    family = {"session_id": CHILD, "parent_session_id": SESSION}
    (event,) = events_of(told("PostToolUse", tool_name="bash", tool_use_id="call_1", is_error=True, **family))
    assert isinstance(event, CallFinished)
    assert (event.session, event.agent, event.is_error) == (SESSION, True, True)
    for silent in ("UserPromptSubmit", "Stop", "PostCompact", "SessionEnd"):
        assert events_of(told(silent, prompt="go", prompt_id="msg_1", **family)) == []


def test_what_is_kept_is_read_back() -> None:
    events = events_of(
        told("UserPromptSubmit", prompt="h\u00e9\n\U0001f600", prompt_id="msg_1", kind="queued", model="m")
    )
    events += events_of(told("PreToolUse", tool_name="write", tool_use_id="c", tool_input={"filePath": "a\udcff"}))
    lines = kept_lines(events).split(b"\n")
    assert [event for line in lines for event in parse_kept(line).events] == events
    assert isinstance(events[0], Prompt) and events[0].kind is PromptKind.QUEUED
    assert parse_kept(lines[0][:-5]).fault == "malformed"


def test_the_classes_of_its_tools() -> None:
    for name in ("read", "grep", "glob", "list", "webfetch", "todowrite", "skill"):
        assert (classify(name), destructive(name)) == (ToolClass.READ_ONLY, False)
    for name in ("write", "edit"):
        assert (classify(name), destructive(name)) == (ToolClass.PATH, True)
    for name in ("bash", "apply_patch", "shell"):
        assert (classify(name), destructive(name)) == (ToolClass.WINDOW, True)
    assert (classify("task"), destructive("task")) == (ToolClass.AGENT, False)
    assert (classify("github_search"), destructive("github_search")) == (ToolClass.WINDOW, False)
    assert [name for name in ("bash", "shell", "Bash", "write", "bash_output") if is_shell(name)] == [
        "bash",
        "shell",
        "Bash",
    ]
