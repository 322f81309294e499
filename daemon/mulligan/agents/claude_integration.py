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
from dataclasses import dataclass

from mulligan import __version__, resources
from mulligan.agents import claude_plugin, claude_settings, hook
from mulligan.agents.jsonc import JsoncError
from mulligan.agents.settings_file import broken, client_command, mode_of, read_bytes, read_text, state_dir_of
from mulligan.errors import RefusedError
from mulligan.paths import home_of, places
from mulligan.service.plan import File, Plan, Removal, Step, apply

SCOPES = ("user", "project")
_INSTALLED = "installed.json"


@dataclass(frozen=True, slots=True)
class Integration:
    """What is to be done; `before` and `after` are the settings' text, None if there is no file."""

    settings: str
    before: str | None
    after: str | None
    plugin: str
    plan: Plan
    #: The plugin's directory goes as well.
    forsaken: bool = False

    @property
    def changed(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.plan.steps) or self.forsaken


def settings_file(scope: str, directory: str, environ: Mapping[str, str]) -> str:
    """The settings of a scope, for somebody in a directory; absolute, and what a link leads to."""
    if scope == "project":
        base = os.path.join(project_root(directory), ".claude")
    else:
        base = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home_of(environ), ".claude")
    return os.path.realpath(os.path.join(base, "settings.json"))


def project_root(directory: str) -> str:
    """The nearest directory from here up that has settings of its own, or is the top of a working copy; else this."""
    path = directory
    while path != os.path.dirname(path):
        if any(os.path.exists(os.path.join(path, name)) for name in (".claude/settings.json", ".git")):
            return path
        path = os.path.dirname(path)
    return directory


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
        steps.append(File(settings, after.encode(), mode_of(settings)))
    notes = ("your status line stays; mulligan's is: mulligan statusline",) if keeps else ()
    return Integration(settings, before, after, plugin, Plan(tuple(steps), notes))


def remove(scope: str, directory: str, environ: Mapping[str, str]) -> Integration:
    """What it takes to have none of it. Raises RefusedError for settings that are none."""
    settings, plugin = settings_file(scope, directory, environ), _plugin_directory(environ)
    before = read_text(settings)
    try:
        after = None if before is None else claude_settings.removed(before)
    except JsoncError as error:
        raise broken(settings, error) from None
    steps: list[Step] = []
    if after is None and before is not None:
        steps.append(Removal(settings))
    elif after is not None and after != before:
        steps.append(File(settings, after.encode(), mode_of(settings)))
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
