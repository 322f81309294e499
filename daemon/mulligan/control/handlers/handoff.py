"""state.handoff: what the next one has to know of a session, as a file."""

from __future__ import annotations

from typing import Any

from mulligan.control.caller import SessionParams, caller
from mulligan.control.methods import method
from mulligan.control.objects import path_fields
from mulligan.control.services import Call
from mulligan.control.state_objects import shown_session


@method("state.handoff", SessionParams)
def handoff(call: Call, params: SessionParams) -> dict[str, Any]:
    """Make a session's hand-off anew; its path and its text."""
    found = caller(call, params)
    worker = call.services.registry.holding(found.project)
    if worker is not None:
        call.look(worker)  # what the session just did belongs in it
    path, text = call.services.handoffs.write(found.session, found.project)
    return {"session_id": shown_session(found.session), **path_fields(path), "text": text}
