"""One line, its events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mulligan.transcript.events import (
    BackgroundEnded,
    CallFinished,
    CallStarted,
    Command,
    CommandOutput,
    HarnessNote,
    Interrupted,
    Prompt,
    PromptKind,
    Queued,
    TurnEnded,
    Usage,
)
from mulligan.transcript.parse import (
    NOT_AN_OBJECT,
    NOT_JSON,
    TOO_DEEP,
    UNKNOWN_TYPE,
    WRONG_SHAPE,
    parse_line,
)
from support.transcripts import Writer, at


def events(line: dict[str, Any]) -> list[object]:
    parsed = parse_line(json.dumps(line).encode())
    assert parsed.fault == ""
    return list(parsed.events)


def kinds(line: dict[str, Any]) -> list[type]:
    return [type(event) for event in events(line)]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"{", NOT_JSON),
        (b"\x00\xff\xfe", NOT_JSON),
        (b'{"type":"user","message":{"content":"\xff"}}', NOT_JSON),
        (b'{"a":1}{"b":2}', NOT_JSON),
        (b'{"a":' + b"9" * 5000 + b"}", NOT_JSON),
        (b"[" * 100_000, TOO_DEEP),
        (b'{"a":' * 100_000, TOO_DEEP),
        (b"[]", NOT_AN_OBJECT),
        (b'"text"', NOT_AN_OBJECT),
        (b"null", NOT_AN_OBJECT),
        (b"{}", WRONG_SHAPE),
        (b'{"type":7}', WRONG_SHAPE),
        (b'{"type":"from the future"}', UNKNOWN_TYPE),
        (b'{"type":"user"}', WRONG_SHAPE),
        (b'{"type":"user","message":"text"}', WRONG_SHAPE),
        (b'{"type":"user","message":{"content":5}}', WRONG_SHAPE),
        (b'{"type":"assistant","message":[]}', WRONG_SHAPE),
        (b'{"type":"assistant","message":{"content":[{"type":"tool_use","id":5,"name":"Bash"}]}}', WRONG_SHAPE),
        (b'{"type":"queue-operation","operation":"dance"}', UNKNOWN_TYPE),
    ],
)
def test_bad_lines_are_named_and_never_raise(line: bytes, fault: str) -> None:
    parsed = parse_line(line)
    assert (parsed.events, parsed.fault) == ((), fault)


@pytest.mark.parametrize("line", [b"", b"  ", b"\r"])
def test_an_empty_line_is_nothing(line: bytes) -> None:
    assert parse_line(line) == parse_line(b"")
    assert parse_line(line).fault == ""


def test_X1_what_looks_like_a_prompt_and_is_none() -> None:
    write = Writer()
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}
    assert kinds(write.user([result])) == [CallFinished]
    assert kinds(write.user("Do it", isSidechain=True)) == []
    assert kinds(write.user("Do it", agentId="a1")) == []
    assert kinds(write.user("This session is continued", isCompactSummary=True)) == []
    assert kinds(write.user("Caveat: The messages below were generated", isMeta=True)) == [HarnessNote]
    assert (
        kinds(write.user("<user-prompt-submit-hook>x</user-prompt-submit-hook>", isVisibleInTranscriptOnly=True)) == []
    )
    assert kinds(write.user("hello", origin={"kind": "task-notification"})) == []
    assert kinds(write.user("hello", promptSource="system")) == []
    assert kinds(write.user("<system-reminder>x</system-reminder>")) == []
    assert kinds(write.user("<teammate-message>x</teammate-message>")) == []
    assert kinds(write.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}])) == [Interrupted]
    assert kinds(write.user("<bash-stdout>x</bash-stdout><bash-stderr></bash-stderr>")) == []
    assert kinds(write.user("<local-command-stdout>x</local-command-stdout>")) == [CommandOutput]
    assert kinds(write.user("<ide_opened_file>a.py</ide_opened_file>")) == []
    assert kinds(write.user("Unknown slash command: foo")) == []
    assert kinds(write.user("Unknown skill: foo")) == []
    assert kinds(write.user([])) == []


def test_X1_a_meta_line_of_a_subagent_with_a_result_is_still_a_result() -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}
    (event,) = events(Writer().user([result], isSidechain=True, isMeta=True))
    assert isinstance(event, CallFinished)
    assert event.agent


def test_X2_text_and_lists_with_pictures_are_prompts() -> None:
    write = Writer()
    picture = {"type": "image", "source": {}}
    for content, text in (
        ("hello", "hello"),
        ("<div>is not a tag of the client</div>", "<div>is not a tag of the client</div>"),
        ([{"type": "text", "text": "look"}, picture], "look"),
        ([picture], ""),
        ([{"type": "document"}, {"type": "text", "text": "read"}], "read"),
        ([{"type": "text", "text": "<ide_selection>x</ide_selection>"}, {"type": "text", "text": "fix"}], "fix"),
        ("Unknown skill: is that a thing? Explain", "Unknown skill: is that a thing? Explain"),
    ):
        line = write.user(content, origin={"kind": "human"})
        (event,) = events(line)
        assert isinstance(event, Prompt)
        assert (event.kind, event.text, event.key) == (PromptKind.TYPED, text, line["uuid"])


def test_shell_lines_and_slash_commands() -> None:
    write = Writer()
    (bang,) = events(write.user("<bash-input>rm -rf x\necho</bash-input>"))
    assert isinstance(bang, Prompt)
    assert (bang.kind, bang.text) == (PromptKind.BASH, "rm -rf x\necho")
    text = "<command-message>foo</command-message>\n<command-name>/foo</command-name>\n<command-args>a b</command-args>"
    (command,) = events(write.user(text))
    assert isinstance(command, Command)
    assert (command.name, command.text) == ("/foo", "/foo a b")


def test_a_call_names_absolute_normal_paths() -> None:
    write = Writer(cwd="/p/sub")
    for name, arguments, paths in (
        ("Write", {"file_path": "/p/a.txt"}, (b"/p/a.txt",)),
        ("Write", {"file_path": "../b.txt"}, (b"/p/b.txt",)),
        ("Write", {"file_path": "/p/../../etc/passwd"}, (b"/etc/passwd",)),
        ("NotebookEdit", {"notebook_path": "//p/ü.ipynb"}, ("/p/ü.ipynb".encode(),)),
        ("mcp__x__y", {"paths": ["/p/1", "2", 3]}, (b"/p/1", b"/p/sub/2")),
        ("Write", {"file_path": 5}, ()),
        ("Write", {"file_path": "/p/\0"}, ()),
        ("Write", "not an object", ()),
    ):
        usage, call = events(write.call("t1", name, input=arguments))
        assert isinstance(usage, Usage)
        assert isinstance(call, CallStarted)
        assert (call.name, call.paths) == (name, paths)


def test_a_result_names_what_changed_and_what_goes_on() -> None:
    write = Writer()
    diff = {"files": [{"filePath": "/p/a"}], "changedFiles": ["/p/a", "/p/b"], "moreFiles": 0}
    (bash,) = events(write.result("t1", told={"stdout": "", "bashEditDiff": diff}))
    assert isinstance(bash, CallFinished)
    assert (bash.paths, bash.kind, bash.background) == ((b"/p/a", b"/p/b"), "Bash", False)
    (left,) = events(write.result("t1", told={"stdout": "", "backgroundTaskId": "b1"}))
    assert isinstance(left, CallFinished)
    assert left.background
    for told in ("Error: no", ["x"], 5, {"filePath": 5, "bashEditDiff": []}):
        (odd,) = events(write.result("t1", told=told, is_error=True))
        assert isinstance(odd, CallFinished)
        assert (odd.is_error, odd.paths) == (True, ())


def test_usage_ignores_what_is_not_a_count() -> None:
    line = Writer().assistant("m1", {"type": "text", "text": "x"}, stop="end_turn")
    line["message"]["usage"] = {"input_tokens": "7", "output_tokens": -1, "cache_read_input_tokens": True}
    usage, end = events(line)
    assert isinstance(usage, Usage)
    assert (usage.input, usage.output, usage.cache_read) == (0, 0, 0)
    assert isinstance(end, TurnEnded)
    assert not end.final


def test_a_synthetic_message_costs_nothing() -> None:
    assert kinds(Writer().assistant("m1", model="<synthetic>", stop="stop_sequence")) == [TurnEnded]


def test_X4_a_lone_surrogate_is_replaced() -> None:
    line = json.dumps(Writer().user("a")).replace('"content": "a"', '"content": "a\\ud800b"')
    (event,) = parse_line(line.encode()).events
    assert isinstance(event, Prompt)
    assert event.text == "a\N{REPLACEMENT CHARACTER}b"


def test_the_time_is_the_lines_own_or_none() -> None:
    line = Writer().user("a")
    (event,) = events(line)
    assert isinstance(event, Prompt)
    assert event.time == at(100)
    for stamp in ("yesterday", "", None, 5, "0001-01-01T00:00:00Z"):
        (odd,) = events({**line, "timestamp": stamp})
        assert isinstance(odd, Prompt)
        assert odd.time is None


def test_queue_lines_have_a_key_that_does_not_change() -> None:
    line = {"type": "queue-operation", "operation": "enqueue", "content": "hi", "timestamp": "2026-01-01T00:00:00Z"}
    (first,), (again,) = events(line), events(dict(reversed(line.items())))
    (other,) = events({**line, "content": "ho"})
    assert isinstance(first, Queued)
    assert isinstance(other, Queued)
    assert first == again
    assert first.key != other.key


def test_a_task_notification_ends_its_call() -> None:
    text = "<task-notification>\n<task-id>b</task-id>\n<tool-use-id>toolu_1</tool-use-id>\n</task-notification>"
    assert kinds(Writer().user(text)) == [BackgroundEnded]


def test_a_line_that_the_client_copied_says_so() -> None:
    (event,) = events(Writer().user("a", forkedFrom={"sessionId": "x", "messageUuid": "y"}))
    assert isinstance(event, Prompt)
    assert event.replayed


def test_copies_of_a_subagents_messages_are_not_read() -> None:
    inner = {"type": "assistant", "message": {"id": "m", "usage": {"output_tokens": 5}, "content": []}}
    assert kinds(Writer().line("progress", data={"type": "agent_progress", "message": inner})) == []
