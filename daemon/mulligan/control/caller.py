"""Whose task state a request means: the session that it names, the one that it comes from, else the active one.

If two could be meant it is an error that lists them, never a guess. A session keeps its state when its transcript, its
client or its project's directory is gone: it is found by its id.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from mulligan.control.methods import Params
from mulligan.control.services import Call
from mulligan.errors import AmbiguousError, NotFoundError, UsageError
from mulligan.project.naming import RECENT
from mulligan.session_ids import MANUAL_SESSION
from mulligan.store.records import SessionFact
from mulligan.taskstate.schema import MANUAL, manual_session
from mulligan.transcript.locate import LiveClient, live_clients

#: The ids that agents give: nobody types one of these by mistake, so that one which was not seen yet is believed.
_WHOLE_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z|ses_[0-9A-Za-z]{16,64}\Z")
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.:-]{0,199}\Z")


class SessionParams(Params, frozen=True, kw_only=True):
    """`session` is an id or the beginning of one.

    Without it `agent_session` and `agent_pid` are what the caller's environment says of the agent that it runs under,
    else `own_session` is the id that this agent has given to itself.
    """

    project: str = ""
    session: str = ""
    agent_session: str = ""
    agent_pid: int = 0
    own_session: str = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """A session, and the root of the project that it belongs to."""

    session: str
    project: bytes


def caller(call: Call, params: SessionParams) -> Caller:
    """The session that a request means. Raises UsageError, AmbiguousError, NotFoundError."""
    if params.session:
        return named(call, params.session, params.project)
    if params.agent_session or params.agent_pid:
        return _environments(call, params)
    if params.own_session:
        return own(call, params.own_session, params.project)
    return _active(call, params.project)


def named(call: Call, name: str, project: str) -> Caller:
    """The session of an id, or of the beginning of one, in whatever project it is."""
    if name == MANUAL_SESSION:
        root = project_root(call, project)
        return Caller(manual_session(root), root)
    if not _ID.match(name):
        raise UsageError(f"{name[:60]!a} is no session's id", hint="mulligan session list")
    found = _known(call, name)
    if name in found:
        return Caller(name, found[name])
    if len(found) == 1:
        return Caller(*found.popitem())
    if found:
        _ambiguous(f'"{name}" fits {len(found)} sessions', sorted(found))
    if _WHOLE_ID.match(name) and project:
        with suppress(NotFoundError):
            return Caller(name, project_root(call, project))
    hint = "give --project PATH if it is a new one" if _WHOLE_ID.match(name) else "mulligan session list --all"
    raise NotFoundError(f'no session "{name}" was seen', hint=hint)


def own(call: Call, name: str, project: str) -> Caller:
    """The session of an id that an agent has given to itself: exactly this one, which is new if it was not seen yet."""
    if name == MANUAL_SESSION:
        return named(call, name, project)
    if not _ID.match(name) or name.startswith(MANUAL):
        raise UsageError(
            f"MULLIGAN_SESSION: {name[:60]!a} is no session's id",
            hint=f"up to 200 letters, digits, - _ . and :, of which the first is one of the former; not {MANUAL}…",
        )
    store = call.services.store
    found = _known(call, name).get(name)
    root = project_root(call, project) if found is None else found
    query = "select 1 from session where id = ?"
    worker = call.services.registry.holding(root)
    if worker is not None and store.catalogue().db.execute(query, (name,)).fetchone() is None:
        now = store.clock.now()
        store.log.append([SessionFact(name, worker.project_id, b"", now, now)])
    return Caller(name, root)


def project_root(call: Call, project: str) -> bytes:
    """The root of the project that holds a path; one that is protected no longer is known by its states alone."""
    if not project:
        raise UsageError("no project and no session is named", hint="give --session ID, or --project PATH")
    path = os.fsencode(os.path.realpath(project))
    worker = call.services.registry.holding(path)
    if worker is None and any(root == path for _, root in call.services.states.sessions()):
        return path
    return call.worker(project).root if worker is None else worker.root


def _known(call: Call, prefix: str) -> dict[str, bytes]:
    """Sessions by the beginning of their ids, those that the journal knows and those that have a state."""
    query = "select s.id, p.path from session s join project p on p.id = s.project where s.id >= ? and s.id < ?"
    arguments = (prefix, prefix + "\U0010ffff")
    seen = call.services.store.catalogue().db.execute(query, arguments).fetchall()
    return {str(session): bytes(root) for session, root in [*seen, *call.services.states.sessions(prefix)]}


def _environments(call: Call, params: SessionParams) -> Caller:
    """The session of the agent that a program runs under.

    An agent's environment stays what it was when the program began, while a cleared, resumed or forked conversation
    has another id: the client's own file says which one it has now.
    """
    clients = live_clients(call.services.claude_config_dirs)
    for client in clients:
        if client.pid == params.agent_pid:
            return named(call, client.session, client.cwd)
    if not params.agent_session:
        raise NotFoundError(f"no client with the number {params.agent_pid} runs", hint="give --session ID")
    found = named(call, params.agent_session, params.project)
    others = sorted({client.session for client in _of(call, found.project, clients)})
    if others and found.session not in others:
        _ambiguous(
            f"the session {found.session[:8]} of the environment has no client any more", [found.session, *others]
        )
    return found


def _active(call: Call, project: str) -> Caller:
    """The one whose client runs, else the one of the last day, else the last one that was, else the manual one."""
    root = project_root(call, project)
    running = sorted({client.session for client in _of(call, root, live_clients(call.services.claude_config_dirs))})
    if not running:
        seen = _sessions_of(call, root)
        now = call.services.store.clock.now()
        running = [session for session, last in seen.items() if last >= now - RECENT] or list(seen)[:1]
    if len(running) > 1:
        _ambiguous(f"{len(running)} sessions of this project could be meant", running)
    return Caller(running[0] if running else manual_session(root), root)


def _of(call: Call, root: bytes, clients: list[LiveClient]) -> list[LiveClient]:
    """The clients that work in a project."""
    registry = call.services.registry
    held = ((client, registry.holding(os.fsencode(client.cwd))) for client in clients)
    return [client for client, worker in held if worker is not None and worker.root == root]


def _sessions_of(call: Call, root: bytes) -> dict[str, int]:
    """A project's sessions and their last activity, the latest first."""
    query = "select s.id, s.last from session s join project p on p.id = s.project where p.path = ?"
    seen = {str(session): int(last) for session, last in call.services.store.catalogue().db.execute(query, (root,))}
    for session, updated in call.services.states.saved(root).items():
        if session != manual_session(root):
            seen[session] = max(seen.get(session, 0), updated)
    return dict(sorted(seen.items(), key=lambda item: -item[1]))


def _ambiguous(message: str, sessions: list[str]) -> NoReturn:
    shown = ", ".join(sessions[:8])
    raise AmbiguousError(message, hint=f"add --session: {shown}", candidates=[{"id": session} for session in sessions])
