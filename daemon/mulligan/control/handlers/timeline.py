"""timeline.get: the tree of a session's checkpoints."""

from __future__ import annotations

from typing import Any

from mulligan.control.methods import Params, method
from mulligan.control.nesting import nested_fields
from mulligan.control.objects import checkpoint_object, show_path
from mulligan.control.services import Call
from mulligan.session_ids import MANUAL_SESSION


class TimelineParams(Params, frozen=True, kw_only=True):
    """`session` "" means every checkpoint of the project in one tree, whose session is the most recently active one.

    `flat`: a list instead of the tree, which every parser takes, and quickly.
    """

    project: str
    session: str = ""
    flat: bool = False


@method("timeline.get", TimelineParams)
def get(call: Call, params: TimelineParams) -> dict[str, Any]:
    """The tree, with the current checkpoint marked."""
    worker = call.worker(params.project)
    catalogue = call.services.store.catalogue()
    session = call.names(worker).session(params.session) if params.session else ""
    if session:
        found = catalogue.checkpoints("project = ? and session = ?", (worker.project_id, session))
    else:
        found = catalogue.checkpoints("project = ?", (worker.project_id,))
    objects = [checkpoint_object(made, worker.root) for made in found]
    settings = call.services.settings.effective(show_path(worker.root), session)
    return {
        "session_id": session or call.names(worker).session("") or MANUAL_SESSION,
        **({"checkpoints": objects} if params.flat else nested_fields(objects)),
        "current_checkpoint_id": catalogue.current(worker.project_id, session) or None,
        "auto_checkpoint_enabled": settings["auto_checkpoint"]["value"],
        "checkpoint_strategy": settings["strategy"]["value"],
        "total_checkpoints": len(found),
    }
