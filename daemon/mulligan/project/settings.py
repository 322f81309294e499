"""Settings with their sources: session before project before global before the configuration file."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal

from mulligan.config import BUDGET_EXPECTED, Config
from mulligan.errors import UsageError
from mulligan.quantities import MIB, parse_size
from mulligan.store.state import StateDatabase

Scope = Literal["session", "project", "global"]
STRATEGIES = ("manual", "per_prompt", "per_tool_use", "smart")
KEYS: dict[str, str] = {
    "strategy": "one of " + ", ".join(STRATEGIES),
    "auto_checkpoint": "true or false",
    "turn_end": "true or false",
    "project_budget_bytes": BUDGET_EXPECTED,
}
#: What no session has of its own.
_NOT_OF_SESSIONS = ("project_budget_bytes",)


def parse_value(key: str, value: object) -> object:
    """A setting's value from words or JSON. Raises UsageError that names key, value and what would fit."""
    if key not in KEYS:
        raise UsageError(f'no setting "{key}"', hint="one of: " + ", ".join(KEYS))
    if key == "strategy":
        normal = (
            str(value)
            .lower()
            .replace("-", "_")
            .replace("perprompt", "per_prompt")
            .replace("pertooluse", "per_tool_use")
        )
        if normal in STRATEGIES:
            return normal
    elif key == "project_budget_bytes":
        if (size := _parse_budget(value)) is None or size >= MIB:
            return size
    elif isinstance(value, bool):
        return value
    elif str(value).lower() in ("true", "on", "yes", "1"):
        return True
    elif str(value).lower() in ("false", "off", "no", "0"):
        return False
    raise UsageError(f'"{value}" does not fit {key}', hint=KEYS[key])


def _parse_budget(value: object) -> int | None:
    """Bytes, None for no limit, 0 if it is neither."""
    if value is None or str(value).lower() in ("null", "off", "none"):
        return None
    if isinstance(value, int) or str(value).isdecimal():
        return int(str(value)) if not isinstance(value, bool) else 0
    try:
        return parse_size(str(value))
    except ValueError:
        return 0


class Settings:
    """What holds for a session of a project, and why."""

    def __init__(self, database: StateDatabase, config: Callable[[], Config]) -> None:
        self._database, self._config = database, config

    def effective(self, project: str, session: str = "") -> dict[str, dict[str, Any]]:
        """{key: {value, source}} with source session, project, global, config."""
        config = self._config()
        layers: list[tuple[str, dict[str, object]]] = []
        if session:
            layers.append(("session", self._database.settings("session", session)))
        if project:
            layers.append(("project", self._database.settings("project", project)))
        layers.append(("global", self._database.settings("global", "")))
        layers.append(("config", {key: getattr(config, key) for key in KEYS}))
        return {
            key: next({"value": values[key], "source": source} for source, values in layers if key in values)
            for key in KEYS
        }

    def value(self, key: str, project: str, session: str = "") -> Any:
        """One effective value."""
        return self.effective(project, session)[key]["value"]

    def budget_of(self, root: bytes) -> int:
        """The bytes that a project may take of the store; 0: there is no limit."""
        return self.value("project_budget_bytes", os.fsdecode(root)) or 0

    def set(self, scope: Scope, subject: str, key: str, value: object) -> object:
        """Remember a value; returns it as it was understood."""
        parsed = parse_value(key, value)
        if scope == "session" and key in _NOT_OF_SESSIONS:
            raise UsageError(f"{key} is not a session's", hint="leave --session out, or give --scope global")
        self._database.set(scope, subject, key, parsed)
        return parsed

    def unset(self, scope: Scope, subject: str, key: str) -> bool:
        """Forget a value; whether there was one."""
        if key not in KEYS:
            raise UsageError(f'no setting "{key}"', hint="one of: " + ", ".join(KEYS))
        return self._database.unset(scope, subject, key)
