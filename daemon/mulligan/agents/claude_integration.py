"""Installing for Claude Code, and taking it out again: the plugin's files, and what the settings say of them.

One plugin serves all settings that name it; `installed.json` beside it lists them, and with the last one it goes.
Standard library only: the client uses this module, and no daemon is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping

from mulligan import __version__, resources
from mulligan.agents import claude_plugin, claude_settings, hook
from mulligan.agents.jsonc import JsoncError
from mulligan.agents.settings_file import (
    Integration,
    broken,
    client_command,
    read_bytes,
    read_text,
    state_dir_of,
    without_ours,
    written,
)
from mulligan.errors import RefusedError
from mulligan.paths import home_of, nearest, places
from mulligan.service.plan import File, Plan, Step, apply

SCOPES = ("user", "project")
_INSTALLED = "installed.json"
#: A project is where settings of its own are, or where a working copy begins.
_TOPS = (".claude/settings.json", ".git")


def settings_file(scope: str, directory: str, environ: Mapping[str, str]) -> str:
    """The settings of a scope, for somebody in a directory; absolute, and what a link leads to."""
    if scope == "project":
        base = os.path.join(nearest(directory, _TOPS), ".claude")
    else:
        base = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home_of(environ), ".claude")
    return os.path.realpath(os.path.join(base, "settings.json"))


def integrate(scope: str, directory: str, environ: Mapping[str, str]) -> Integration:
    """What it takes to have the hooks, commands and the status line. Raises RefusedError for settings that are none."""
    settings, plugin = settings_file(scope, directory, environ), _plugin_directory(environ)
    before = read_text(settings)
    state_dir = state_dir_of(environ)
    try:
        if claude_settings.is_turned_off(before):
            raise RefusedError(
                f'{settings} turns the plugin off: "{claude_plugin.PLUGIN}": false', hint="take that line out first"
            )
        line = claude_settings.status_line(client_command(), state_dir)
        after, keeps = claude_settings.integrated(before, plugin, line)
    except JsoncError as error:
        raise broken(settings, error) from None
    shipped = {
        name: resources.plugin(f"claude/{name}").read_bytes() for name in claude_plugin.SHIPPED
    }  # fmt: skip
    python = getattr(sys, "_base_executable", "") or sys.executable
    program = read_bytes(hook.__file__) or b""
    wanted = claude_plugin.files(__version__, python, client_command(), state_dir, shipped, program)
    wanted[_INSTALLED] = _listed({*_installed(plugin), settings})
    steps: list[Step] = [
        File(path, data) for name, data in wanted.items() if read_bytes(path := os.path.join(plugin, name)) != data
    ]
    if after != before:
        steps.append(written(settings, after))
    notes = ("your status line stays; mulligan's is: mulligan statusline",) if keeps else ()
    return Integration(settings, before, after, plugin, Plan(tuple(steps), notes))


def remove(scope: str, directory: str, environ: Mapping[str, str]) -> Integration:
    """What it takes to have none of it. Raises RefusedError for settings that are none."""
    settings, plugin = settings_file(scope, directory, environ), _plugin_directory(environ)
    before, after, steps = without_ours(settings, claude_settings.removed)
    others = {path for path in _installed(plugin) if path != settings and os.path.exists(path)}
    forsaken = not others and os.path.isdir(plugin)
    if others and settings in _installed(plugin):
        steps.append(File(os.path.join(plugin, _INSTALLED), _listed(others)))
    return Integration(settings, before, after, plugin, Plan(tuple(steps)), forsaken)


def carry_out(integration: Integration, environ: Mapping[str, str]) -> None:
    """Do it: the plugin first, and the settings as a whole or not at all. Raises OSError."""
    apply(integration.plan, environ)
    if integration.forsaken:
        shutil.rmtree(integration.plugin)


def _plugin_directory(environ: Mapping[str, str]) -> str:
    return os.path.join(places(environ).data_dir, "agents", "claude")


def _installed(plugin: str) -> set[str]:
    try:
        found = json.loads(read_bytes(os.path.join(plugin, _INSTALLED)) or b"[]")
    except ValueError:
        return set()
    return {path for path in found if isinstance(path, str)} if isinstance(found, list) else set()


def _listed(settings: set[str]) -> bytes:
    return json.dumps(sorted(settings), indent=1).encode() + b"\n"
