"""A conversation up to a point as a transcript of its own, which the client resumes: lines in, lines out.

The client takes the newest leaf of a file for the conversation, and of that leaf's ancestors alone it would lose calls
that ran beside each other. So what is kept is, in the order of the file: the ancestors of the last line, on through
compactions; every line of a message of which one line is an ancestor; the results of those calls that had arrived by
then; and the bookkeeping that a resume uses. Line ids and times stay as they are, so whoever reads both files knows the
copies for copies; each also says where it comes from, as the client's own branches do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from mulligan.clock import MILLISECOND, from_rfc3339, to_rfc3339
from mulligan.errors import RefusedError
from mulligan.transcript.parse import decode_line

#: Whose transcripts are known to resume when they are copied like this.
_VERSION = re.compile(r"(?:1\.0|2\.[01])\.\d+(?:[-+].*)?")
#: Lines without an id that a resume uses. The others are titles, queues and accounts of the old session; or they send
#: the client somewhere else (`last-prompt`, `continued-in`, `relocated`, `worktree-state`).
_USEFUL = frozenset(
    ("file-history-snapshot", "file-history-delta", "content-replacement", "mode", "permission-mode", "agent-setting")
)
#: The key of a prompt whose line has no id: words that were taken into a running turn.
_NO_LINE = re.compile(r"[0-9a-f]{24}")
#: What `-p` writes; such sessions are not offered to a person who looks for one to resume.
_HEADLESS, _INTERACTIVE = "sdk-cli", "cli"
_NO_TIME = "1970-01-01T00:00:00.000Z"
_AGAIN = "the files can be had without the conversation"


class Point(msgspec.Struct, frozen=True):
    """Where a conversation ends. Of what is given the first decides.

    `before`: the key of the prompt that would come next. `at`: the id of the last line. `moment`: nothing that was
    written later, in wall-clock nanoseconds; also decides for a prompt that has no line of its own.
    """

    before: str = ""
    at: str = ""
    moment: int | None = None


class Copy(msgspec.Struct, frozen=True):
    """A copied conversation; without `messages` there is nothing to resume. `last` is the time of its last line."""

    lines: tuple[bytes, ...] = ()
    messages: int = 0
    last: int = 0

    @property
    def data(self) -> bytes:
        """The file's bytes."""
        return b"".join(line + b"\n" for line in self.lines)


class Naming(msgspec.Struct, frozen=True):
    """What a copy is to be: the session it comes from, its own, its title, and where its directory lies instead."""

    old: str
    new: str
    title: str
    moved_from: str = ""
    moved_to: str = ""


class _Line(msgspec.Struct):
    """What decides about a line. `links` lead on over a compaction; `about` is the line that bookkeeping belongs to."""

    number: int
    raw: bytes
    type: str
    uuid: str
    parent: str
    message: str
    is_result: bool
    time: int | None
    version: str
    links: tuple[str, ...]
    about: str
    retracted: tuple[str, ...]


def copy_conversation(data: bytes, point: Point, naming: Naming) -> Copy:
    """The copy of a transcript's whole lines up to a point; raises RefusedError with the reason if it cannot be made.

    Refused are files of unknown versions, a point that is not in the file, and a conversation of which a part is
    missing.
    """
    return _Transcript(data).copy(point, naming)


