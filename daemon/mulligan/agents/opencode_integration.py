"""Installing for OpenCode, and taking it out again: the plugin's file, and the MCP server in its configuration.

OpenCode 1 and 2 both load what lies in `plugins/` beside their configuration, so the plugin needs no entry. Standard
library only: the client uses this module, and no daemon is needed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from mulligan import resources
from mulligan.agents.jsonc import JsoncError, get, put, take
from mulligan.agents.settings_file import (
    Integration,
    broken,
    client_command,
    mode_of,
    read_bytes,
    read_text,
    state_dir_of,
    without_ours,
    written,
)
from mulligan.errors import RefusedError
from mulligan.paths import home_of, nearest
from mulligan.service.plan import File, Plan, Removal, Step, apply

PLUGIN = "opencode/mulligan.js"
#: How the plugin's file begins, which tells it from somebody's own of this name.
_FIRST_WORDS = b"// mulligan for OpenCode:"
_STATE_DIR = 'const STATE_DIR = ""\n'
_NAMES = ("opencode.jsonc", "opencode.json")
SERVER = ("mcp", "mulligan")
_SCHEMA = "https://opencode.ai/config.json"
_NO_MCP = "the MCP server needs: pip install 'mulligan[mcp]'"


def places_of(scope: str, directory: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """(configuration, plugin) of a scope, for somebody in a directory; the configuration that exists, if one does."""
    if scope == "project":
        base = nearest(directory, (*_NAMES, ".opencode", ".git"))
        beside = os.path.join(base, ".opencode")
    else:
        given = environ.get("XDG_CONFIG_HOME", "")
        config = given if os.path.isabs(given) else os.path.join(home_of(environ), ".config")
        base = beside = os.path.join(config, "opencode")
    found = [path for name in _NAMES if os.path.exists(path := os.path.join(base, name))]
    settings = found[0] if found else os.path.join(base, "opencode.json")
    return os.path.realpath(settings), os.path.join(beside, "plugins", "mulligan.js")


def integrate(scope: str, directory: str, environ: Mapping[str, str]) -> Integration:
    """What it takes to have the plugin and the MCP server. Raises RefusedError for what is not to be overwritten."""
    settings, plugin = places_of(scope, directory, environ)
    state_dir = state_dir_of(environ)
    before, installed = read_text(settings), read_bytes(plugin)
    if installed is not None and not installed.startswith(_FIRST_WORDS):
        raise RefusedError(f"{plugin} is not mulligan's", hint="move it away, and try again")
    ours = server(client_command(), state_dir)
    try:
        after = _made(ours) if before is None else put(before, SERVER, ours)
    except JsoncError as error:
        raise broken(settings, error) from None
    wanted = (
        resources.plugin(PLUGIN)
        .read_text(encoding="utf-8")
        .replace(_STATE_DIR, f"const STATE_DIR = {json.dumps(state_dir)}\n", 1)
        .encode()
    )
    steps: list[Step] = []
    if installed != wanted:
        steps.append(File(plugin, wanted, mode_of(plugin)))
    if after != before:
        steps.append(written(settings, after))
    return Integration(settings, before, after, plugin, Plan(tuple(steps), () if find_spec("mcp") else (_NO_MCP,)))


def remove(scope: str, directory: str, environ: Mapping[str, str]) -> Integration:
    """What it takes to have none of it. Raises RefusedError for a configuration that is none."""
    settings, plugin = places_of(scope, directory, environ)
    before, after, steps = without_ours(settings, without)
    if (read_bytes(plugin) or b"").startswith(_FIRST_WORDS):
        steps.append(Removal(plugin))
    return Integration(settings, before, after, plugin, Plan(tuple(steps)))


def carry_out(integration: Integration, environ: Mapping[str, str]) -> None:
    """Do it: the plugin and the configuration, each as a whole or not at all. Raises OSError."""
    apply(integration.plan, environ)
    for path in (os.path.dirname(integration.plugin), os.path.dirname(os.path.dirname(integration.plugin))):
        try:
            if integration.plan.removals:
                os.rmdir(path)
        except OSError:
            return  # something else is in it


def server(mulligan: str, state_dir: str) -> dict[str, Any]:
    """The MCP server's entry; a `state_dir` is where the daemon is found if not where it usually is."""
    environment = {"environment": {"MULLIGAN_STATE_DIR": state_dir}} if state_dir else {}
    return {"type": "local", "command": [mulligan, "mcp"], "enabled": True, **environment}


def _made(ours: dict[str, Any]) -> str:
    return json.dumps({"$schema": _SCHEMA, "mcp": {"mulligan": ours}}, indent=2) + "\n"


def without(text: str) -> str | None:
    """The configuration without ours; None if it is as it was made."""
    ours = get(text, SERVER)
    return None if isinstance(ours, dict) and text == _made(ours) else take(text, SERVER)
