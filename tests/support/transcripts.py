"""Feeds transcripts to session machines as the daemon does, with a set of keys for a catalogue."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mulligan.session.events import RecordPrompt, SessionCommand, SessionInput, Settings, TakeCheckpoint
from mulligan.session.machine import SessionMachine
from mulligan.session.state import State
from mulligan.transcript.events import TranscriptEvent
from mulligan.transcript.parse import parse_line

FIXTURES = Path(__file__).parent.parent / "fixtures" / "transcripts"
MILLISECOND = 1_000_000
T = TypeVar("T")


class Feeder:
    """Machines by session over one catalogue of keys; `commands` holds all that came out, in order."""

    def __init__(self, settings: Settings = Settings(), since: int = 0) -> None:  # noqa: B008 - frozen
        self.catalogue: set[str] = set()
        self.machines: dict[str, SessionMachine] = {}
        self.commands: list[SessionCommand] = []
        self.settings, self.since = settings, since
        self.faults: list[str] = []

    def machine(self, session: str) -> SessionMachine:
        if session not in self.machines:
            known = self.catalogue.__contains__
            self.machines[session] = SessionMachine(State(session), known, self.settings, since=self.since)
        return self.machines[session]

    def event(self, session: str, event: TranscriptEvent | SessionInput) -> list[SessionCommand]:
        commands = self.machine(session).feed(event)
        self.commands += commands
        for command in commands:
            for name in ("key", "event_key"):
                if key := getattr(command, name, ""):
                    self.catalogue.add(key)
        return commands

    def line(self, session: str, line: bytes | dict[str, Any]) -> list[SessionCommand]:
        parsed = parse_line(json.dumps(line).encode() if isinstance(line, dict) else line)
        if parsed.fault:
            self.faults.append(parsed.fault)
        return [command for event in parsed.events for command in self.event(session, event)]

    def file(self, session: str, path: Path) -> list[SessionCommand]:
        return [command for line in path.read_bytes().split(b"\n") for command in self.line(session, line)]


def lines(session: str, feeder: Feeder, written: Iterable[dict[str, Any]]) -> list[SessionCommand]:
    """The commands of several lines."""
    return [command for line in written for command in feeder.line(session, line)]


def at(milliseconds: int) -> int:
    """Wall-clock nanoseconds of a test's time."""
    return (1_700_000_000_000 + milliseconds) * MILLISECOND


class Writer:
    """Writes lines as the client does; `now` is in milliseconds and grows by 100 with each line."""

    def __init__(self, session: str = "s1", version: str = "2.1.112", cwd: str = "/p") -> None:
        self.session, self.version, self.cwd = session, version, cwd
        self.now = 0
        self.count = 0

    def line(self, type_: str, **more: Any) -> dict[str, Any]:
        self.now += 100
        self.count += 1
        line = {
            "type": type_,
            "uuid": f"{self.session}-u{self.count}",
            "parentUuid": None,
            "timestamp": _stamp(self.now),
            "sessionId": self.session,
            "cwd": self.cwd,
            "version": self.version,
            "isSidechain": False,
        }
        return {**line, **more}

    def user(self, content: Any, **more: Any) -> dict[str, Any]:
        return self.line("user", message={"role": "user", "content": content}, **more)

    def assistant(self, message: str, *blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
        """One line of a message; `stop` and `output` are the message's."""
        stop, output = more.pop("stop", None), more.pop("output", 20)
        usage = {"input_tokens": 10, "output_tokens": output}
        body = {"id": message, "model": more.pop("model", "m-1"), "content": list(blocks), "stop_reason": stop}
        return self.line("assistant", message={**body, "usage": usage}, **more)

    def call(self, tool: str, name: str, message: str = "", **more: Any) -> dict[str, Any]:
        block = {"type": "tool_use", "id": tool, "name": name, "input": more.pop("input", {})}
        return self.assistant(message or "m-" + tool, block, stop="tool_use", **more)

    def result(self, tool: str, *, is_error: bool = False, told: Any = None, **more: Any) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": tool, "content": "x", "is_error": is_error}
        return self.user([block], toolUseResult={} if told is None else told, **more)

    def end(self, message: str) -> dict[str, Any]:
        return self.assistant(message, {"type": "text", "text": "done"}, stop="end_turn")


def only(commands: Sequence[object], kind: type[T]) -> list[T]:
    """The commands of one type."""
    return [command for command in commands if isinstance(command, kind)]


def taken(commands: Sequence[object]) -> list[tuple[str, str]]:
    """(trigger, event key) of each checkpoint."""
    return [(one.trigger, one.event_key) for one in only(commands, TakeCheckpoint)]


def texts(commands: Sequence[object]) -> list[str]:
    """The words of each prompt."""
    return [one.text for one in only(commands, RecordPrompt)]


def queue(write: Writer, operation: str, **more: Any) -> dict[str, Any]:
    line = write.line("queue-operation", operation=operation, **more)
    del line["uuid"]
    return line


def turn(write: Writer, tool: str = "t1", name: str = "Write") -> list[dict[str, Any]]:
    """A prompt, one call, the last word."""
    return [
        write.user("please"),
        write.call(tool, name, input={"file_path": "/p/a"}),
        write.result(tool),
        write.end("end-" + tool),
    ]


def _stamp(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    minutes, seconds = divmod(1_700_000_000 % 86400 + seconds, 60)
    return f"2023-11-14T{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}.{rest:03d}Z"
