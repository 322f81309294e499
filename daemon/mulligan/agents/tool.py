"""A tool as agents see it, and how much of an answer they get: context is dear, so every answer is bounded. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mulligan.agents.seat import Seat
from mulligan.errors import UsageError

JsonObject = dict[str, Any]
#: Characters of JSON that the list of one answer may have, and those of one text in it.
ANSWER_CHARACTERS = 12_000
TEXT_CHARACTERS = 300


@dataclass(frozen=True)
class Tool:
    """Name, description, parameters (JSON Schemas), what is done; a destructive one changes what others made, too."""

    name: str
    description: str
    run: Callable[[Seat, JsonObject], JsonObject]
    parameters: JsonObject = field(default_factory=dict)
    required: Sequence[str] = ()
    read_only: bool = True
    destructive: bool = False

    @property
    def schema(self) -> JsonObject:
        """The JSON Schema of the arguments."""
        return {
            "type": "object",
            "properties": self.parameters,
            "required": list(self.required),
            "additionalProperties": False,
        }


def text(description: str, **more: Any) -> JsonObject:
    """The schema of a text."""
    return {"type": "string", "description": description, "maxLength": 4096, **more}


def texts(description: str) -> JsonObject:
    """The schema of a list of texts."""
    return {"type": "array", "items": {"type": "string"}, "description": description, "maxItems": 1000}


def flag(description: str) -> JsonObject:
    """The schema of a yes or no; the default is no."""
    return {"type": "boolean", "description": description, "default": False}


def paging(what: str, usual: int, most: int) -> JsonObject:
    """The parameters `limit` and `cursor` of a tool whose answer has pages."""
    limit = {"type": "integer", "minimum": 1, "maximum": most, "default": usual}
    return {
        "limit": {**limit, "description": f"{what} in this answer"},
        "cursor": text("next_cursor of the answer before, for what follows"),
    }


PROJECT_POSITION = (
    "a checkpoint: its number, id, @ (where the project stands), @~2, latest; an age (10m) or a time;"
    " prompt:-1 for just before the last prompt; row:N as file_history names versions"
)


def cut(words: Any, most: int = TEXT_CHARACTERS) -> str:
    """A text, or its beginning."""
    whole = str(words)
    return whole if len(whole) <= most else whole[: most - 1] + "…"


def size(value: Any) -> int:
    """Characters of a value as JSON."""
    return len(json.dumps(value, ensure_ascii=False))


def offset(arguments: JsonObject) -> int:
    """Where a page begins. Raises UsageError for a cursor that no answer gave."""
    cursor = str(arguments.get("cursor") or "0")
    if not cursor.isdecimal() or len(cursor) > 9:
        raise UsageError(f'"{cut(cursor, 80)}" is no cursor', hint="give next_cursor of the answer before, or none")
    return int(cursor)


def page(name: str, items: Sequence[Any], arguments: JsonObject, usual: int, start: int | None = None) -> JsonObject:
    """One page of a list as `name`, `next_cursor` (null at the end) and `total`; at least one item if there is one.

    `start`: the first item's place, if `cursor` says it otherwise.
    """
    first = offset(arguments) if start is None else start
    last, room = first, ANSWER_CHARACTERS
    for item in items[first : first + int(arguments.get("limit", usual))]:
        room -= size(item)
        if room < 0 and last > first:
            break
        last += 1
    return {name: list(items[first:last]), "total": len(items), "next_cursor": str(last) if last < len(items) else None}


def shortened(values: Sequence[Any], most: int = 20) -> list[Any]:
    """The first of some values, and a word on how many are left out."""
    rest = len(values) - most
    return [*values[:most], f"… and {rest} more"] if rest > 0 else list(values)


def without_nothing(value: JsonObject) -> JsonObject:
    """An object without keys that say nothing: null, false, empty."""
    return {
        key: inner
        for key, inner in value.items()
        if inner is not None and inner is not False and inner not in ("", [], {})
    }


def as_text(value: Any, indent: str = "") -> str:
    """A value in few words, for clients that show text: a line for each key or item."""
    if isinstance(value, dict):
        lines = [_line(f"{indent}{key}:", inner, indent) for key, inner in value.items() if inner is not None]
        return "\n".join(lines)
    if isinstance(value, list):
        return "\n".join(_line(f"{indent}-", inner, indent) for inner in value)
    return f"{indent}{value}"


def _line(head: str, inner: Any, indent: str) -> str:
    if isinstance(inner, dict) and head.endswith("-"):
        told = {key: _flat(one) for key, one in inner.items() if one is not None}
        words = ", ".join(f"{key} {one}" for key, one in told.items() if "\n" not in one)
        return f"{head} {words}" + "".join(f"\n{one}" for one in told.values() if "\n" in one)
    if isinstance(inner, dict | list) and inner:
        return f"{head}\n{as_text(inner, indent + '  ')}"
    if isinstance(inner, str) and "\n" in inner:
        return f"{head}\n{inner}"
    return f"{head} {_flat(inner)}"


def _flat(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
