"""systemd user units: what they say, where they lie, which commands steer them.

Building is pure; only `user_manager` asks the machine. Standard library only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mulligan import resources
from mulligan.errors import RefusedError
from mulligan.paths import SOCKET_PATH_LIMIT, Places, home_of
from mulligan.service.plan import Command, File, Plan, Removal

SERVICE = "mulligand.service"
SOCKET = "mulligand.socket"
_BOTH = (SOCKET, SERVICE)

START = ("systemctl", "--user", "start", *_BOTH)
STOP = ("systemctl", "--user", "stop", *_BOTH)
RESTART = ("systemctl", "--user", "restart", *_BOTH)
RELOAD = ("systemctl", "--user", "reload", SERVICE)
STATUS = ("systemctl", "--user", "--no-pager", "--full", "status", *_BOTH)


def logs_command(*, follow: bool = False, lines: int = 200) -> tuple[str, ...]:
    """The journal of the service."""
    return (
        "journalctl",
        f"--user-unit={SERVICE}",
        "--no-pager",
        f"--lines={lines}",
        *(("--follow",) if follow else ()),
    )


@dataclass(frozen=True, slots=True)
class UserManager:
    """A `systemd --user` that answers: where it looks for units, the most important place first."""

    unit_path: tuple[str, ...]


def manager_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment in which systemctl finds the user manager, also when it lacks XDG_RUNTIME_DIR (su, cron)."""
    found = dict(environ)
    runtime = f"/run/user/{os.getuid()}"
    if not found.get("XDG_RUNTIME_DIR") and os.path.exists(f"{runtime}/systemd/private"):
        found["XDG_RUNTIME_DIR"] = runtime
    found.setdefault("PATH", os.defpath)
    return found


def user_manager(environ: Mapping[str, str]) -> UserManager:
    """Ask the user manager whether it is there. Raises RefusedError with the next step if it is not."""
    environ = manager_environ(environ)
    systemctl = shutil.which("systemctl", path=environ["PATH"])
    if systemctl is None:
        raise RefusedError(
            "there is no systemd on this machine to install a service in",
            hint="run the daemon without it: mulligan start",
        )
    argv = [systemctl, "--user", "show", "--property=UnitPath", "--value"]
    try:
        done = subprocess.run(
            argv, env=environ, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=False
        )
        reason = done.stderr.strip().split("\n")[0]
    except (OSError, subprocess.TimeoutExpired) as error:
        done, reason = None, str(error)
    if done is None or done.returncode != 0:
        raise RefusedError(
            "no systemd user manager answers" + (f" ({reason})" if reason else ""),
            hint="log in as this user, or: sudo loginctl enable-linger $USER; without a service: mulligan start",
        )
    return UserManager(tuple(done.stdout.split()))


def unit_directories(environ: Mapping[str, str]) -> list[str]:
    """Where the units of this user may lie: by this environment, and by the passwd entry that the manager goes by."""
    bases = [
        environ.get("XDG_CONFIG_HOME") or "",
        os.path.join(home_of(environ), ".config"),
        _passwd_home() + "/.config",
    ]
    return list(dict.fromkeys(os.path.join(base, "systemd/user") for base in bases if os.path.isabs(base)))


def unit_directory(environ: Mapping[str, str], manager: UserManager | None) -> str:
    """Where to write the units: a directory that the manager really reads. Raises RefusedError if there is none."""
    candidates = unit_directories(environ)
    if manager is None:
        return candidates[0]
    for path in candidates:
        if path in manager.unit_path:
            return path
    raise RefusedError(
        f"the user manager reads units in none of {', '.join(candidates)}",
        hint="compare XDG_CONFIG_HOME and HOME with: systemctl --user show-environment",
    )


def is_installed(environ: Mapping[str, str]) -> bool:
    """Whether the unit lies where this user's units lie."""
    return any(os.path.isfile(os.path.join(path, SERVICE)) for path in unit_directories(environ))


