"""What Claude Code gives its hooks: raw JSON, judged here and nowhere else. Pure."""

from __future__ import annotations

import re

import msgspec

from mulligan.session.hints import written_paths
from mulligan.transcript.locate import UUID
from mulligan.transcript.parse import input_paths

EVENTS = frozenset(
    (
        "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "SubagentStop",
        "PreCompact", "SessionEnd",
    )
)  # fmt: skip
_SESSION = re.compile(UUID)
_TOOL = re.compile(r"[\w.:-]{1,200}")


class OddInputError(Exception):
    """An input that is not used; the message says why, in a few words that are counted."""


class ClaudeInput(msgspec.Struct, frozen=True):
    """One input. `session_id` is a UUID, `cwd` absolute, `tool_use_id` a plain word.

    Clients before 2.0.76 give no id of the tool use.
    """

    session_id: str
    cwd: str
    hook_event_name: str
    tool_name: str = ""
    tool_input: msgspec.Raw = msgspec.Raw(b"null")
    tool_use_id: str = ""
    agent_id: str = ""
    prompt: str = ""
    source: str = ""

    def paths(self) -> tuple[bytes, ...]:
        """Absolute paths that the tool's input, or the words of its command, names."""
        given = msgspec.json.decode(self.tool_input)
        if not isinstance(given, dict):
            return ()
        command = given.get("command")
        written = written_paths(command, self.cwd) if self.tool_name == "Bash" and isinstance(command, str) else ()
        return tuple(dict.fromkeys((*input_paths(given, self.cwd), *written)))


def read_input(event: str, raw: str) -> ClaudeInput:
    """The input of a hook that was installed for an event. Raises OddInputError."""
    if event not in EVENTS:
        raise OddInputError("unknown event")
    try:
        told = msgspec.json.decode(raw, type=ClaudeInput)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise OddInputError("malformed") from None
    plain = _SESSION.fullmatch(told.session_id) and told.cwd.startswith("/") and "\0" not in told.cwd
    if not plain or told.hook_event_name != event or (told.tool_use_id and not _TOOL.fullmatch(told.tool_use_id)):
        raise OddInputError("malformed")
    return told
