"""How the client reads a transcript when it resumes: the newest leaf, its ancestors, and parallel calls."""

from __future__ import annotations

import json
from typing import Any

Line = dict[str, Any]


def read(data: bytes) -> list[Line]:
    """The lines of a transcript that are objects and the main conversation's."""
    lines = []
    for raw in data.split(b"\n"):
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        if isinstance(line, dict) and not line.get("isSidechain"):
            lines.append(line)
    return lines


def leaf(lines: list[Line]) -> str:
    """The newest leaf: the last line with an id."""
    return str([line["uuid"] for line in lines if line.get("uuid")][-1])


def conversation(lines: list[Line], last: str | None) -> list[Any]:
    """(type, id, content) of what a resume sends whose newest leaf is `last`."""
    by_id = {line["uuid"]: line for line in lines if line.get("uuid")}
    chain: set[str] = set()
    while last and last in by_id and last not in chain:
        chain.add(last)
        last = by_id[last].get("parentUuid")
    messages = {_message(by_id[uuid]) for uuid in chain} - {""}
    included = [line for uuid, line in by_id.items() if uuid in chain or _message(line) in messages]
    calls = {block["id"] for line in included for block in _blocks(line) if block.get("type") == "tool_use"}
    answered = [line for line in by_id.values() if any(block.get("tool_use_id") in calls for block in _blocks(line))]
    wanted = {line["uuid"] for line in (*included, *answered)}
    return [
        (line["type"], line["uuid"], line["message"]["content"])
        for line in by_id.values()
        if line["uuid"] in wanted and line["type"] in ("user", "assistant")
    ]


def _message(line: Line) -> str:
    message = line.get("message")
    return str(message.get("id") or "") if line["type"] == "assistant" and isinstance(message, dict) else ""


def _blocks(line: Line) -> list[Any]:
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