class _Transcript:
    """The lines of one file. Those of subagents, and what is no line of a transcript, are left out."""

    def __init__(self, data: bytes) -> None:
        self.lines: list[_Line] = []
        self.by_uuid: dict[str, _Line] = {}
        self._parents: dict[str, str] = {}
        self._retracted: set[str] = set()
        for number, raw in enumerate(data.split(b"\n")[:-1]):
            line = _read(number, raw)
            if line is None or line.uuid in self.by_uuid:
                continue
            self.lines.append(line)
            self._retracted.update(line.retracted)
            if line.uuid:
                self.by_uuid[line.uuid] = line

    def copy(self, point: Point, naming: Naming) -> Copy:
        """See `copy_conversation`."""
        last, end = self._end(point)
        if last is None:
            return Copy()
        branch = self._branch(last)
        kept = self._with_parallel(branch, last)
        lines = [line for line in self.lines if line.uuid in kept or self._is_useful(line, kept, end)]
        messages = [line for line in lines if line.uuid and line.type in ("user", "assistant")]
        if not messages:
            return Copy()
        _require_known({line.version for line in lines if line.version})
        title = {"type": "custom-title", "customTitle": naming.title, "sessionId": naming.new}
        rewritten = [*self._rewritten(lines, kept, last, naming), json.dumps(title, separators=(",", ":")).encode()]
        return Copy(tuple(rewritten), len(messages), max((line.time or 0 for line in messages), default=0))

    def _end(self, point: Point) -> tuple[_Line | None, int]:
        """(the last line, the number of the first that is not wanted); no line if nothing was said before."""
        if point.before and (point.before in self.by_uuid or not _NO_LINE.fullmatch(point.before)):
            prompt = self._line(point.before)
            parent = self._parent(prompt)
            return (self.by_uuid[parent] if parent else None), prompt.number
        if point.at:
            found = self._line(point.at)
            return found, found.number + 1
        early = [line for line in self.by_uuid.values() if point.moment is None or (line.time or 0) <= point.moment]
        return (early[-1], early[-1].number + 1) if early else (None, 0)

    def _line(self, uuid: str) -> _Line:
        found = self.by_uuid.get(uuid)
        if found is None:
            raise RefusedError("its transcript is incomplete: the line of this position is not in it", hint=_AGAIN)
        return found

    def _parent(self, line: _Line) -> str:
        """The line before one; "" at the beginning. A retracted one was cut out of the file: then what stood before."""
        if not line.parent or line.parent in self.by_uuid:
            return line.parent
        if line.parent in self._retracted:
            before = [other.uuid for other in self.by_uuid.values() if other.number < line.number]
            return before[-1] if before else ""
        raise RefusedError("its transcript is incomplete: a line of the conversation is missing", hint=_AGAIN)

    def _branch(self, last: _Line) -> set[str]:
        """The last line and its ancestors, on through compactions."""
        branch: set[str] = set()
        waiting = [last.uuid]
        while waiting:
            line = self.by_uuid[waiting.pop()]
            if line.uuid in branch:
                continue
            branch.add(line.uuid)
            self._parents[line.uuid] = self._parent(line)
            before = (self._parents[line.uuid], *(link for link in line.links if link in self.by_uuid))
            waiting += [uuid for uuid in before if uuid]
        return branch

    def _with_parallel(self, branch: set[str], last: _Line) -> set[str]:
        """The branch with the other lines of its messages, and the results that had arrived when the last line had."""
        messages = {self.by_uuid[uuid].message for uuid in branch} - {""}
        kept = branch | {uuid for uuid, line in self.by_uuid.items() if line.message in messages}
        for uuid, line in self.by_uuid.items():
            if line.is_result and line.parent in kept and (line.number < last.number or _not_after(line, last)):
                kept.add(uuid)
        return kept

    @staticmethod
    def _is_useful(line: _Line, kept: set[str], end: int) -> bool:
        return not line.uuid and line.number < end and line.type in _USEFUL and (not line.about or line.about in kept)

    def _rewritten(self, lines: list[_Line], kept: set[str], last: _Line, naming: Naming) -> Iterator[bytes]:
        """The lines as those of the new session. Values that do not change keep their bytes.

        Clients go on from the newest line, so nothing is left as new as the last one.
        """
        time = _NO_TIME
        newest = max((line.time or 0 for line in lines if line is not last), default=0)
        for line in lines:
            fields = _fields(line.raw)
            if "sessionId" in fields or line.uuid:
                fields["sessionId"] = naming.new
            if line.uuid:
                parent = self._kept_parent(line, kept)
                if parent != line.parent:
                    fields["parentUuid"] = parent or None
                if line is last and newest >= (line.time or 0) > 0:
                    fields["timestamp"] = to_rfc3339(newest + MILLISECOND)
                elif line.time is None:
                    fields["timestamp"] = time
                if not isinstance(_value(fields.get("forkedFrom")), dict):
                    fields["forkedFrom"] = {"sessionId": naming.old, "messageUuid": line.uuid}
            if _value(fields.get("entrypoint")) == _HEADLESS:
                fields["entrypoint"] = _INTERACTIVE
            if (cwd := _moved(_value(fields.get("cwd")), naming)) is not None:
                fields["cwd"] = cwd
            if line.uuid and line.time is not None:
                time = str(_value(fields["timestamp"]))
            yield _encoded(fields)

    def _kept_parent(self, line: _Line, kept: set[str]) -> str:
        """The nearest line before one that is in the copy."""
        parent = self._parents.get(line.uuid, line.parent)
        passed = {line.uuid}
        while parent and parent not in kept and parent not in passed and parent in self.by_uuid:
            passed.add(parent)
            parent = self.by_uuid[parent].parent
        return parent if parent in kept else ""


