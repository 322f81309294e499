"""Who made a version or a line, and how sure that is, in a few words."""

from __future__ import annotations

from typing import Any

from mulligan.client.render.amounts import ago
from mulligan.client.render.text import cut, visible
from mulligan.session_ids import short_session

#: Cells of a prompt beside a version or a line; fewer if there is a doubt, which is the last to be cut off.
PROMPT_SHOWN, LESS_SHOWN = 28, 16
#: Characters of a session's id.
_NO_CALL = {"nobody": "no agent's call", "gap": "while nobody watched", "restored": "brought back"}


def is_known(item: dict[str, Any]) -> bool:
    """Whether a call of a session is behind it."""
    return bool(item.get("session_id"))


def who(item: dict[str, Any]) -> str:
    """`9f3c21aa Edit`, `before mulligan`, `no agent's call`."""
    if not is_known(item):
        grade = str(item.get("grade") or "nobody")
        return visible(_NO_CALL.get(grade, grade))
    return visible(f"{short_session(str(item['session_id']))} {item.get('tool') or '?'}")


def prompt(item: dict[str, Any]) -> str:
    """The prompt that led to it, in quotes; nothing if none did."""
    text = " ".join(str(item.get("prompt") or "").split())
    return f'"{cut(visible(text), LESS_SHOWN if doubt(item) else PROMPT_SHOWN)}"' if text else ""


def doubt(item: dict[str, Any]) -> str:
    """`one of 2 calls` where others could have done it as well, `unguarded` where its hook could not wait."""
    grade = str(item.get("grade") or "")
    if not is_known(item):
        return ""
    words = [f"{visible(grade)} calls"] if grade.startswith("one of") else []
    return ", ".join([*words, "unguarded"] if item.get("unguarded") else words)


def origin(item: dict[str, Any]) -> str:
    """All of it in one phrase: who, prompt, doubt."""
    return "  ".join(part for part in (who(item), prompt(item), doubt(item)) if part)


def origin_of_line(item: dict[str, Any], now: float) -> str:
    """The same, and for what is no call's, how long ago that was."""
    if is_known(item) or item.get("grade") == "before mulligan":
        return origin(item)
    return f"{who(item)}, {ago(item.get('timestamp'), now)}"


def place(item: dict[str, Any]) -> str:
    """The number of the checkpoint that first held it; a dot if there is none, or if it is no call's."""
    number = item.get("ordinal")
    return str(number) if number is not None and is_known(item) else "·"


def moment(item: dict[str, Any], now: float) -> str:
    """When, with the checkpoint that first held it: `4 min ago (12)`."""
    number = item.get("ordinal")
    return ago(item.get("timestamp"), now) + (f" ({number})" if number is not None else "")
