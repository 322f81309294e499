"""Waiting until the agents in a project are quiet.

A restore changes each file by an exchange and loses nothing, whoever writes meanwhile. But what a call writes while the
tree is put back stands in a tree that nobody meant, so a restore waits for a pause between the calls. It does not wait
for the end of the turn: that may be an hour away, or never come if the client was killed.
"""

from __future__ import annotations

import os
import time

import msgspec

from mulligan.clock import NANOSECONDS
from mulligan.errors import BusyError
from mulligan.project.worker import ProjectWorker
from mulligan.session.programs import program_name, programs
from mulligan.session.state import CALL_TIMEOUT, State, at_work, call_open
from mulligan.session_ids import short_session

_LOOK_SECONDS = 0.1
#: A pause: no call is open, and for so long no line was written and nothing changed in the project. (Clients hold lines
#: back while a message is streamed to them, and run its tools meanwhile.)
PAUSE = 2 * NANOSECONDS


def sessions_at_work(worker: ProjectWorker, *, pausing: bool = True, caller: str = "") -> list[str]:
    """The sessions that are in the middle of a turn in a project, or, of these, those that do not pause.

    `caller` is not among them: who asks by a call of its own waits for the answer. Nor is one of which the only open
    call is a shell command that runs mulligan: not all clients say in a command's environment which session it is of.
    """
    now = worker.now()
    changing = now - worker.health.last_capture < PAUSE
    found = worker.store.catalogue().db.execute(
        "select id, state, last from session where project = ? and last > ? and state != x'' order by last desc",
        (worker.project_id, now - CALL_TIMEOUT),
    )
    sessions = []
    for session, encoded, last in found:
        if session == caller:
            continue
        state, silence = msgspec.msgpack.decode(encoded, type=State), now - last
        if not at_work(state, silence) or _asks(worker, state):
            continue
        if pausing or changing or silence < PAUSE or call_open(state):
            sessions.append(session)
    return sessions


def _asks(worker: ProjectWorker, state: State) -> bool:
    """Whether all that a session waits for is a command of ours."""
    calls = [tool for tool, call in state.calls.items() if not call.closed]
    query = "select command from call where id = ?"
    found = [worker.store.catalogue().db.execute(query, (tool,)).fetchone() for tool in calls]
    return bool(found) and all(row is not None and _runs_mulligan(row[0]) for row in found)


def _runs_mulligan(command: str) -> bool:
    runs, _ = programs(command)
    return any(run.words and program_name(run.words[0]) == "mulligan" for run in runs)


def wait_for_quiet(worker: ProjectWorker, seconds: float, caller: str = "") -> None:
    """Return when every session but the caller's pauses; BusyError after so many seconds.

    Not for the worker's own thread.
    """
    until = worker.now() + int(seconds * NANOSECONDS)
    while found := sessions_at_work(worker, pausing=False, caller=caller):
        if worker.now() >= until:
            names = " and ".join(short_session(session) for session in found)
            raise BusyError(
                f"session {names} is at work in {os.fsdecode(worker.root)}; nothing was changed",
                hint="wait for the end of its turn or interrupt it, or --force",
                sessions=found,
            )
        time.sleep(_LOOK_SECONDS)
