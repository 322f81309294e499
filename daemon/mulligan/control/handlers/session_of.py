"""session.of: whose call a program inside of an agent's client answers, while the client's session changes."""

from __future__ import annotations

import re
import time
from typing import Annotated, Any

from msgspec import Meta

from mulligan.clock import NANOSECONDS, to_rfc3339
from mulligan.control.caller import own
from mulligan.control.methods import Params, method
from mulligan.control.services import Call
from mulligan.errors import AmbiguousError, NotFoundError, UsageError
from mulligan.project.naming import RECENT
from mulligan.project.worker import ProjectWorker
from mulligan.taskstate.schema import MANUAL
from mulligan.transcript.locate import live_clients

_ID = re.compile(r"[A-Za-z0-9][\w.:-]{0,127}\Z")
#: A call is known by its line in the transcript, which clients hold back until the model's message has ended.
_LINE_SECONDS, _LOOK_SECONDS = 1.5, 0.02


class SessionOfParams(Params, frozen=True, kw_only=True):
    """What is known of the client: its process, its session when the program was started and how long ago that was.

    `call` is the id of the tool call that is being answered, `tool` the tool's own name. Nothing of it has to be given.
    `own` is an id that an agent has given to itself; then nothing else counts.
    """

    project: str
    session: str = ""
    pid: Annotated[int, Meta(ge=0)] = 0
    call: str = ""
    tool: str = ""
    age_seconds: Annotated[float, Meta(ge=0)] = 0.0
    own: str = ""


@method("session.of", SessionOfParams)
def session_of(call: Call, params: SessionOfParams) -> dict[str, Any]:
    """The session that a client is in now, by its process, its tool call, its environment or its activity."""
    if params.own:
        mine = own(call, params.own, params.project).session
        return {"session_id": None if mine.startswith(MANUAL) else mine, "source": "own"}
    for name in (params.session, params.call):
        if name and not _ID.match(name):
            raise UsageError(f'"{name[:80]}" is no id of a session or call', hint="ids are letters, digits, - and _")
    if params.pid:
        for client in live_clients(call.services.claude_config_dirs):
            if client.pid == params.pid:
                _await(call, "select id from session where id = ?", client.session)
                return {"session_id": client.session, "source": "client"}
    if params.call and (found := _await(call, "select session from call where id = ?", params.call)):
        return {"session_id": found, "source": "call"}
    try:
        worker = call.worker(params.project)
    except NotFoundError:  # a directory that is not protected has no sessions; its state may be kept all the same
        return {"session_id": params.session or None, "source": "environment" if params.session else None}
    return _by_activity(call, worker, params)


def _await(call: Call, query: str, name: str) -> str:
    """The session that a line will tell of which may be on its way; "" if it does not come."""
    until = time.monotonic() + _LINE_SECONDS
    while True:
        found = call.services.store.catalogue().db.execute(query, (name,)).fetchone()
        if found is not None:
            return str(found[0])
        if time.monotonic() > until:
            return ""
        time.sleep(_LOOK_SECONDS)


def _by_activity(call: Call, worker: ProjectWorker, params: SessionOfParams) -> dict[str, Any]:
    """The session that was named, unless others were active since then and it was not; else the only active one."""
    now = call.services.store.clock.now()
    query = "select id, last from session where project = ? and last >= ? order by last desc"
    recent: list[tuple[str, int]] = (
        call.services.store.catalogue().db.execute(query, (worker.project_id, now - RECENT)).fetchall()
    )
    started = now - int(params.age_seconds * NANOSECONDS)
    since = [(session, last) for session, last in recent if last >= started] if params.age_seconds else []
    if params.session and (not since or any(session == params.session for session, _ in since)):
        return {"session_id": params.session, "source": "environment"}
    meant = since or recent
    since_when = started if params.age_seconds else now - RECENT
    if params.tool and len(calling := _calling(call, worker, params.tool, since_when)) == 1:
        return {"session_id": calling[0], "source": "call"}
    if params.session or len(meant) > 1:
        raise _ambiguous(call, worker, meant, params.session)
    return {"session_id": meant[0][0], "source": "activity"} if meant else {"session_id": None, "source": None}


def _calling(call: Call, worker: ProjectWorker, tool: str, since: int) -> list[str]:
    """The sessions that have called a tool of ours since then and await its result.

    Clients put the server's name before the tool's; one who named it otherwise is not known by this.
    """
    query = "select session, name from call where project = ? and start >= ? and end = 0"
    found = call.services.store.catalogue().db.execute(query, (worker.project_id, since))
    return sorted({str(session) for session, name in found if "mulligan" in name and name.endswith(f"_{tool}")})


def _ambiguous(call: Call, worker: ProjectWorker, meant: list[tuple[str, int]], named: str) -> AmbiguousError:
    names = call.names(worker)
    candidates = [
        {"id": session, "last_activity": to_rfc3339(last), "first_words": names.first_words(session)}
        for session, last in meant
    ]
    shown = "; ".join(f'{one["id"]} "{one["first_words"]}"' for one in candidates[:5])
    what = (
        f"the client began with session {named}, and since then others were active" if named else "several are active"
    )
    return AmbiguousError(
        f"it is not certain which session this is: {what}",
        hint=f"start the program with MULLIGAN_SESSION set to one of: {shown}",
        candidates=candidates,
    )
