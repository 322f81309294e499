"""Recognises the task state that checkpoint-orchestrator 1.x kept in a project, and turns it into one of ours. Pure.

That plugin for OpenCode writes `.opencode/state/checkpoint.json` and a history of ten beside it. What has another shape
is somebody else's, whatever its name is, and is left alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

#: Below the root of a project.
DIRECTORY = b".opencode/state"
FILE, HISTORY = b"checkpoint.json", b"checkpoint-history.json"
#: A larger file is not that plugin's: it cuts what it stores to less.
MOST_BYTES = 16 << 20
_STATUSES = {"not_started": "active", "in_progress": "active", "blocked": "blocked", "done": "done"}
_SHOWN = 200
#: What a title of ours may have.
_TITLE = 2000


class _Task(msgspec.Struct, rename="camel"):
    title: str | None = None
    objective: str | None = None
    status: Literal["not_started", "in_progress", "blocked", "done"] | None = None


class _Checkpoint(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """`CheckpointData` of 1.x: version 1 of the schema, and 2."""

    version: Literal[1, 2]
    updated_at: str
    task: _Task | None = None
    summary: str | None = None
    current_plan: list[str] | None = None
    completed_steps: list[str] | None = None
    next_steps: list[str] | None = None
    blockers: list[str] | None = None
    files_touched: list[str] | None = None
    notes: list[str] | None = None


class _Snapshot(msgspec.Struct, rename="camel"):
    name: str
    saved_at: str
    data: _Checkpoint


class _History(msgspec.Struct, forbid_unknown_fields=True):
    snapshots: list[_Snapshot]


class Legacy(msgspec.Struct, frozen=True):
    """A recognised state: `value` is a task state of ours, `hash` names the bytes that it was read from."""

    value: dict[str, Any]
    hash: str


class ForeignError(Exception):
    """The bytes are not that plugin's; the message says why, in words for a person."""


def recognise(data: bytes) -> Legacy:
    """The state in the bytes of a `checkpoint.json`. Raises ForeignError."""
    found = _decoded(data, _Checkpoint)
    if found.task is None and found.summary is None and found.current_plan is None:
        raise ForeignError("it has neither a task nor a summary nor a plan")
    return Legacy(_converted(found), hashlib.sha256(data).hexdigest())


def history(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    """(name, state) of the snapshots in the bytes of a `checkpoint-history.json`, oldest first. Raises ForeignError."""
    return [(entry.name, _converted(entry.data)) for entry in _decoded(data, _History).snapshots]


def _decoded(data: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise ForeignError(f"its shape is another one: {str(error)[:_SHOWN]}") from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ForeignError(f"it is not JSON: {str(error)[:_SHOWN]}") from error


def _converted(found: _Checkpoint) -> dict[str, Any]:
    """The fields under our names. What 1.x has no word for is not made up; what we have none for stays a free field."""
    task = found.task or _Task()
    value = {
        "title": task.title[:_TITLE] if task.title else None,
        "status": _STATUSES[task.status] if task.status else None,
        "goal": task.objective,
        "steps": list(_steps(found)),
        "next": found.next_steps,
        "blockers": found.blockers,
        "files": found.files_touched,
        "notes": found.notes,
        "summary": found.summary,
        "plan": found.current_plan,
        "whole_title": task.title if task.title and len(task.title) > _TITLE else None,
    }
    return {key: inner for key, inner in value.items() if inner}


def _steps(found: _Checkpoint) -> Iterator[dict[str, str]]:
    """What was done, then what is next; the ids say which list they are of."""
    for prefix, status, texts in (("done", "done", found.completed_steps), ("next", "pending", found.next_steps)):
        for number, text in enumerate(texts or (), 1):
            yield {"id": f"legacy-{prefix}-{number}", "text": text, "status": status}
