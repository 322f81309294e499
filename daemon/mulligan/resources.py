"""The files that mulligan ships beside its code: the annotated configuration, its schema, units and the launch agent;
and what agents are given, which lies in the package.

In a checkout (also an editable installation, whose copy would grow old, and an unpacked sdist) they are those of the
checkout; in a wheel they lie in `mulligan/share`. Standard library only: the client imports this module.
"""

from __future__ import annotations

from pathlib import Path

from mulligan.errors import NotFoundError

_PACKAGE = Path(__file__).resolve().parent

DEFAULT_CONFIG = "config/default.yaml"
CONFIG_SCHEMA = "config/schema.json"
SERVICE_UNIT = "systemd/mulligand.service"
SOCKET_UNIT = "systemd/mulligand.socket"
LAUNCH_AGENT = "launchd/dev.mulligan.daemon.plist"


def share_directory(package: Path = _PACKAGE) -> Path:
    """The directory that holds `config`, `systemd` and `launchd`."""
    root = package.parent.parent
    # `../../config` of an installed package may be anybody's; a checkout is known by its own two marks.
    if package.parent.name == "daemon" and (root / "pyproject.toml").is_file():
        return root
    return package / "share"


def find(name: str, package: Path = _PACKAGE) -> Path:
    """The path of a shipped file. Raises NotFoundError if the installation lacks it."""
    return _there(share_directory(package) / name)


def plugin(name: str) -> Path:
    """The path of a file that an agent is given. Raises NotFoundError if the installation lacks it."""
    return _there(_PACKAGE / "agents" / "plugins" / name)


def _there(path: Path) -> Path:
    if not path.is_file():
        raise NotFoundError(f"this installation of mulligan lacks {path}", hint="install mulligan anew")
    return path


def read(name: str) -> str:
    """The text of a shipped file. Raises NotFoundError."""
    return find(name).read_text(encoding="utf-8")
