"""The plugin for Claude Code as files: hooks, commands, a skill, the MCP server, and the marketplace for it. Pure.

The client takes a plugin from a directory that its settings name as a marketplace, and uses it in its place.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

#: Plugin and marketplace have one name.
NAME = "mulligan"
PLUGIN = f"{NAME}@{NAME}"
#: Shipped files of the plugin, as `resources` knows them, below `claude/`.
SHIPPED = (
    "commands/checkpoint.md",
    "commands/timeline.md",
    "commands/undo.md",
    "skills/keeping-task-state/SKILL.md",
)
#: Events that the client does not wait for, and all others; those about tools are for all tools.
WITHOUT_WAITING = ("PostToolUse", "PostToolUseFailure")
WAITING = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "Stop", "SubagentStop", "PreCompact", "SessionEnd",
)  # fmt: skip
#: Seconds after which the client ends a hook; ours ends itself long before.
_TIMEOUT = 5


def hook_command(python: str, event: str, state_dir: str) -> str:
    """The shell's words for a hook: silent and successful even if the interpreter or the program is gone."""
    state = f" {shlex.quote(state_dir)}" if state_dir else ""
    return f'{shlex.quote(python)} -I -S -E "${{CLAUDE_PLUGIN_ROOT}}/hook.py" {event}{state} 2>/dev/null || :'


def hooks(python: str, state_dir: str) -> dict[str, Any]:
    """What `hooks/hooks.json` says."""
    found: dict[str, Any] = {}
    for event in (*WAITING, *WITHOUT_WAITING):
        hook: dict[str, Any] = {"type": "command", "command": hook_command(python, event, state_dir)}
        hook |= {"timeout": _TIMEOUT, **({"async": True} if event in WITHOUT_WAITING else {})}
        found[event] = [{**({"matcher": "*"} if "Tool" in event else {}), "hooks": [hook]}]
    return {"description": "Exact moments for mulligan's checkpoints", "hooks": found}


def files(
    version: str, python: str, mulligan: str, state_dir: str, shipped: Mapping[str, bytes], program: bytes
) -> dict[str, bytes]:
    """The marketplace's files by their paths in it.

    `python` runs the hook program (whose text is `program`), `mulligan` is the client's command; a `state_dir` is
    written into the hooks if the daemon would not be found without it.
    """
    about = "Checkpoints of files at every tool call, and the state of a task that outlives a compaction"
    author = {"name": "mulligan"}
    plugin = {"name": NAME, "version": version, "description": about, "author": author, "license": "Apache-2.0"}
    entry = {"name": NAME, "source": "./plugin", "description": about, "version": version}
    environ = {"MULLIGAN_STATE_DIR": state_dir} if state_dir else {}
    server = {"command": mulligan, "args": ["mcp"], **({"env": environ} if environ else {})}
    return {
        ".claude-plugin/marketplace.json": _json({"name": NAME, "owner": author, "plugins": [entry]}),
        "plugin/.claude-plugin/plugin.json": _json(plugin),
        "plugin/hooks/hooks.json": _json(hooks(python, state_dir)),
        "plugin/.mcp.json": _json({"mcpServers": {NAME: server}}),
        "plugin/hook.py": program,
        **{f"plugin/{name}": data for name, data in shipped.items()},
    }


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"
