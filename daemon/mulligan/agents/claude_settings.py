"""What mulligan puts into Claude Code's settings, and takes out again without a trace. Pure.

Ours are a marketplace, a plugin of it, and a status line unless there is one. What else is there keeps every byte.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from mulligan.agents.claude_plugin import NAME, PLUGIN
from mulligan.agents.jsonc import get, put, take

_MARKETPLACE = ("extraKnownMarketplaces", NAME)
_ENABLED = ("enabledPlugins", PLUGIN)
_STATUS_LINE = ("statusLine",)
_OURS = re.compile(r"mulligan'? statusline 2>/dev/null \|\| :\Z")
#: A file that has to be made; ours go behind what is in it, which tells it from somebody's own.
_NEW = '{{\n  "$schema": "https://json.schemastore.org/claude-code-settings.json",\n{}\n}}\n'


def status_line(mulligan: str, state_dir: str) -> dict[str, Any]:
    """The value of `statusLine`; a `state_dir` is where the daemon is found if not where it usually is."""
    place = f"MULLIGAN_STATE_DIR={shlex.quote(state_dir)} " if state_dir else ""
    return {"type": "command", "command": f"{place}{shlex.quote(mulligan)} statusline 2>/dev/null || :"}


def is_ours(value: Any) -> bool:
    """Whether a `statusLine` is mulligan's, of whatever installation."""
    command = value.get("command") if isinstance(value, dict) else None
    return isinstance(command, str) and _OURS.search(command) is not None


def is_turned_off(text: str | None) -> bool:
    """Whether somebody says no to the plugin, and is to be asked. Raises JsoncError for settings that are none."""
    return bool(text and text.strip()) and get(text or "", _ENABLED) is False


def integrated(text: str | None, marketplace: str, line: dict[str, Any]) -> tuple[str, bool]:
    """(the settings with ours in them, whether somebody else's status line stays); None: there is no file.

    Raises JsoncError for settings that are none.
    """
    if text is None:
        return _made(marketplace, line), False
    if not text.strip():  # to the client that is an empty object
        return f"{text}\n{_made(marketplace, line)}", False
    theirs = get(text, _STATUS_LINE)
    keep = theirs is not None and not is_ours(theirs)
    if not keep:
        text = put(text, _STATUS_LINE, line)
    return put(put(text, _MARKETPLACE, _source(marketplace)), _ENABLED, True), keep


def _made(marketplace: str, line: dict[str, Any]) -> str:
    """A new file: ours go behind its first member, which tells it from a file that was there."""
    members = ((_MARKETPLACE, _source(marketplace)), (_ENABLED, True), (_STATUS_LINE, line))
    return _NEW.format(",\n".join(_member(path, value) for path, value in members))


def _source(marketplace: str) -> dict[str, Any]:
    return {"source": {"source": "directory", "path": marketplace}}


def _member(path: Sequence[str], value: Any) -> str:
    return "  " + put("{}", path, value)[1:-1].strip()


def removed(text: str) -> str | None:
    """The settings without ours; None if the file is as it was made. Raises JsoncError for settings that are none."""
    if not text.strip():
        return text
    line, marketplace = get(text, _STATUS_LINE), get(text, (*_MARKETPLACE, "source", "path"))
    if isinstance(line, dict) and isinstance(marketplace, str):
        before, made, behind = text.partition(_made(marketplace, line))
        if made and not before.strip() and not behind:  # an empty file has one more line in front
            return before[:-1] if before else None
    if is_ours(line):
        text = take(text, _STATUS_LINE)
    if not is_turned_off(text):
        text = take(text, _ENABLED)
    return take(text, _MARKETPLACE)
