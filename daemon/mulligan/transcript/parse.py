"""One line of a transcript becomes events; nothing that a line can hold makes this raise.

Written for the client's versions 1.0.60 to 2.1.332. What fits nothing known is named in `Parsed.fault` and passed over.
Of a user line the first kind that fits decides (`_user` tests them in order), because the same text means different
things in a result, a summary and a prompt.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mulligan.clock import from_rfc3339
from mulligan.transcript.events import (
    BackgroundEnded,
    CallFinished,
    CallStarted,
    Command,
    CommandOutput,
    Compacted,
    HarnessNote,
    Interrupted,
    Parsed,
    Prompt,
    PromptKind,
    Queued,
    QueueOperation,
    TranscriptEvent,
    TurnEnded,
    Usage,
)

NOT_JSON = "not json"
NOT_AN_OBJECT = "not an object"
TOO_DEEP = "nested too deeply"
UNKNOWN_TYPE = "unknown type"
WRONG_SHAPE = "wrong shape"

_SILENT_TYPES_NAMES = """
    summary file-history-snapshot file-history-delta progress last-prompt custom-title agent-name ai-title tag pr-link
    mode permission-mode worktree-state relocated api-request api-request-shape api-request-blob atis-latch tools-used
    cost-state attribution-snapshot content-replacement fork-context-ref history-suppression derived-from continued-in
    observer-ref frame-link bridge-session isolation-latch session-owner dev-mods memory-mode data-flow-records
    agent-color agent-setting ended-by-model resume-head-vouch repl-mode hybrid-organization
"""
#: Types of lines that say nothing about prompts, calls or tokens. A progress line may hold a copy of a subagent's
#: message; the subagent's own file has the original.
SILENT_TYPES = frozenset(_SILENT_TYPES_NAMES.split())
#: Reasons to stop after which the model says nothing more. "max_tokens" is not one: the client lets it go on.
END_REASONS = frozenset({"end_turn", "stop_sequence", "refusal"})
SYNTHETIC = "<synthetic>"

_INJECTED = ("<task-notification>", "<system-reminder>", "<teammate-message>")
_INTERRUPTED = "[Request interrupted by user"
_BASH_INPUT = re.compile(r"<bash-input>(.*?)(?:</bash-input>|\Z)", re.DOTALL)
_BASH_OUTPUT = ("<bash-stdout>", "<bash-stderr>")
_COMMAND = ("<command-name>", "<command-message>")
_COMMAND_NAME = re.compile(r"<command-name>\s*(.*?)\s*</command-name>", re.DOTALL)
_COMMAND_ARGS = re.compile(r"<command-args>\s*(.*?)\s*</command-args>", re.DOTALL)
_COMMAND_OUTPUT = ("<local-command-stdout>", "<local-command-stderr>", "<local-command-caveat>")
_CAVEAT = ("<local-command-caveat>", "Caveat: The messages below")
_CONTEXT = re.compile(r"\s*<(ide_opened_file|ide_selection)>.*?</\1>\s*", re.DOTALL)
_NO_TURN = re.compile(r"Unknown (?:slash command|skill): \S+\s*\Z|Operation stopped by hook: ")
_TASK_TOOL = re.compile(r"<tool-use-id>\s*([\w-]+)\s*</tool-use-id>")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_PATH_KEYS = ("file_path", "filePath", "notebook_path", "path", "filename", "source", "destination")
_PATHS_KEYS = ("paths", "files")


def parse_line(line: bytes) -> Parsed:
    """The events of a line without its newline; an empty line has none and is no fault."""
    if not line.strip():
        return Parsed()
    try:
        data = decode_line(line)
    except RecursionError:
        return Parsed(fault=TOO_DEEP)
    except (msgspec.DecodeError, ValueError):
        return Parsed(fault=NOT_JSON)
    if not isinstance(data, dict):
        return Parsed(fault=NOT_AN_OBJECT)
    return _Reader(data).read()


def decode_line(line: bytes) -> Any:
    """The JSON of a line. Raises ValueError, msgspec.DecodeError, RecursionError."""
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return json.loads(line)  # msgspec refuses lone surrogates, which a client that cut a string does write


def _clean(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
    return text


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    return _clean(value) if isinstance(value, str) else ""


def _count(data: Mapping[str, Any], key: str) -> int:
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def _object(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _time(value: Any) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        time = from_rfc3339(value)
    except (ValueError, OverflowError):
        return None
    return time if time >= 0 else None


def _paths(values: list[Any], cwd: str) -> tuple[bytes, ...]:
    """Absolute, normal paths of the strings among `values`; what cannot be a path is dropped."""
    found: dict[bytes, None] = {}
    for value in values:
        if not isinstance(value, str) or not value or "\0" in value or len(value) > 4096:
            continue
        path = posixpath.normpath(posixpath.join(cwd, value))
        if path.startswith("/"):
            found[b"/" + _clean(path).lstrip("/").encode()] = None
    return tuple(found)


def input_paths(arguments: Mapping[str, Any], cwd: str) -> tuple[bytes, ...]:
    """Absolute, normal paths that a tool's input names."""
    return _paths(_input_paths(arguments), cwd)


