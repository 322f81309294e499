"""The task state that belongs to a position: shown with it, and taken along by restores and forks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mulligan.control.services import Call
from mulligan.control.state_objects import shown_session, state_fields
from mulligan.errors import MulliganError, PartialError
from mulligan.model import Checkpoint
from mulligan.project.conversation import Conversation, source_of
from mulligan.project.naming import Position
from mulligan.project.worker import ProjectWorker
from mulligan.taskstate.schema import manual_session
from mulligan.taskstate.store import TaskState

NONE_THEN = "the task state stays as it is: none was saved by then"


@dataclass(frozen=True, slots=True)
class Carried:
    """The state of a position, if there was one, and the session whose it was."""

    source: str
    state: TaskState | None


def state_of(call: Call, worker: ProjectWorker, made: Checkpoint) -> dict[str, Any] | None:
    """What `checkpoint.show` says of the state at a checkpoint's moment; None if there was none."""
    session = made.session or manual_session(worker.root)
    found = call.services.states.at(session, made.timestamp)
    return None if found is None else state_fields(session, found)


def carried(call: Call, worker: ProjectWorker, position: Position, session: str = "") -> Carried:
    """The state that a position takes along; `session` is one that was asked for."""
    source = source_of(position, session) or manual_session(worker.root)
    moment = position.checkpoint.timestamp if position.checkpoint else position.cut.moment
    return Carried(source, call.services.states.at(source, moment))


def restored_state(
    call: Call,
    worker: ProjectWorker,
    position: Position,
    session: str,
    conversation: Conversation | None,
    warnings: list[str],
    operation: str = "",
    *,
    done: bool,
) -> dict[str, Any]:
    """What bringing the state adds to the answer of a restore: `state`, and a warning if there was none then.

    A conversation that was copied is a session of its own, and gets the state; the one that it was of keeps its own.
    """
    found = carried(call, worker, position, session)
    copied = conversation.session if conversation is not None and conversation.there else ""
    if found.state is None:
        return {"state": None, "warnings": [*warnings, NONE_THEN]}
    if done:
        return brought(call, found, copied or found.source, worker.root, warnings, "" if copied else operation)
    return {"state": planned_state(found, "" if copied else found.source)}


def brought(
    call: Call, found: Carried, session: str, project: bytes, warnings: list[str], operation: str = ""
) -> dict[str, Any]:
    """Make a position's state a session's own; what it had is kept as a snapshot. What that adds to the answer.

    Files and conversation are there already, so that a state that cannot be written is only a warning, and exit 3.
    """
    if found.state is None:
        return {"state": None}
    try:
        state, undo = call.services.states.replace(session, project, found.state.value, operation)
    except MulliganError as error:
        warning = f"the task state was not brought: {error.message}"
        return {"state": None, "warnings": [*warnings, warning], "exit_status": PartialError.exit_status}
    return {"state": {**state_fields(session, state), "undo": undo.name if undo else None}}


def planned_for_fork(found: Carried, conversation: Conversation) -> dict[str, Any]:
    """What a fork would take along: a state goes where a conversation goes on, and only there."""
    return {"state": planned_state(found) if conversation.there else None}


def brought_to_fork(
    call: Call, found: Carried, conversation: Conversation, project: bytes, warnings: list[str]
) -> dict[str, Any]:
    """What a fork's new session has of a position's state."""
    if conversation.there:
        return brought(call, found, conversation.session, project, warnings)
    missing = [] if found.state is None else ["the task state was not copied: it goes where a conversation goes on"]
    return {"state": None, "warnings": [*warnings, *missing]}


def planned_state(found: Carried, session: str = "") -> dict[str, Any] | None:
    """What would be brought; `session` whose it would be, "" for one that there is not yet."""
    if found.state is None:
        return None
    return {**state_fields(found.source, found.state), "session_id": shown_session(session) or None, "undo": None}


def take_state_back(call: Call, undone: str, operation: str) -> list[str]:
    """The state that a restore had replaced comes back with its undo, unless it was changed since; what to say."""
    try:
        found = call.services.states.take_back(undone, operation)
    except MulliganError as error:
        return [f"the task state stays as it is: {error.message}"]
    if found is None:
        return []
    session, snapshot, done = found
    if done:
        return [f"the task state of session {shown_session(session)[:8]} went back too"]
    command = f"mulligan state restore-snapshot {snapshot} --session {shown_session(session)}"
    return [f"the task state was changed since, and stays; what it was before the restore: {command}"]