def quoted(text: str) -> str:
    """A word for ExecStart= or Environment=: quotes and backslashes by C's rules, percent signs doubled.

    Raises RefusedError for what a unit file cannot say.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RefusedError(
            f"a unit file cannot hold {text!a}: it is not UTF-8", hint="use a path that is UTF-8"
        ) from error
    if not text.isprintable():
        raise RefusedError(
            f"a unit file cannot hold {text!a}: it has control characters", hint="use a path without them"
        )
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def service_unit(executable: str, environment: Mapping[str, str]) -> str:
    """The service unit for an executable and the variables that the daemon is to see."""
    lines = [f"Environment={quoted(f'{name}={value}')}" for name, value in sorted(environment.items())]
    return _filled(resources.read(resources.SERVICE_UNIT), {"ExecStart=": [f"ExecStart={_start(executable)}", *lines]})


def _start(executable: str) -> str:
    if not any(character in executable for character in "'\"\\$"):
        return quoted(executable)
    # systemd takes no such character in a program's name, and every one in an argument, where a dollar needs its twin.
    return "/usr/bin/env " + quoted(executable).replace("$", "$$")


def socket_unit(socket: str) -> str:
    """The socket unit for a path."""
    quoted(socket)
    if len(os.fsencode(socket)) > SOCKET_PATH_LIMIT:
        raise RefusedError(
            f"the socket path is longer than {SOCKET_PATH_LIMIT} bytes: {socket}", hint="set MULLIGAN_SOCKET"
        )
    if socket.endswith(("\\", " ")):
        raise RefusedError(f"a socket unit cannot name {socket!a}", hint="set MULLIGAN_SOCKET")
    return _filled(
        resources.read(resources.SOCKET_UNIT), {"ListenStream=": ["ListenStream=" + socket.replace("%", "%%")]}
    )


def _filled(template: str, lines: Mapping[str, Sequence[str]]) -> str:
    """The template with each line that begins with a key replaced, and without the remark for its reader."""
    found: list[str] = []
    for line in template.split("\n")[2:]:
        key = next((key for key in lines if line.startswith(key)), None)
        found += [line] if key is None else lines[key]
    return "# Written by `mulligan service install`; the next installation overwrites it.\n\n" + "\n".join(found)


def plan_install(
    places: Places,
    environ: Mapping[str, str],
    environment: Mapping[str, str],
    executable: str,
    *,
    linger: bool = False,
    manager: UserManager | None = None,
) -> Plan:
    """Both units, enabled and (re)started; with `linger` they run without a login as well."""
    directory = unit_directory(environ, manager)
    commands = [("systemctl", "--user", "daemon-reload"), ("systemctl", "--user", "enable", *_BOTH), RESTART]
    if linger:
        commands.insert(0, ("loginctl", "enable-linger"))
    return Plan(
        (
            File(os.path.join(directory, SERVICE), service_unit(executable, environment).encode()),
            File(os.path.join(directory, SOCKET), socket_unit(places.socket).encode()),
            *(Command(argv) for argv in commands),
        ),
        () if linger else ("it runs while you are logged in; with --linger it runs from boot on",),
    )


def plan_uninstall(environ: Mapping[str, str]) -> Plan:
    """Stopped, disabled, removed; also where only half of it is there. Lingering stays: others may count on it."""
    found = [os.path.join(path, unit) for path in unit_directories(environ) for unit in (SERVICE, SOCKET)]
    there = tuple(Removal(path) for path in found if os.path.lexists(path))
    return Plan(
        (
            Command(("systemctl", "--user", "disable", "--now", *_BOTH), may_fail=True),
            *there,
            Command(("systemctl", "--user", "daemon-reload"), may_fail=True),
            Command(("systemctl", "--user", "reset-failed", *_BOTH), may_fail=True),
        )
    )


def _passwd_home() -> str:
    return home_of({})