def _not_after(line: _Line, last: _Line) -> bool:
    """Whether a line that stands further down was written earlier: lines of calls beside each other are mixed."""
    return line.time is not None and last.time is not None and line.time <= last.time


def _require_known(versions: set[str]) -> None:
    unknown = sorted(version for version in versions if not _VERSION.fullmatch(version))
    if unknown or not versions:
        said = f"version {unknown[0][:40]}" if unknown else "a version that it does not name"
        raise RefusedError(f"its transcript was written by {said} of the client, which is not known", hint=_AGAIN)


def _read(number: int, raw: bytes) -> _Line | None:
    """What there is to know of a line; None for one that is not the main conversation's, or no line at all."""
    try:
        data = decode_line(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("isSidechain") is True or _text(data, "agentId"):
        return None
    message = _object(data, "message")
    blocks = message.get("content")
    compact = _object(data, "compactMetadata")
    preserved = _object(compact, "preservedMessages").get("uuids")
    links = [_text(data, "logicalParentUuid"), _text(_object(compact, "preservedSegment"), "tailUuid")]
    return _Line(
        number=number,
        raw=raw,
        type=_text(data, "type"),
        uuid=_text(data, "uuid"),
        parent=_text(data, "parentUuid"),
        message=_text(message, "id") if data.get("type") == "assistant" else "",
        is_result=isinstance(blocks, list)
        and any(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks),
        time=_time(data.get("timestamp")),
        version=_text(data, "version"),
        links=tuple(dict.fromkeys([*links, *_texts(preserved)])),
        about=_text(data, "messageId"),
        retracted=tuple(_texts(data.get("retractedMessageUuids"))),
    )


def _text(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _object(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _time(value: Any) -> int | None:
    try:
        return from_rfc3339(value) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


def _moved(cwd: Any, naming: Naming) -> str | None:
    """A working directory below the old one, in the new one; None if it stays as it is."""
    if not naming.moved_to or not isinstance(cwd, str):
        return None
    below = cwd == naming.moved_from or cwd.startswith(naming.moved_from.rstrip("/") + "/")
    return naming.moved_to + cwd[len(naming.moved_from) :] if below else None


def _fields(raw: bytes) -> dict[str, Any]:
    """The members of a line's object, their values undecoded where that is possible."""
    try:
        return msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return dict(decode_line(raw))


def _value(field: Any) -> Any:
    return decode_line(bytes(field)) if isinstance(field, msgspec.Raw) else field


def _encoded(fields: dict[str, Any]) -> bytes:
    if any(isinstance(value, msgspec.Raw) for value in fields.values()):
        return msgspec.json.encode(fields)
    return json.dumps(fields, separators=(",", ":")).encode()
