"""Named fault points: where the tests let the process die, or let the disk fail.

Without `MULLIGAN_FAULTS` in the environment a point costs one comparison. Its value is a list of
`name=action[@N]`, separated by commas: at the Nth pass (the first without N) of the point, the process kills itself
(`kill`), raises OSError (`enospc`, `eio`), or waits until the file named by `MULLIGAN_FAULT_GATE` exists (`wait`).
Every point that was hit is appended to the file named by `MULLIGAN_FAULT_LOG`: a test can tell a hit from a miss.
"""

from __future__ import annotations

import errno
import os
import signal
import time


def _parse(text: str) -> dict[str, tuple[str, int]]:
    found = {}
    for item in filter(None, text.split(",")):
        name, _, action = item.partition("=")
        action, _, count = action.partition("@")
        found[name] = (action, int(count or 1))
    return found


_armed = _parse(os.environ.get("MULLIGAN_FAULTS", ""))
_passes: dict[str, int] = {}


def point(name: str) -> None:
    """Pass a fault point."""
    if _armed and name in _armed:
        _hit(name)


def _hit(name: str) -> None:
    action, count = _armed[name]
    _passes[name] = _passes.get(name, 0) + 1
    if _passes[name] != count:
        return
    if log := os.environ.get("MULLIGAN_FAULT_LOG"):
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, name.encode() + b"\n")
        os.close(fd)
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "wait":
        while not os.path.exists(os.environ["MULLIGAN_FAULT_GATE"]):
            time.sleep(0.005)
    else:
        number = {"enospc": errno.ENOSPC, "eio": errno.EIO}[action]
        raise OSError(number, os.strerror(number), f"fault point {name}")
