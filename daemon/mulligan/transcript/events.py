"""What the lines of a transcript say, as typed events.

Each event is one fact of one line. Times are the line's own timestamp: wall-clock nanoseconds since the epoch, or None
if the line bears none. Everything here can be serialised, because a session's stored state keeps some of them.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class PromptKind(StrEnum):
    """How a person's words reached the agent."""

    TYPED = "typed"
    QUEUED = "queued"
    BASH = "bash"
    COMMAND = "command"


class QueueOperation(StrEnum):
    """What happened to the words that a person typed while the agent was busy."""

    ENQUEUE = "enqueue"
    DEQUEUE = "dequeue"
    REMOVE = "remove"
    POP_ALL = "popAll"


class Line(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What every event has of its line.

    `uuid` is the line's, or empty: bookkeeping lines have none. `session` is what the line claims; whose session it is
    is decided by the file. `agent`: a subagent's line. `replayed`: the client itself says that the line was copied.
    """

    uuid: str = ""
    parent: str = ""
    session: str = ""
    time: int | None = None
    cwd: str = ""
    version: str = ""
    branch: str = ""
    agent: bool = False
    replayed: bool = False


class Prompt(Line, frozen=True, kw_only=True):
    """A person's words. `key` identifies them over all files; `text` has no lone surrogates."""

    kind: PromptKind
    key: str
    text: str


class Command(Line, frozen=True, kw_only=True):
    """A slash command whose line does not yet show whether it starts a model turn (custom) or not (built-in)."""

    key: str
    name: str
    text: str


class CommandOutput(Line, frozen=True, kw_only=True):
    """A built-in command answered: the one before it made no turn."""


class HarnessNote(Line, frozen=True, kw_only=True):
    """Words that the client put into the person's mouth. `caveat`: the one that precedes a built-in command."""

    caveat: bool


class Queued(Line, frozen=True, kw_only=True):
    """The queue of prompts moved. `text` is a person's, of an enqueue; `reason` only where the client gives one."""

    operation: QueueOperation
    key: str
    text: str = ""
    reason: str = ""


class CallStarted(Line, frozen=True, kw_only=True):
    """The model asked for a tool. `paths` are absolute and normal, as its input names them; they may lie anywhere."""

    tool: str
    name: str
    paths: tuple[bytes, ...] = ()
    command: str = ""


class CallFinished(Line, frozen=True, kw_only=True):
    """A tool's result arrived.

    `kind` is the tool's name as the shape of the result tells it, or empty. `background`: the tool goes on.
    """

    tool: str
    is_error: bool = False
    paths: tuple[bytes, ...] = ()
    kind: str = ""
    background: bool = False


class BackgroundEnded(Line, frozen=True, kw_only=True):
    """A tool that went on in the background has come to its end."""

    tool: str


class Usage(Line, frozen=True, kw_only=True):
    """What an API message cost so far. Repeated on each of the message's lines: never to be added up."""

    message: str
    model: str
    input: int = 0
    output: int = 0
    cache_creation: int = 0
    cache_read: int = 0


class TurnEnded(Line, frozen=True, kw_only=True):
    """The agent is done. `final`: the client says so; else the model's last message does, and hooks may follow."""

    key: str
    final: bool


class Compacted(Line, frozen=True, kw_only=True):
    """The conversation was replaced by a summary. `trigger` is "manual", "auto" or empty; `before` its last line."""

    trigger: str = ""
    before: str = ""


class Interrupted(Line, frozen=True, kw_only=True):
    """The person stopped the agent."""


TranscriptEvent = (
    Prompt
    | Command
    | CommandOutput
    | HarnessNote
    | Queued
    | CallStarted
    | CallFinished
    | BackgroundEnded
    | Usage
    | TurnEnded
    | Compacted
    | Interrupted
)


def prompt_of(event: Command | Queued, kind: PromptKind, key: str, text: str) -> Prompt:
    """The prompt that a line turned out to be."""
    return Prompt(
        uuid=event.uuid,
        parent=event.parent,
        session=event.session,
        time=event.time,
        cwd=event.cwd,
        version=event.version,
        branch=event.branch,
        replayed=event.replayed,
        kind=kind,
        key=key,
        text=text,
    )


class Parsed(msgspec.Struct, frozen=True):
    """The events of one line, and why it (or a part of it) could not be used; an empty `fault` means nothing is odd."""

    events: tuple[TranscriptEvent, ...] = ()
    fault: str = ""
