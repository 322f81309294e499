"""The conversation that belongs to a checkpoint: what would be copied, and how the copy goes on."""

from __future__ import annotations

from typing import Any

from mulligan.client.render.amounts import counted
from mulligan.client.render.text import visible

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@%:,~")


def conversation_line(result: dict[str, Any]) -> str:
    """What a plan says: `conversation  23 messages, as a session of its own`."""
    found = result.get("conversation") or {}
    if found.get("refused"):
        return f"conversation  not copied: {visible(str(found['refused']))}"
    messages = found.get("messages") or 0
    said = f"{counted(messages, 'message')}, as a session of its own" if messages else "nothing was said before"
    return f"conversation  {said if found.get('session_id') else 'it belongs to no session'}"


def resume_lines(result: dict[str, Any]) -> list[str]:
    """The command that goes on with the copy; none without one."""
    resume = result.get("resume") or {}
    if not resume:
        return []
    return ["go on there:", f"  cd {quoted(str(resume.get('directory', '')))} && {visible(str(resume.get('command')))}"]


def quoted(path: str) -> str:
    """A path as a shell takes it; control characters are shown, so such a path has to be typed."""
    shown = visible(path)
    return shown if _PLAIN.issuperset(shown) else "'" + shown.replace("'", "'\\''") + "'"
