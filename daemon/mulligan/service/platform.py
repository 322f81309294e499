"""The service on whatever this machine has: systemd's user manager on Linux, launchd on macOS.

Planning and doing are apart: `plan_install` and `plan_uninstall` say what would happen, `apply` does it. Standard
library only: the client imports this package.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Literal

from mulligan.errors import NotFoundError, RefusedError
from mulligan.paths import Places, absolute_environment, home_of
from mulligan.service import launchd, plan, systemd
from mulligan.service.plan import Plan

Verb = Literal["start", "stop", "restart", "reload", "status"]

#: What the daemon must see as it was when the service was installed. Session variables (XDG_SESSION_ID ...) would age.
_KEPT = ("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")


def kind(platform: str = sys.platform) -> Literal["systemd", "launchd"]:
    """The service manager of a platform. Raises RefusedError where there is none that we know."""
    if platform == "darwin":
        return "launchd"
    if platform.startswith("linux"):
        return "systemd"
    raise RefusedError(f"no service manager is known for {platform}", hint="run the daemon without one: mulligan start")


def service_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables to write into the service, with absolute paths, so that it finds the same places as the client."""
    found = {name: value for name in _KEPT if (value := environ.get(name)) and os.path.isabs(value)}
    found |= absolute_environment(environ)
    if home_of(environ) != home_of({}):
        found["HOME"] = home_of(environ)
    return found


def find_executable(environ: Mapping[str, str], program: str | None = None, interpreter: str = sys.executable) -> str:
    """The absolute path of `mulligand`: beside the program (default: this one), its interpreter, or in PATH.

    Raises NotFoundError.
    """
    program = sys.argv[0] if program is None else program
    beside = [os.path.join(os.path.dirname(os.path.abspath(path)), "mulligand") for path in (program, interpreter)]
    for path in (*beside, shutil.which("mulligand", path=environ.get("PATH") or os.defpath)):
        if path and os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.abspath(path)
    raise NotFoundError("mulligand is neither beside this program nor in PATH", hint="install mulligan anew")


def plan_install(
    places: Places,
    environ: Mapping[str, str],
    executable: str,
    *,
    linger: bool = False,
    platform: str = sys.platform,
    manager: systemd.UserManager | None = None,
) -> Plan:
    """What an installation does. `manager` is what `user_manager` found; without it (--dry-run) places are assumed."""
    environment = service_environment(environ)
    if not os.path.isabs(executable):
        raise ValueError(f"not an absolute path: {executable!r}")
    if kind(platform) == "launchd":
        return launchd.plan_install(places, environ, environment, executable, linger=linger)
    return systemd.plan_install(places, environ, environment, executable, linger=linger, manager=manager)


def plan_uninstall(environ: Mapping[str, str], *, platform: str = sys.platform) -> Plan:
    """What taking it out does; data and configuration stay."""
    return launchd.plan_uninstall(environ) if kind(platform) == "launchd" else systemd.plan_uninstall(environ)


def install(
    places: Places, environ: Mapping[str, str], executable: str, *, linger: bool = False, platform: str = sys.platform
) -> Plan:
    """Install, enable and start the service; the plan that was done. Raises RefusedError and CommandError.

    A daemon that runs outside the service must have stopped before: it holds the store, and the service would give up.
    """
    manager = systemd.user_manager(environ) if kind(platform) == "systemd" else None
    done = plan_install(places, environ, executable, linger=linger, platform=platform, manager=manager)
    apply(done, environ, platform=platform)
    return done


def uninstall(places: Places, environ: Mapping[str, str], *, platform: str = sys.platform) -> Plan:
    """Stop and remove the service and what it leaves in the runtime directory; the plan that was done."""
    done = plan_uninstall(environ, platform=platform)
    apply(done, environ, platform=platform)
    if kind(platform) == "systemd":
        _forget_socket(places)
    return done


def _forget_socket(places: Places) -> None:
    """systemd removes the socket and leaves its directory; a socket in another place is its owner's."""
    if os.path.dirname(places.socket) == places.runtime_dir:
        try:
            os.rmdir(places.runtime_dir)
        except OSError:  # not there, or somebody else's files are in it
            pass


def apply(done: Plan, environ: Mapping[str, str], *, platform: str = sys.platform) -> None:
    """Do a plan, with an environment in which the service manager is found."""
    plan.apply(done, systemd.manager_environ(environ) if kind(platform) == "systemd" else environ)


def is_installed(environ: Mapping[str, str], *, platform: str = sys.platform) -> bool:
    """Whether this user has the service; looks for one file and runs nothing."""
    if platform == "darwin":
        return launchd.is_installed(environ)
    return platform.startswith("linux") and systemd.is_installed(environ)


def command(verb: Verb, *, platform: str = sys.platform) -> tuple[str, ...]:
    """The command line that does it; to be run with `command_environ`."""
    if kind(platform) == "launchd":
        return {
            "start": launchd.start_command,
            "stop": launchd.stop_command,
            "restart": launchd.restart_command,
            "reload": launchd.reload_command,
            "status": launchd.status_command,
        }[verb]()
    return {
        "start": systemd.START,
        "stop": systemd.STOP,
        "restart": systemd.RESTART,
        "reload": systemd.RELOAD,
        "status": systemd.STATUS,
    }[verb]


def logs_command(
    places: Places, *, follow: bool = False, lines: int = 200, platform: str = sys.platform
) -> tuple[str, ...]:
    """The command line that shows the log."""
    if kind(platform) == "launchd":
        return launchd.logs_command(places, follow=follow, lines=lines)
    return systemd.logs_command(follow=follow, lines=lines)


def command_environ(environ: Mapping[str, str], *, platform: str = sys.platform) -> dict[str, str]:
    """The environment for these command lines."""
    return systemd.manager_environ(environ) if kind(platform) == "systemd" else dict(environ)


def run(verb: Verb, environ: Mapping[str, str], *, platform: str = sys.platform) -> None:
    """Run a command line and wait. Raises CommandError with what the service manager said."""
    apply(Plan((plan.Command(command(verb, platform=platform)),)), environ, platform=platform)
