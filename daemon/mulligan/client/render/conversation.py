"""The conversation that belongs to a checkpoint: what would be copied, and how the copy goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mulligan.client.render.amounts import counted
from mulligan.client.render.text import visible

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@%:,~")


def conversation_lines(result: dict[str, Any]) -> list[str]:
    """What a plan says of a copy that would be made; of what there is none, the warnings tell."""
    messages = (result.get("conversation") or {}).get("messages") or 0
    return [f"  conversation  {counted(messages, 'message')}, as a session of its own"] if messages else []


def resume_lines(result: dict[str, Any], short: Callable[[str], str]) -> list[str]:
    """The command that goes on with the copy; none without one. `short` is how a person reads a path."""
    resume = result.get("resume") or {}
    if not resume:
        return []
    directory = str(resume.get("directory", ""))
    place = short(directory) if _PLAIN.issuperset(short(directory)) else _quoted(directory)
    return ["go on there:", f"  cd {place} && {visible(str(resume.get('command')))}"]


def _quoted(path: str) -> str:
    """A path in quotes for a shell; control characters are shown, so a path with such has to be typed."""
    return "'" + visible(path).replace("'", "'\\''") + "'"
