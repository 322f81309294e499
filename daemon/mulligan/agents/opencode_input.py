"""What the plugin for OpenCode tells: raw JSON, judged here and nowhere else, and the events that it means. Pure.

The fields are Claude Code's where both have the same thing. What a child session (OpenCode's subagents) does is its
root's doing, as a subagent's is; what is said to it, and that it ends, is nobody's.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from mulligan.agents.claude_input import OddInputError
from mulligan.clock import MILLISECOND
from mulligan.session.hints import written_paths
from mulligan.session.tools import is_shell
from mulligan.transcript.events import (
    CallFinished,
    CallStarted,
    Compacted,
    Interrupted,
    Prompt,
    PromptKind,
    TranscriptEvent,
    TurnEnded,
    Usage,
)
from mulligan.transcript.kept import SESSION
from mulligan.transcript.parse import input_paths

EVENTS = frozenset(
    (
        "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Usage", "Stop", "PreCompact", "PostCompact",
        "SessionEnd",
    )
)  # fmt: skip
_SESSION = re.compile(SESSION)
_ID = re.compile(r"[\w.:|+/=-]{1,200}")
#: Whole numbers of milliseconds that a clock can show: up to the year 2200.
_LATEST = 7_258_118_400_000
#: The kernel's word of a change may reach the journal a little later than an end was noted.
_ARRIVAL = 3 * MILLISECOND
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)


class Tokens(msgspec.Struct, frozen=True):
    """What a message cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0


class OpenCodeInput(msgspec.Struct, frozen=True):
    """One input. Session ids are OpenCode's, `cwd` is absolute, `time` is when it happened (milliseconds, wall clock).

    `parent_session_id` is the root of a child session, empty for a root. `kind` is a prompt's.
    """

    hook_event_name: str
    session_id: str
    cwd: str
    time: int
    parent_session_id: str = ""
    tool_name: str = ""
    tool_use_id: str = ""
    tool_input: dict[str, Any] = {}
    is_error: bool = False
    prompt: str = ""
    prompt_id: str = ""
    kind: PromptKind = PromptKind.TYPED
    reason: str = ""
    message_id: str = ""
    model: str = ""
    usage: Tokens = Tokens()

    @property
    def root(self) -> str:
        """The session that this is about."""
        return self.parent_session_id or self.session_id

    @property
    def child(self) -> bool:
        """Whether a child session told it."""
        return self.root != self.session_id

    @property
    def moment(self) -> int:
        """When it happened, in nanoseconds."""
        return self.time * MILLISECOND

    @property
    def command(self) -> str:
        """A shell's command."""
        command = self.tool_input.get("command")
        return command if is_shell(self.tool_name) and isinstance(command, str) else ""

    @property
    def named(self) -> tuple[bytes, ...]:
        """Absolute paths that the tool's input, or the patch in it, names."""
        patch = self.tool_input.get("patchText")
        patched = {"paths": _PATCHED.findall(patch)} if isinstance(patch, str) else {}
        return input_paths(self.tool_input | patched, self.cwd)

    @property
    def written(self) -> tuple[bytes, ...]:
        """Absolute paths that the words of its command name."""
        return written_paths(self.command, self.cwd)


def read_input(event: str, raw: str) -> OpenCodeInput:
    """The input of a hook. Raises OddInputError."""
    if event not in EVENTS:
        raise OddInputError("unknown event")
    try:
        told = _decoded(raw)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise OddInputError("malformed") from None
    sessions = _SESSION.fullmatch(told.session_id) and _SESSION.fullmatch(told.root)
    plain = told.cwd.startswith("/") and "\0" not in told.cwd and 0 < told.time < _LATEST
    ids = all(not one or _ID.fullmatch(one) for one in (told.tool_use_id, told.prompt_id, told.message_id))
    if not sessions or not plain or not ids or told.hook_event_name != event:
        raise OddInputError("malformed")
    return told


def _decoded(raw: str) -> OpenCodeInput:
    try:
        return msgspec.json.decode(raw, type=OpenCodeInput)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # msgspec refuses half a surrogate pair, which JavaScript writes without a thought
        whole = json.dumps(json.loads(raw), ensure_ascii=False).encode("utf-8", "replace")
        return msgspec.json.decode(whole, type=OpenCodeInput)


def events_of(told: OpenCodeInput) -> list[TranscriptEvent]:
    """What an input means to its root session; nothing if nothing follows from it."""
    line: dict[str, Any] = {"session": told.root, "time": told.moment, "cwd": told.cwd, "agent": told.child}
    key = f"{told.session_id}:{told.time}"
    if told.hook_event_name in ("PostToolUse", "Stop"):
        line["time"] += _ARRIVAL
    match told.hook_event_name:
        case "PreToolUse" if told.tool_use_id and told.tool_name:
            tool, name = told.tool_use_id, told.tool_name
            return [CallStarted(uuid=tool, tool=tool, name=name, paths=told.named, command=told.command, **line)]
        case "PostToolUse" if told.tool_use_id:
            tool = told.tool_use_id
            return [CallFinished(uuid=tool, tool=tool, is_error=told.is_error, kind=told.tool_name, **line)]
        case "Usage" if told.message_id:
            spent = told.usage
            return [
                Usage(
                    uuid=told.message_id,
                    message=told.message_id,
                    model=told.model,
                    input=max(0, spent.input_tokens),
                    output=max(0, spent.output_tokens),
                    cache_creation=max(0, spent.cache_creation_input_tokens),
                    cache_read=max(0, spent.cache_read_input_tokens),
                    **line,
                )
            ]
        case "UserPromptSubmit" if told.prompt_id and not told.child:
            prompt = Prompt(uuid=told.prompt_id, key=told.prompt_id, kind=told.kind, text=told.prompt, **line)
            # its messages cost nothing until they are complete, which is behind their calls: the model is known now
            asked = Usage(uuid=told.prompt_id, message=told.prompt_id, model=told.model, **line)
            return [prompt, asked] if told.model else [prompt]
        case "Stop" if not told.child and told.reason == "interrupted":
            return [Interrupted(uuid=key, **line)]
        case "Stop" if not told.child:
            return [TurnEnded(uuid=key, key=key, final=True, **line)]
        case "PostCompact" if not told.child:
            return [Compacted(uuid=key, **line)]
    return []
