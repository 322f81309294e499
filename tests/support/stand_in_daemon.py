"""A daemon with no purpose but to be started: it speaks to systemd, answers, and tries what the unit allows.

Each line on the socket is answered by a JSON object: `probe` runs the probes, anything else says who it is. SIGHUP
reloads, SIGTERM ends it. The unit's hardening is tested with it, without the rest of mulligan.
"""

from __future__ import annotations

import asyncio
import ctypes
import ctypes.util
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from mulligan.paths import places
from mulligan.supervisor.activation import inherited_sockets
from mulligan.supervisor.notify import Notifier
from mulligan.supervisor.signals import handled

ADDED = sorted(name for name in os.environ if name.startswith(("MULLIGAN_", "CLAUDE_", "XDG_")))


def _inotify() -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(0o2000000)
    watched = libc.inotify_add_watch(descriptor, b"/tmp", 0x100)
    return "ok" if descriptor >= 0 and watched > 0 else os.strerror(ctypes.get_errno())


def _callback() -> str:
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda value: value + 1)
    return "ok" if compare(1) == 2 else "wrong"


def _exchange() -> str:
    with tempfile.TemporaryDirectory() as directory:
        one, two = Path(directory, "one"), Path(directory, "two")
        one.touch()
        two.mkdir()
        libc = ctypes.CDLL(None, use_errno=True)
        done = libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(two), 2)
        return "ok" if done == 0 and one.is_dir() else os.strerror(ctypes.get_errno())


def _setgid() -> str:
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o2775)
        return "ok" if os.stat(directory).st_mode & 0o2000 else "lost"


def _database() -> str:
    with tempfile.TemporaryDirectory() as directory:
        connection = sqlite3.connect(Path(directory, "x.db"))
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (a)")
        connection.close()
    return "ok"


def _child() -> str:
    code = "import os; os.nice(5); os.sync(); print('ok')"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def _owner() -> str:
    return "ok" if os.stat("/").st_uid == 0 else f"/ belongs to {os.stat('/').st_uid}"


def _syncfs() -> str:
    descriptor = os.open("/tmp", os.O_RDONLY)
    return "ok" if ctypes.CDLL(None).syncfs(descriptor) == 0 else "failed"


def _internet() -> str:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        return f"refused: {error.strerror}"
    return "allowed"


PROBES: dict[str, Callable[[], str]] = {
    "inotify": _inotify,
    "callback": _callback,
    "exchange": _exchange,
    "setgid": _setgid,
    "database": _database,
    "child": _child,
    "owner": _owner,
    "syncfs": _syncfs,
    "internet": _internet,
}


def _probe() -> dict[str, str]:
    found = {}
    for name, run in PROBES.items():
        try:
            found[name] = run()
        except (OSError, MemoryError, sqlite3.Error, subprocess.SubprocessError) as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


async def _serve() -> None:
    notifier = Notifier(os.environ)
    inherited = inherited_sockets(os.environ)
    stopped = asyncio.Event()
    reloads = 0

    def reload() -> None:
        nonlocal reloads
        reloads += 1
        notifier.reloading()
        notifier.ready(f"reloaded {reloads} times")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readline()
        said = {"pid": os.getpid(), "activated": bool(inherited), "reloads": reloads, "names": ADDED}
        said["values"] = [os.environ[name] for name in ADDED]
        writer.write(json.dumps(_probe() if asked.strip() == b"probe" else said).encode() + b"\n")
        await writer.drain()
        writer.close()

    if inherited:
        server = await asyncio.start_unix_server(answer, sock=inherited[0].socket)
    else:
        Path(places().runtime_dir).mkdir(mode=0o700, exist_ok=True)
        server = await asyncio.start_unix_server(answer, places().socket)
    with handled(asyncio.get_running_loop(), stop=stopped.set, reload=reload):
        notifier.ready("watching nothing at all")
        while not stopped.is_set():
            notifier.alive()
            try:
                await asyncio.wait_for(stopped.wait(), notifier.watchdog_seconds)
            except TimeoutError:
                continue
    notifier.stopping()
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve())
