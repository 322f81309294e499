"""The launch agent of macOS: its property list and the commands that steer it. Standard library only, nothing runs."""

from __future__ import annotations

import os
import plistlib
from collections.abc import Mapping

from mulligan import resources
from mulligan.errors import RefusedError
from mulligan.paths import Places, home_of
from mulligan.service.plan import Command, Directory, File, Plan, Removal

LABEL = "dev.mulligan.daemon"
LOG_NAME = "mulligand.log"
ERROR_NAME = "mulligand.err"


def _domain() -> str:
    return f"gui/{os.getuid()}"


def _target() -> str:
    return f"{_domain()}/{LABEL}"


def start_command() -> tuple[str, ...]:
    """Start; nothing happens if it runs."""
    return ("launchctl", "kickstart", _target())


def stop_command() -> tuple[str, ...]:
    """Stop; it exits with 0, so it is not started again before the next login."""
    return ("launchctl", "kill", "SIGTERM", _target())


def restart_command() -> tuple[str, ...]:
    """Stop if it runs, and start."""
    return ("launchctl", "kickstart", "-k", _target())


def reload_command() -> tuple[str, ...]:
    """Read the configuration again."""
    return ("launchctl", "kill", "SIGHUP", _target())


def status_command() -> tuple[str, ...]:
    """What launchd knows of it."""
    return ("launchctl", "print", _target())


def logs_command(places: Places, *, follow: bool = False, lines: int = 200) -> tuple[str, ...]:
    """The daemon's own log: launchd keeps none."""
    return ("tail", "-n", str(lines), *(("-F",) if follow else ()), os.path.join(places.state_dir, LOG_NAME))


def agent_path(environ: Mapping[str, str]) -> str:
    """Where the property list lies."""
    return os.path.join(home_of(environ), "Library/LaunchAgents", f"{LABEL}.plist")


def is_installed(environ: Mapping[str, str]) -> bool:
    """Whether the property list is there."""
    return os.path.isfile(agent_path(environ))


def agent(places: Places, environment: Mapping[str, str], executable: str) -> bytes:
    """The property list for an executable and the variables that the daemon is to see. Raises RefusedError."""
    content = plistlib.loads(resources.read(resources.LAUNCH_AGENT).encode())
    content["Label"] = LABEL
    content["ProgramArguments"] = [executable]
    content["StandardErrorPath"] = os.path.join(places.state_dir, ERROR_NAME)
    if environment:
        content["EnvironmentVariables"] = dict(environment)
    try:
        return plistlib.dumps(content)
    except ValueError as error:  # control characters and surrogates have no place in XML
        raise RefusedError(f"a property list cannot hold it: {error}", hint="use paths that are plain text") from error


def plan_install(
    places: Places, environ: Mapping[str, str], environment: Mapping[str, str], executable: str, *, linger: bool = False
) -> Plan:
    """The agent, loaded anew and started."""
    path = agent_path(environ)
    notes = ("launchd has no lingering: the agent runs while you are logged in",) if linger else ()
    return Plan(
        (
            Directory(places.state_dir),
            File(path, agent(places, environment, executable)),
            Command(("launchctl", "bootout", _target()), may_fail=True),
            Command(("launchctl", "enable", _target())),
            Command(("launchctl", "bootstrap", _domain(), path)),
            Command(start_command()),
        ),
        notes,
    )


def plan_uninstall(environ: Mapping[str, str]) -> Plan:
    """Unloaded, which stops it, and removed."""
    path = agent_path(environ)
    return Plan(
        (
            Command(("launchctl", "bootout", _target()), may_fail=True),
            *((Removal(path),) if os.path.lexists(path) else ()),
        )
    )
