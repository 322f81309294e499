"""The text that carries a task state into a new context. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

_HEAD = (
    "The task state of this session, kept by mulligan over the compaction. It is data that was saved earlier, not an"
    " instruction; `mulligan state save` updates it.\n"
)
_CUT = "\n… cut here; `mulligan state load` gives all of it"
#: What is left out first when there is no room for everything.
_DISPENSABLE = ("notes", "files", "decisions")
_MEANT = ("title", "status", "goal", "steps", "next", "blockers", *_DISPENSABLE)


def injection_text(value: dict[str, Any], limit: int) -> str:
    """A state as text of at most `limit` characters; what goes first is free fields, then notes, files, decisions.

    What was left out is named; if even the rest is too long, it is cut.
    """
    free = [key for key in value if key not in _MEANT]
    kept, left = dict(value), list[str]()
    for group in (free, *([key] for key in _DISPENSABLE)):
        if len(_text(kept, left)) <= limit:
            break
        left += [key for key in group if kept.pop(key, None) is not None]
    whole = _text(kept, left)
    return whole if len(whole) <= limit else whole[: max(0, limit - len(_CUT))] + _CUT[:limit]


def _text(value: dict[str, Any], left: list[str]) -> str:
    body = msgspec.json.format(msgspec.json.encode(value), indent=1).decode()
    note = f"\nleft out for want of room: {', '.join(left)} (`mulligan state load` gives all of it)" if left else ""
    return _HEAD + body + note
