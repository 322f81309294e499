"""Waiting until no agent is at work in a project.

A restore changes each file by an exchange and loses nothing whoever writes meanwhile; but an agent in the middle of its
work goes on with what it knew, over files that are other ones now.
"""

from __future__ import annotations

import os
import time

import msgspec

from mulligan.clock import NANOSECONDS
from mulligan.errors import BusyError
from mulligan.project.worker import ProjectWorker
from mulligan.session.state import CALL_TIMEOUT, State, at_work

_LOOK_SECONDS = 0.1


def sessions_at_work(worker: ProjectWorker) -> list[str]:
    """The sessions that are in the middle of a turn in a project, the most recently active first."""
    now = worker.now()
    found = worker.store.catalogue().db.execute(
        "select id, state, last from session where project = ? and last > ? and state != x'' order by last desc",
        (worker.project_id, now - CALL_TIMEOUT),
    )
    return [session for session, state, last in found if at_work(msgspec.msgpack.decode(state, type=State), now - last)]


def wait_for_quiet(worker: ProjectWorker, seconds: float) -> None:
    """Return when no session is at work; BusyError after so many seconds. Not for the worker's own thread."""
    until = worker.now() + int(seconds * NANOSECONDS)
    while found := sessions_at_work(worker):
        if worker.now() >= until:
            names = " and ".join(session[:8] for session in found)
            raise BusyError(
                f"session {names} is at work in {os.fsdecode(worker.root)}; nothing was changed",
                hint="wait for the end of its turn or interrupt it, or --force",
                sessions=found,
            )
        time.sleep(_LOOK_SECONDS)
