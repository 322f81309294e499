"""`mulligan statusline`: one line for the status line of an agent."""

from __future__ import annotations

import argparse
import json
import os
import signal
from typing import Any, NoReturn

from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.amounts import ago, counted
from mulligan.client.render.text import cut, visible
from mulligan.errors import DaemonNotRunningError, MulliganError

SUMMARY = "Prints one line for an agent's status line: checkpoints, what is wrong, what comes next; never takes long."
EXAMPLES = ("mulligan statusline < input.json", "echo '{}' | mulligan statusline")

#: The agent waits for it; what is not known by then is not shown.
_SECONDS = 0.12
_DOT = " · "
#: Cells of a text.
_TEXT = 24


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.set_defaults()


def run(_args: argparse.Namespace, context: Context) -> int:
    """Reads what the agent says of itself on stdin; always exit 0."""

    def give_up(*_: Any) -> NoReturn:
        os.write(1, b"mulligan: busy\n")
        os._exit(0)

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    try:
        found = _ask(_told(), context)
    except DaemonNotRunningError:
        found = {"line": "mulligan: not running"}
    except MulliganError as error:
        found = {"line": f"mulligan: {visible(error.message)}"}
    signal.setitimer(signal.ITIMER_REAL, 0)
    return context.emit(found, lambda result: context.line(cut(result["line"], context.width)))


def _told() -> dict[str, Any]:
    """What the agent says of itself; nothing if that is odd or there is nobody to say it."""
    try:
        told = json.loads(b"" if os.isatty(0) else _stdin())
    except (OSError, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _stdin() -> bytes:
    data = b""
    while part := os.read(0, 1 << 16):
        data += part
    return data


def _ask(told: dict[str, Any], context: Context) -> JsonObject:
    workspace = told.get("workspace")
    directory = workspace.get("project_dir") if isinstance(workspace, dict) else None
    directory = directory if isinstance(directory, str) else told.get("cwd")
    directory = directory if isinstance(directory, str) else context.directory()
    session = told.get("session_id")
    project = context.call("daemon.status", project=directory).get("project")
    if not project:
        return {"project": None, "line": "mulligan: NOT protected"}
    state: JsonObject = {}
    if isinstance(session, str):
        try:
            state = context.call("state.load", project=directory, session=session)
        except MulliganError:
            state = {}  # the line is about files first
    task = state.get("state") if state.get("exists") and not state.get("synthesized") else None
    parts = [_protection(project), *_alarm(project), *_task(task), _newest(project, context.now())]
    line = "mulligan " + _DOT.join(part for part in parts if part)
    return {"project": project.get("path"), "checkpoints": project.get("checkpoints"), "line": line}


def _protection(project: JsonObject) -> str:
    state = str(project.get("state"))
    if state == "watching":
        return counted(int(project.get("checkpoints") or 0), "checkpoint")
    return "first look at the files" if state == "baseline" else f"NOT protected: {state}"


def _newest(project: JsonObject, now: float) -> str:
    newest = project.get("newest_checkpoint")
    if not isinstance(newest, dict) or not newest.get("timestamp"):
        return ""
    text = visible(" ".join(str(newest.get("description") or newest.get("trigger") or "").split()))
    return f"newest {ago(str(newest['timestamp']), now)}: {cut(text, _TEXT)}"


def _alarm(project: JsonObject) -> list[str]:
    """The latest burst of losses that nobody has looked after."""
    alarms = project.get("alarms") or []
    if not alarms:
        return []
    count = int(alarms[0].get("vanished") or 0) + int(alarms[0].get("emptied") or 0)
    return [f"{counted(count, 'file')} LOST: mulligan rescue"]


def _task(state: Any) -> list[str]:
    if not isinstance(state, dict):
        return []
    words = [visible(" ".join(str(state[key]).split())) for key in ("title", "next") if state.get(key)]
    return [" → ".join(cut(word, _TEXT) for word in words)] if words else []
