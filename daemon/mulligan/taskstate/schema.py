"""What a task state may hold. Pure: values in, the same values or a UsageError that names the key out.

The fields below have a meaning to mulligan; every other key is free, and kept as it is.
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mulligan.errors import UsageError

#: A whole state, as JSON in UTF-8.
MOST_BYTES = 256 * 1024
_MOST_DEPTH = 32
STATUSES = ("active", "blocked", "done", "abandoned")
KINDS = ("named", "pre_restore", "auto")
#: What counts as done among the steps.
_DONE = ("done", "completed")
#: How the ids of projects' own sessions begin.
MANUAL = "manual-"
#: Snapshots that are made without being asked for are named so, with their time.
RESERVED = {"pre_restore": "pre-restore-", "auto": "auto-"}
_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,120}\Z")
_Line = Annotated[str, Meta(max_length=2000)]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the task; its `id` is what later saves name it by."""

    id: Annotated[str, Meta(min_length=1, max_length=200)] | int
    text: str = ""
    status: Annotated[str, Meta(max_length=40)] = "pending"


class KnownFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields with a meaning, all optional."""

    title: _Line = ""
    status: Literal["active", "blocked", "done", "abandoned"] = "active"
    goal: str = ""
    steps: tuple[Step, ...] = ()
    next: str | list[str] = ""
    blockers: tuple[str | dict[str, Any], ...] = ()
    decisions: tuple[str | dict[str, Any], ...] = ()
    files: tuple[str | dict[str, Any], ...] = ()
    notes: str | list[Any] | dict[str, Any] = ""


def check(value: dict[str, Any]) -> KnownFields:
    """The fields with a meaning of a whole state. Raises UsageError for what does not fit or is too large."""
    require_shallow(value)
    try:
        known = msgspec.convert(value, KnownFields)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`")
        raise UsageError(
            f"the state's {key or 'fields'}: {reason[:1].lower()}{reason[1:]}",
            hint=f"status is one of {', '.join(STATUSES)}; a step is an object with id, text and status",
            key=key,
        ) from error
    size = len(encode(value).encode())
    if size > MOST_BYTES:
        raise UsageError(
            f"the state would be {size:,} bytes; it may be {MOST_BYTES:,}",
            hint="keep long texts in files and name these, or delete a field by saving it as null",
            bytes=size,
            limit=MOST_BYTES,
        )
    return known


def require_shallow(value: object) -> None:
    """Raises UsageError for what is nested more deeply than anything that a person would write."""
    level = [value]
    for _ in range(_MOST_DEPTH):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise UsageError(f"the state is nested more than {_MOST_DEPTH} deep", hint="make it flatter")


def check_name(name: str, kind: str = "named") -> str:
    """A snapshot's name. Raises UsageError for one that is empty, too long, unprintable or kept for mulligan's own."""
    if not _NAME.match(name) or name != name.strip():
        raise UsageError(
            f"a snapshot cannot be named {name[:60]!a}", hint="give 1 to 120 characters, all of them printable"
        )
    if kind == "named" and name.startswith(tuple(RESERVED.values())):
        raise UsageError(
            f'"{name}" is a name that mulligan gives', hint="names that begin with pre-restore- and auto- are its own"
        )
    return name


def encode(value: dict[str, Any]) -> str:
    """A state as the JSON that is stored; keys stay in their order. Raises UsageError for what JSON cannot hold."""
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, OverflowError, TypeError, msgspec.EncodeError) as error:
        raise UsageError(f"the state is not JSON: {error}", hint="numbers of up to 64 bits, and valid text") from error


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two states say the same, in whatever order their keys stand."""
    return digest(one) == digest(other)


def digest(value: dict[str, Any]) -> str:
    """SHA-256 of what a state says, in whatever order its keys stand (hexadecimal)."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def manual_session(root: bytes) -> str:
    """The session of what a person keeps for a project in which no agent works."""
    return MANUAL + hashlib.sha256(root).hexdigest()[:16]


def count_steps(known: KnownFields) -> dict[str, int]:
    """{total, done, and each other status: how many}."""
    counts = {"total": len(known.steps), "done": 0}
    for step in known.steps:
        status = "done" if step.status in _DONE else step.status
        if status != "total":
            counts[status] = counts.get(status, 0) + 1
    return counts
