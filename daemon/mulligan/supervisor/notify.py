"""What the daemon tells systemd: ready, reloading, stopping, alive, and one line of status.

The protocol of sd_notify(3) by the standard library. Without NOTIFY_SOCKET every call does nothing, and a service
manager that does not listen is no error: the daemon is there for its user.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, MutableMapping

_log = logging.getLogger(__name__)
STATUS_LIMIT = 200


class Notifier:
    """The line to the service manager.

    It takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment, so that no child speaks for the
    daemon. Messages are datagrams and never block; `monotonic` is CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(
        self,
        environ: MutableMapping[str, str],
        *,
        pid: int | None = None,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._monotonic = monotonic
        address = environ.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        usec = environ.pop("WATCHDOG_USEC", "")
        watched = environ.pop("WATCHDOG_PID", "") in ("", str(os.getpid() if pid is None else pid))
        microseconds = int(usec) if watched and usec.isascii() and usec.isdecimal() else 0
        #: How often `alive` is due: half of what the manager allows. None: nobody waits for it.
        self.watchdog_seconds: float | None = microseconds / 2_000_000 if microseconds else None

    @property
    def listening(self) -> bool:
        """Whether there is a manager to tell."""
        return self._address.startswith(("/", "\0"))

    def ready(self, status: str = "") -> None:
        """Start or reload is done; for the start only after the socket answers."""
        self._send("READY=1", status)

    def status(self, text: str) -> None:
        """What `systemctl --user status` shows; one line."""
        self._send("", text)

    def reloading(self) -> None:
        """A reload begins; `ready` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={self._monotonic() // 1000}")

    def stopping(self, status: str = "") -> None:
        """The daemon is on its way out."""
        self._send("STOPPING=1", status)

    def alive(self) -> None:
        """Put off the watchdog."""
        self._send("WATCHDOG=1")

    def extend(self, seconds: float) -> None:
        """Ask for so many more seconds to start or stop: a recovery may take its time."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1_000_000)}")

    def _send(self, message: str, status: str = "") -> None:
        if not self.listening:
            return
        if status:
            # A line break would begin another assignment.
            line = "".join(character if character.isprintable() else " " for character in status)
            message = f"{message}\nSTATUS={line[:STATUS_LIMIT]}".lstrip("\n")
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto(message.encode("utf-8", "replace"), self._address)
        except OSError as error:
            _log.debug("the service manager does not listen: %s", error)
