"""Exit codes of calls, as real clients' lines tell them."""

from __future__ import annotations

import json
from typing import Any

from mulligan.transcript.outcomes import exit_codes
from mulligan.transcript.parse import parse_line
from support.transcripts import FIXTURES, Writer


def result(content: Any, told: Any, *, is_error: bool = False) -> bytes:
    block = {"type": "tool_result", "tool_use_id": "t", "content": content, "is_error": is_error}
    return json.dumps(Writer().user([block], toolUseResult=told)).encode()


def code(*line: Any, **more: Any) -> int | None:
    return exit_codes([result(*line, **more)], {"t"}).get("t")


def test_a_failure_says_its_code() -> None:
    assert code("Exit code 3\noops", "Error: Exit code 3\noops", is_error=True) == 3
    assert code([{"type": "text", "text": "Exit code 137\n[Request interrupted"}], None, is_error=True) == 137
    assert code("Error: oops", "Error: Exit code 2\noops", is_error=True) == 2


def test_a_failure_without_one_is_unknown() -> None:
    assert code("Error: oops\nExit code 1", "Error: oops", is_error=True) is None
    assert code("PreToolUse hook error", "Error: hook", is_error=True) is None
    assert code(None, None, is_error=True) is None


def test_success_is_0_only_where_the_client_tells_of_nothing_odd() -> None:
    assert code("x", {"stdout": "x", "stderr": "", "interrupted": False}) == 0
    assert code("x", {"stdout": "", "interrupted": True}) is None
    assert code("x", {"stdout": "", "returnCodeInterpretation": "No matches found"}) is None
    assert code("x", {"stdout": "", "backgroundTaskId": "b1"}) is None
    assert code("x", {"filePath": "/a"}) is None
    assert code("Exit code 3 is what it prints", {"stdout": "Exit code 3 is what it prints"}) == 0


def test_only_wanted_calls_and_only_lines_that_can_be_read() -> None:
    good = result("Exit code 3\n", None, is_error=True)
    odd = [b"{tool_result", b'["tool_result"]', b'{"message": {"content": "tool_result"}}', good[:-9], b""]
    assert exit_codes([*odd, good], {"t"}) == {"t": 3}
    assert exit_codes([good], {"u"}) == {}


def test_of_every_real_client_the_commands_have_codes_that_agree_with_the_error_mark() -> None:
    codes: dict[str, int] = {}
    errors: dict[str, bool] = {}
    for path in sorted(FIXTURES.rglob("*.jsonl")):
        lines = path.read_bytes().split(b"\n")
        events = [event for line in lines for event in parse_line(line).events]
        shell = {event.tool for event in events if getattr(event, "command", "")}
        errors |= {event.tool: event.is_error for event in events if hasattr(event, "is_error") and event.tool in shell}
        codes |= exit_codes(lines, shell)
    assert {0, 3} <= set(codes.values())
    assert all((code != 0) == errors[tool] for tool, code in codes.items())
