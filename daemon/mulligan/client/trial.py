"""What `doctor` tries out: each check says what it found and what to do about it."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from mulligan import __version__
from mulligan.client.connection import JsonObject, read_address
from mulligan.client.context import Context
from mulligan.client.render.amounts import counted
from mulligan.errors import MulliganError
from mulligan.paths import claude_config_dirs, default_state_dirs

#: Directories that a machine should be able to watch besides those that are watched now.
SPARE_WATCHES = 8192
_INOTIFY = "/proc/sys/fs/inotify"


class Check(NamedTuple):
    """One finding: what was looked at, whether it is well, what was found, the next step if it is not."""

    name: str
    ok: bool
    found: str
    step: str = ""


def checks(context: Context) -> Iterator[Check]:
    """All checks, in an order in which each makes sense if the ones before it were well."""
    try:
        hello = context.connection().hello()
        status = context.call("daemon.status")
    except MulliganError as error:
        yield Check("daemon", False, error.message, error.hint)
        return
    daemon = status.get("daemon") or {}
    version = str(hello.get("version"))
    same = version == __version__
    yield Check("daemon", True, f"answers, pid {daemon.get('pid', '?')}")
    yield Check("version", same, f"daemon {version}, client {__version__}", "" if same else "mulligan restart")
    yield check_socket(context.connection().path)
    yield check_claude_dirs(context, daemon)
    yield from check_inotify(status)
    yield check_state(context)
    yield from scratch(context)


def check_socket(path: str) -> Check:
    """The socket and its directory are this user's alone."""
    try:
        modes = [stat.S_IMODE(os.stat(place).st_mode) for place in (path, os.path.dirname(path))]
    except OSError as error:
        return Check("socket", False, f"{path}: {error.strerror}", "mulligan restart")
    ok = not any(mode & 0o077 for mode in modes)
    step = "" if ok else f"chmod 600 {path}; chmod 700 {os.path.dirname(path)}"
    return Check("socket", ok, f"{path} ({modes[0]:04o} in {modes[1]:04o})", step)


def check_claude_dirs(context: Context, daemon: JsonObject) -> Check:
    """The daemon follows every transcript directory that this environment names."""
    theirs = daemon.get("claude_config_dirs")
    if not isinstance(theirs, list):
        addresses = [read_address(directory) for directory in default_state_dirs(context.environ)]
        theirs = next((address.get("claude_config_dirs") for address in addresses if address), None) or []
    mine = [path for path in claude_config_dirs(context.environ) if os.path.isdir(path)]
    known = {os.path.realpath(str(path)) for path in theirs}
    missing = [path for path in mine if os.path.realpath(path) not in known]
    if missing:
        step = "add it to claude_config_dirs in the configuration, then: mulligan restart"
        return Check("transcripts", False, f"the daemon does not follow {' '.join(missing)}", step)
    return Check("transcripts", True, f"the daemon follows {' '.join(map(str, theirs)) or 'no directory yet'}")


def check_inotify(status: JsonObject) -> Iterator[Check]:
    """The kernel's limits leave room for the projects (Linux)."""
    watches, instances = _limit("max_user_watches"), _limit("max_user_instances")
    if watches is None or instances is None:
        return
    projects = status.get("projects") or []
    needed = sum(int(project.get("dirs") or 0) for project in projects)
    wanted = 1 << (needed + SPARE_WATCHES - 1).bit_length()
    ok = watches >= needed + SPARE_WATCHES
    step = "" if ok else f"sudo sysctl fs.inotify.max_user_watches={max(wanted, 65536)}"
    yield Check("watches", ok, f"{watches:,} allowed, {needed:,} directories watched", step)
    enough = instances >= 32
    step = "" if enough else "sudo sysctl fs.inotify.max_user_instances=128"
    yield Check("instances", enough, f"{instances:,} allowed", step)