def _input_paths(data: Mapping[str, Any]) -> list[Any]:
    values = [data[key] for key in _PATH_KEYS if key in data]
    for key in _PATHS_KEYS:
        if isinstance(data.get(key), list):
            values += data[key][:64]
    return values


def _result_paths(result: Any) -> list[Any]:
    """The files that a result says were written: by the tool itself, or while a command ran."""
    if not isinstance(result, dict):
        return []
    values = [result.get("filePath"), result.get("notebook_path")]
    changed = _object(result, "bashEditDiff")
    values += [block.get("filePath") for block in _blocks(changed.get("files"))]
    if isinstance(names := changed.get("changedFiles"), list):
        values += names[:1000]
    return values


def _result_kind(result: Any) -> str:
    """The tool that answers in this shape: the only name there is, if the call's own line was never seen."""
    if not isinstance(result, dict):
        return ""
    shapes = {
        "stdout": "Bash",
        "edits": "MultiEdit",
        "oldString": "Edit",
        "notebook_path": "NotebookEdit",
        "file": "Read",
    }
    for key, name in shapes.items():
        if key in result:
            return name
    return "Write" if result.get("type") in ("create", "update") and "filePath" in result else ""


class _Reader:
    """Reads one decoded line."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.type = _text(data, "type")
        self.agent = data.get("isSidechain") is True or bool(_text(data, "agentId"))
        self.fault = ""
        cwd = _text(data, "cwd")
        self.line: dict[str, Any] = {
            "uuid": _text(data, "uuid"),
            "parent": _text(data, "parentUuid"),
            "session": _text(data, "sessionId"),
            "time": _time(data.get("timestamp")),
            "cwd": cwd if cwd.startswith("/") and "\0" not in cwd else "",
            "version": _text(data, "version"),
            "branch": _text(data, "gitBranch"),
            "agent": self.agent,
            "replayed": isinstance(data.get("forkedFrom"), dict),
        }

    def read(self) -> Parsed:
        readers = {
            "user": self._user,
            "assistant": self._assistant,
            "system": self._system,
            "queue-operation": self._queue,
            "attachment": self._attachment,
        }
        if reader := readers.get(self.type):
            events = tuple(reader())
            return Parsed(events, self.fault)
        known = self.type in SILENT_TYPES or self.type.startswith("artifact-")
        return Parsed(fault="" if known else UNKNOWN_TYPE if self.type else WRONG_SHAPE)

    def _key(self, *parts: str) -> str:
        """The line's uuid; for a line that has none, a digest that the same line always has."""
        if uuid := self.line["uuid"]:
            return str(uuid)
        said = "\0".join((self.line["session"], str(self.line["time"]), *parts))
        return hashlib.blake2b(said.encode(), digest_size=12).hexdigest()

    # -- user ---------------------------------------------------------------------------------------------------------

    def _user(self) -> Iterator[TranscriptEvent]:
        message = self.data.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, str | list):
            self.fault = WRONG_SHAPE
            return
        blocks = _blocks(content)
        results = [block for block in blocks if block.get("type") == "tool_result"]
        if results:
            yield from self._results(results)
        elif self.agent or self.data.get("isCompactSummary") is True:
            return
        elif self.data.get("isMeta") is True:
            text = content if isinstance(content, str) else self._joined(blocks)
            yield HarnessNote(**self.line, caveat=text.startswith(_CAVEAT))
        elif self.data.get("isVisibleInTranscriptOnly") is not True:
            yield from self._words(content, blocks)

    def _results(self, results: list[dict[str, Any]]) -> Iterator[TranscriptEvent]:
        told = self.data.get("toolUseResult") if len(results) == 1 else None
        paths = _paths(_result_paths(told), self.line["cwd"])
        background = isinstance(told, dict) and (bool(told.get("backgroundTaskId")) or told.get("isAsync") is True)
        for block in results:
            if tool := _text(block, "tool_use_id"):
                yield CallFinished(
                    **self.line,
                    tool=tool,
                    is_error=block.get("is_error") is True,
                    paths=paths,
                    kind=_result_kind(told),
                    background=background,
                )
            else:
                self.fault = WRONG_SHAPE

    @staticmethod
    def _joined(blocks: list[dict[str, Any]]) -> str:
        return "\n".join(text for block in blocks if block.get("type") == "text" and (text := _text(block, "text")))

    def _words(self, content: str | list[Any], blocks: list[dict[str, Any]]) -> Iterator[TranscriptEvent]:
        """A line that is neither result nor note: a person's words, or something dressed up as such."""
        text = _clean(content) if isinstance(content, str) else self._joined(blocks)
        pictures = any(block.get("type") in ("image", "document") for block in blocks)
        kind = _object(self.data, "origin").get("kind")
        injected = (isinstance(kind, str) and kind != "human") or self.data.get("promptSource") == "system"
        if injected or text.startswith(_INJECTED):
            yield from self._notification(text)
        elif text.startswith(_INTERRUPTED):
            yield Interrupted(**self.line)
        elif found := _BASH_INPUT.match(text):
            yield Prompt(**self.line, kind=PromptKind.BASH, key=self._key(text), text=found[1])
        elif text.startswith(_BASH_OUTPUT):
            return
        elif text.startswith(_COMMAND):
            name, args = _COMMAND_NAME.search(text), _COMMAND_ARGS.search(text)
            words = " ".join(part for part in (name[1] if name else "", args[1] if args else "") if part)
            yield Command(**self.line, key=self._key(text), name=name[1] if name else "", text=words)
        elif text.startswith(_COMMAND_OUTPUT):
            yield CommandOutput(**self.line)
        else:
            words = self._without_context(text)
            if (words or pictures) and not _NO_TURN.match(words):
                yield Prompt(**self.line, kind=PromptKind.TYPED, key=self._key(text), text=words)

    @staticmethod
    def _without_context(text: str) -> str:
        """What is left when the editor's own words in front of it are taken away."""
        while found := _CONTEXT.match(text):
            text = text[found.end() :]
        return text

    def _notification(self, text: str) -> Iterator[TranscriptEvent]:
        if text.startswith("<task-notification>") and (found := _TASK_TOOL.search(text)):
            yield BackgroundEnded(**self.line, tool=found[1])

    # -- everything else ----------------------------------------------------------------------------------------------

    def _assistant(self) -> Iterator[TranscriptEvent]:
        message = self.data.get("message")
        if not isinstance(message, dict):
            self.fault = WRONG_SHAPE
            return
        identity = _text(message, "id") or _text(self.data, "requestId") or self._key()
        model, usage = _text(message, "model"), message.get("usage")
        if isinstance(usage, dict) and model != SYNTHETIC:
            yield Usage(
                **self.line,
                message=identity,
                model=model,
                input=_count(usage, "input_tokens"),
                output=_count(usage, "output_tokens"),
                cache_creation=_count(usage, "cache_creation_input_tokens"),
                cache_read=_count(usage, "cache_read_input_tokens"),
            )
        for block in _blocks(message.get("content")):
            if block.get("type") == "tool_use":
                yield from self._call(block)
        if not self.agent and message.get("stop_reason") in tuple(END_REASONS):
            yield TurnEnded(**self.line, key=identity, final=False)

    def _call(self, block: dict[str, Any]) -> Iterator[TranscriptEvent]:
        tool, name, arguments = _text(block, "id"), _text(block, "name"), _object(block, "input")
        if not tool or not name:
            self.fault = WRONG_SHAPE
            return
        paths = input_paths(arguments, self.line["cwd"])
        command = _text(arguments, "command")
        yield CallStarted(**self.line, tool=tool, name=name, paths=paths, command=command)

    def _system(self) -> Iterator[TranscriptEvent]:
        subtype = _text(self.data, "subtype")
        if self.agent:
            return
        if subtype in ("turn_duration", "stop_hook_summary"):
            yield TurnEnded(**self.line, key=self._key(subtype), final=True)
        elif subtype == "compact_boundary":
            trigger = _text(_object(self.data, "compactMetadata"), "trigger")
            yield Compacted(**self.line, trigger=trigger, before=_text(self.data, "logicalParentUuid"))
        elif subtype == "local_command":
            yield CommandOutput(**self.line)

    def _queue(self) -> Iterator[TranscriptEvent]:
        content = self.data.get("content")
        text = _clean(content) if isinstance(content, str) else self._joined(_blocks(content))
        if text.startswith(_INJECTED):
            yield from self._notification(text)
            text = ""  # it takes a place in the queue, but nobody said it
        try:
            operation = QueueOperation(_text(self.data, "operation"))
        except ValueError:
            self.fault = UNKNOWN_TYPE
            return
        key = self._key(operation, text)
        yield Queued(**self.line, operation=operation, key=key, text=text, reason=_text(self.data, "reason"))

    def _attachment(self) -> Iterator[TranscriptEvent]:
        attachment = _object(self.data, "attachment")
        if attachment.get("type") != "queued_command" or self.agent:
            return
        prompt = attachment.get("prompt")
        text = _clean(prompt) if isinstance(prompt, str) else self._joined(_blocks(prompt))
        kinds = (_object(attachment, "origin").get("kind"), _object(self.data, "origin").get("kind"))
        foreign = any(isinstance(kind, str) and kind != "human" for kind in kinds)
        if foreign or attachment.get("commandMode") == "task-notification" or text.startswith(_INJECTED):
            yield from self._notification(text)
        elif text or isinstance(prompt, list):
            yield Prompt(**self.line, kind=PromptKind.QUEUED, key=self._key(text), text=text)
