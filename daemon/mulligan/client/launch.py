"""Starting and stopping the daemon: through the service where there is one, else as a detached process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

from mulligan.client.connection import Connection, JsonObject, connect
from mulligan.client.context import Context
from mulligan.client.render.text import visible
from mulligan.errors import BusyError, ConfigError, DaemonNotRunningError, LockedError, MulliganError
from mulligan.paths import Places, absolute_environment, places

#: A start may finish interrupted operations first, a stop the write in hand.
START_SECONDS = 120.0
STOP_SECONDS = 60.0
_POLL_SECONDS = 0.02
#: What a detached daemon says before its own log is open, and tracebacks that nothing else would hold.
OUTPUT_NAME = "mulligand.err"


def answering(context: Context) -> JsonObject | None:
    """What the daemon says to a greeting, or None if none answers."""
    try:
        connection = connect(context.environ, context.options.socket)
    except DaemonNotRunningError:
        return None
    try:
        return connection.hello()
    except DaemonNotRunningError:
        return None
    finally:
        connection.close()


def start(context: Context) -> bool:
    """Makes sure that a daemon answers; False if one did already. Raises what kept it from starting."""
    if answering(context) is not None:
        return False
    if has_service(context):
        from mulligan.service import platform  # noqa: PLC0415 - only where it is needed

        platform.run("start", context.environ)
        if not _wait(lambda: answering(context) is not None, START_SECONDS):
            raise MulliganError("the service was started and does not answer", hint="mulligan service logs")
        return True
    _start_detached(context)
    return True


def has_service(context: Context) -> bool:
    """Whether the daemon is the system's to start; a socket named on the command line is somebody else's daemon."""
    if context.options.socket:
        return False
    from mulligan.service import platform  # noqa: PLC0415

    return platform.is_installed(context.environ)


def _start_detached(context: Context) -> None:
    where = places(context.environ)
    environ = {**context.environ, **absolute_environment(context.environ), "MULLIGAN_DETACHED": "1"}
    if context.options.socket:
        environ["MULLIGAN_SOCKET"] = os.path.abspath(context.options.socket)
    output = _open_output(where)
    try:
        child = subprocess.Popen(
            [sys.executable, "-m", "mulligan.supervisor.main"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
            env=environ,
        )
    finally:
        os.close(output)
    if not _wait(lambda: child.poll() is not None or answering(context) is not None, START_SECONDS):
        raise BusyError(f"the daemon (pid {child.pid}) is still starting", hint="mulligan status, in a while")
    status = child.poll()
    if status is None:
        child.returncode = 0  # it lives on; the interpreter need not warn of it
        return
    if status == LockedError.exit_status and _wait(lambda: answering(context) is not None, 5.0):
        return  # another start was faster
    raise _early_end(status, os.path.join(where.state_dir, OUTPUT_NAME))


def _open_output(where: Places) -> int:
    """The file for what the daemon prints, emptied, 0600 from its creation on, in a 0700 directory."""
    os.makedirs(os.path.dirname(where.state_dir), exist_ok=True)
    try:
        os.mkdir(where.state_dir, 0o700)
    except FileExistsError:
        pass
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(os.path.join(where.state_dir, OUTPUT_NAME), flags, 0o600)


def _early_end(status: int, output: str) -> MulliganError:
    """The error of a daemon that ended before it answered: its own words, its own exit status."""
    try:
        with open(output, encoding="utf-8", errors="replace") as file:
            said = [line.rstrip() for line in file.read()[-8192:].splitlines() if line.strip()]
    except OSError:
        said = []
    hint = f"its words are in {output}"
    last = said[-1] if said else "it said nothing"
    for index, line in enumerate(said):
        if line.startswith("mulligand: "):
            last = line.removeprefix("mulligand: ")
            hint = said[index + 1].strip() if index + 1 < len(said) and said[index + 1].startswith("  ") else hint
    for kind in (LockedError, ConfigError):
        if status == kind.exit_status:
            return kind(visible(last), hint=visible(hint), daemon_exit_status=status)
    return MulliganError(
        f"mulligand ended with {status}: {visible(last)}", hint=visible(hint), daemon_exit_status=status
    )


def stop(context: Context) -> bool:
    """Makes sure that no daemon answers; False if there was none. Returns when it is gone."""
    pid: int | None = None
    connection: Connection | None
    try:
        connection = connect(context.environ, context.options.socket)
    except DaemonNotRunningError:
        connection = None
    if connection is None and not has_service(context):
        return False
    if has_service(context):
        # Also when it does not run: its socket unit would start it at the next call.
        if connection is not None:
            connection.close()
        from mulligan.service import platform  # noqa: PLC0415

        platform.run("stop", context.environ)
        return connection is not None
    assert connection is not None
    try:
        status = connection.call("daemon.status")
        pid = (status.get("daemon") or {}).get("pid")
        connection.call("daemon.stop")
        closed = connection.wait_closed(STOP_SECONDS)
    except DaemonNotRunningError:
        closed = True
    finally:
        connection.close()
    if not closed or not _wait(lambda: not _runs(pid), STOP_SECONDS):
        raise MulliganError(f"the daemon (pid {pid}) does not end", hint="mulligan service logs")
    return True


def _runs(pid: int | None) -> bool:
    if pid is None or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """A process whose parent has not asked for its status has ended all the same (Linux; elsewhere: no)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"Z"
    except (OSError, IndexError):
        return False


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether a condition becomes true within that time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_SECONDS)
    return True