def _limit(name: str) -> int | None:
    try:
        with open(os.path.join(_INOTIFY, name), "rb") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def check_state(context: Context) -> Check:
    """The database of settings and task states is whole, as SQLite finds it; nothing is repaired."""
    try:
        found = context.call("state.check")
    except MulliganError as error:
        return Check("task state", False, error.message, error.hint)
    path = str(found.get("path"))
    wrong = [str(line) for key in ("integrity", "foreign_keys") for line in found.get(key) or []]
    if wrong:
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return Check("task state", False, f"{path}: {wrong[0]}{more}", "mulligan stop, then bring back a backup of it")
    if found.get("newer"):
        return Check("task state", False, f"{path} is of a newer version, and only read", "install that version")
    return Check("task state", True, f"whole, version {found.get('schema_version')}")


#: What the scratch project holds: name → (bytes, mode). Every kind of trouble that is cheap to try.
FILES: dict[bytes, tuple[bytes, int]] = {
    b"plain.txt": (b"one\ntwo\n", 0o644),
    b"run.sh": (b"#!/bin/sh\nexit 0\n", 0o755),
    b".env": (b"TOKEN=invented\n", 0o600),
    b"empty": (b"", 0o644),
    b"raw \xff\x00.bin".replace(b"\x00", b"-"): (bytes(range(256)) * 64, 0o644),
    b"deep/er/crlf.txt": (b"a\r\nb", 0o640),
}


def scratch(context: Context) -> Iterator[Check]:
    """Writes, captures, checkpoints, deletes and restores in a project of its own, which it removes again."""
    root = os.path.realpath(tempfile.mkdtemp(prefix="mulligan-doctor-"))
    added = False
    made: list[str] = []

    def step(name: str, action: Callable[[], str]) -> Check:
        started = time.monotonic()
        try:
            found = action()
        except MulliganError as error:
            return Check(name, False, error.message, error.hint or "mulligan service logs")
        except OSError as error:
            return Check(name, False, f"{root}: {error.strerror}", "make room in the temporary directory")
        return Check(name, True, f"{found} ({(time.monotonic() - started) * 1000:.0f} ms)")

    def add() -> str:
        nonlocal added
        context.call("project.add", project=root, wait=True)
        added = True
        return root

    def capture() -> str:
        write_files(root)
        context.call("watch.sync", project=root)
        return f"{counted(len(FILES), 'file')} written and captured"

    def checkpoint() -> str:
        result = context.call("checkpoint.create", project=root, description="doctor")
        made.append(str(result["checkpoint"]["id"]))
        if result["checkpoint"].get("complete") is False:
            raise MulliganError("the checkpoint is incomplete", hint="mulligan service logs")
        return made[0]

    def restore() -> str:
        for name in os.listdir(root):
            path = os.path.join(root, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        context.call("checkpoint.restore", project=root, id=made[0], confirmed=True)
        if wrong := differences(root):
            raise MulliganError(f"restored, and not equal: {', '.join(wrong)}", hint="mulligan verify")
        return "deleted, restored, bytes and modes equal"

    def remove() -> str:
        context.call("project.remove", project=root)
        return "the scratch project is gone"

    try:
        for name, action in (("add", add), ("capture", capture), ("checkpoint", checkpoint), ("restore", restore)):
            check = step(name, action)
            yield check
            if not check.ok:
                break
        if added:
            yield step("remove", remove)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def write_files(root: str) -> None:
    """Writes the files of the scratch project, each with its mode from its creation on."""
    for name, (data, mode) in FILES.items():
        path = os.path.join(os.fsencode(root), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
    os.symlink("plain.txt", os.path.join(root, "link"))
    os.mkdir(os.path.join(root, "hollow"))


def differences(root: str) -> list[str]:
    """The names that are not what `write_files` made them."""
    wrong = []
    for name, (data, mode) in FILES.items():
        path = os.path.join(os.fsencode(root), name)
        try:
            with open(path, "rb") as file:
                equal = file.read() == data and stat.S_IMODE(os.fstat(file.fileno()).st_mode) == mode
        except OSError:
            equal = False
        if not equal:
            wrong.append(name.decode("utf-8", "replace"))
    link, hollow = os.path.join(root, "link"), os.path.join(root, "hollow")
    if not os.path.islink(link) or os.readlink(link) != "plain.txt":
        wrong.append("link")
    if not os.path.isdir(hollow):
        wrong.append("hollow")
    return wrong
