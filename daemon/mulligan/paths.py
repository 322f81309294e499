"""Where everything lies: configuration, data, state, runtime, and the agents' own directories.

The client uses this module, so it is standard library only; the values equal platformdirs' (a test holds them
together). Nothing is created here, and the environment is passed in.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from typing import NamedTuple

APP = "mulligan"
SOCKET_NAME = "control.sock"
ADDRESS_NAME = "control.json"
#: sizeof(sockaddr_un.sun_path) - 1, Linux; macOS has 103.
SOCKET_PATH_LIMIT = 107 if sys.platform == "linux" else 103


class Places(NamedTuple):
    """The files and directories of one user's mulligan; all absolute."""

    config_file: str
    data_dir: str
    state_dir: str
    runtime_dir: str
    socket: str
    state_db: str
    home: str

    @property
    def address_file(self) -> str:
        """Written by the daemon, read by clients: where the socket is."""
        return os.path.join(self.state_dir, ADDRESS_NAME)


def home_of(environ: Mapping[str, str]) -> str:
    """HOME, else the passwd entry; an empty environment still has a home."""
    if home := environ.get("HOME"):
        return home
    import pwd  # only needed here  # noqa: PLC0415

    return pwd.getpwuid(os.getuid()).pw_dir


def _absolute(value: str | None) -> str | None:
    # The XDG specification: relative values are invalid and to be ignored.
    return value if value and os.path.isabs(value) else None


def _defaults(environ: Mapping[str, str], platform: str) -> tuple[str, str, str, str]:
    """(config, data, state, runtime) directories of the platform."""
    home = home_of(environ)
    if platform == "darwin":
        support = os.path.join(home, "Library/Application Support", APP)
        return support, support, support, os.path.join(home, "Library/Caches/TemporaryItems", APP)
    config = _absolute(environ.get("XDG_CONFIG_HOME")) or os.path.join(home, ".config")
    data = _absolute(environ.get("XDG_DATA_HOME")) or os.path.join(home, ".local/share")
    state = _absolute(environ.get("XDG_STATE_HOME")) or os.path.join(home, ".local/state")
    runtime = _absolute(environ.get("XDG_RUNTIME_DIR"))
    if runtime is None:
        candidate = f"/run/user/{os.getuid()}"
        usable = os.path.isdir(candidate) and os.access(candidate, os.W_OK)
        runtime = candidate if usable else f"/tmp/runtime-{os.getuid()}"
    return os.path.join(config, APP), os.path.join(data, APP), os.path.join(state, APP), os.path.join(runtime, APP)


def places(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> Places:
    """The places that an environment names."""
    environ = os.environ if environ is None else environ
    config, data, state, runtime = _defaults(environ, platform)
    data = environ.get("MULLIGAN_DATA_DIR") or data
    state = environ.get("MULLIGAN_STATE_DIR") or state
    return Places(
        config_file=os.path.abspath(environ.get("MULLIGAN_CONFIG") or os.path.join(config, "config.yaml")),
        data_dir=os.path.abspath(data),
        state_dir=os.path.abspath(state),
        runtime_dir=runtime,
        socket=os.path.abspath(environ.get("MULLIGAN_SOCKET") or os.path.join(runtime, SOCKET_NAME)),
        state_db=os.path.abspath(environ.get("MULLIGAN_STATE_DB") or os.path.join(data, "state.db")),
        home=home_of(environ),
    )


def absolute_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that name places and are set, with absolute paths: a daemon does not run where its client does."""
    found = places(environ)
    named = {
        "MULLIGAN_CONFIG": found.config_file,
        "MULLIGAN_SOCKET": found.socket,
        "MULLIGAN_DATA_DIR": found.data_dir,
        "MULLIGAN_STATE_DIR": found.state_dir,
        "MULLIGAN_STATE_DB": found.state_db,
        "CLAUDE_CONFIG_DIR": os.path.abspath(environ.get("CLAUDE_CONFIG_DIR") or "/"),
    }
    return {name: path for name, path in named.items() if environ.get(name)}


def default_state_dirs(environ: Mapping[str, str], platform: str = sys.platform) -> list[str]:
    """Where a daemon with another environment may have left its address: this environment's place, then the default."""
    first = places(environ, platform).state_dir
    bare = {"HOME": home_of(environ)}
    second = _defaults(bare, platform)[2]
    return [first] if first == second else [first, second]


def claude_config_dirs(environ: Mapping[str, str]) -> list[str]:
    """The client's configuration directories: $CLAUDE_CONFIG_DIR, ~/.claude, and old leftovers in ~/.config/claude."""
    home = home_of(environ)
    found = [environ.get("CLAUDE_CONFIG_DIR"), os.path.join(home, ".claude"), os.path.join(home, ".config/claude")]
    return list(dict.fromkeys(os.path.abspath(path) for path in found if path))


def nearest(directory: str, marks: Collection[str]) -> str:
    """The nearest directory from here up in which one of some names stands; else this."""
    path = directory
    while path != os.path.dirname(path):
        if any(os.path.exists(os.path.join(path, name)) for name in marks):
            return path
        path = os.path.dirname(path)
    return directory
