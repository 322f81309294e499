"""Files of settings that belong to an agent and its person, what is written into all of them, and how they change."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mulligan.agents.jsonc import JsoncError
from mulligan.errors import RefusedError
from mulligan.paths import default_state_dirs, home_of, places
from mulligan.service.plan import File, Plan, Removal, Step


@dataclass(frozen=True, slots=True)
class Integration:
    """What is to be done; `before` and `after` are the settings' text, None if there is no file."""

    settings: str
    before: str | None
    after: str | None
    plugin: str
    plan: Plan
    #: The plugin is a directory, and goes as a whole.
    forsaken: bool = False

    @property
    def changed(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.plan.steps) or self.forsaken


def without_ours(settings: str, take_out: Callable[[str], str | None]) -> tuple[str | None, str | None, list[Step]]:
    """(text, text without ours, steps to it) of settings; `take_out` gives None for a file that was made by us.

    Raises RefusedError for settings that are none.
    """
    before = read_text(settings)
    try:
        after = None if before is None else take_out(before)
    except JsoncError as error:
        raise broken(settings, error) from None
    if before is not None and after is None:
        return before, after, [Removal(settings)]
    return before, after, [] if after is None or after == before else [written(settings, after)]


def written(settings: str, text: str) -> File:
    """The step that writes settings, which keep their mode."""
    return File(settings, text.encode(), mode_of(settings))


def state_dir_of(environ: Mapping[str, str]) -> str:
    """The daemon's state directory, if an agent without this environment would look elsewhere; else ""."""
    usual = default_state_dirs({"HOME": home_of(environ)})[0]
    found = places(environ).state_dir
    return "" if found == usual else found


def client_command() -> str:
    """The client's command; the agent may have another PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), "mulligan")
    return beside if os.access(beside, os.X_OK) else "mulligan"


def read_bytes(path: str) -> bytes | None:
    """A file's content; None if there is no file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def read_text(path: str) -> str | None:
    """The text of settings; None if there is no file. Raises RefusedError for what is not UTF-8."""
    data = read_bytes(path)
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1 if data else 1
        raise RefusedError(f"{path}, line {line}: not UTF-8", hint="nothing was changed; correct it first") from None


def broken(path: str, error: JsoncError) -> RefusedError:
    """What is said of settings that are none."""
    return RefusedError(f"{path}, {error}", hint="nothing was changed; correct the settings first")


def mode_of(path: str) -> int:
    """The mode that a file has, or gets when it is made."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return 0o600
