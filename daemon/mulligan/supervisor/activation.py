"""The sockets that systemd bound before it started the daemon: clients that come first wait instead of failing."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass

from mulligan.errors import ConfigError

FIRST_DESCRIPTOR = 3
_MOST = 64


@dataclass(frozen=True, slots=True)
class Inherited:
    """A listening Unix stream socket and its name in the socket unit."""

    name: str
    socket: socket.socket

    @property
    def path(self) -> str:
        """Where it is bound."""
        return os.fsdecode(self.socket.getsockname())


def inherited_sockets(
    environ: MutableMapping[str, str], *, pid: int | None = None, first: int = FIRST_DESCRIPTOR
) -> list[Inherited]:
    """The sockets that were handed to this very process; none when it was started otherwise.

    The variables are removed in any case and the descriptors are closed on exec, so that no child takes them for its
    own. Raises ConfigError for anything but a listening Unix stream socket: the socket unit is wrong, and starting
    again would not help.
    """
    owner, count = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
    names = environ.pop("LISTEN_FDNAMES", "").split(":")
    environ.pop("LISTEN_PIDFDID", None)
    if owner != str(os.getpid() if pid is None else pid) or not (count.isascii() and count.isdecimal()):
        return []
    found: list[Inherited] = []
    try:
        for index in range(min(int(count), _MOST)):
            name = names[index] if index < len(names) and names[index] else "unknown"
            found.append(Inherited(name, _listening(first + index, name)))
    except ConfigError:
        for item in found:
            item.socket.close()
        raise
    return found


def _listening(descriptor: int, name: str) -> socket.socket:
    try:
        os.set_inheritable(descriptor, False)
        taken = socket.socket(fileno=descriptor)
        fits = (
            taken.family == socket.AF_UNIX
            and taken.type == socket.SOCK_STREAM
            and taken.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        )
    except OSError as error:
        raise _wrong(descriptor, name, error.strerror or "not a socket") from error
    if not fits:
        taken.close()
        raise _wrong(descriptor, name, "not a listening Unix stream socket")
    taken.setblocking(False)
    return taken


def _wrong(descriptor: int, name: str, reason: str) -> ConfigError:
    return ConfigError(
        f"descriptor {descriptor} ({name}) from the service manager: {reason}",
        hint="write the units anew with: mulligan service install",
    )
