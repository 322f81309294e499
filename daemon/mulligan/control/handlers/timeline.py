"""timeline.get: the tree of a session's checkpoints."""

from __future__ import annotations

from typing import Any

from mulligan.control.methods import Params, method
from mulligan.control.objects import checkpoint_object, show_path
from mulligan.control.services import Call
from mulligan.model import Checkpoint
from mulligan.project.checkpoints import MANUAL_SESSION


class TimelineParams(Params, frozen=True, kw_only=True):
    """`session` "" means every checkpoint of the project in one tree, whose session is the most recently active one."""

    project: str
    session: str = ""


def tree(checkpoints: list[Checkpoint], project_path: bytes) -> list[dict[str, Any]]:
    """The roots with their children, by ordinal; a checkpoint whose parent is not among them is a root.

    Made without recursion: a linear history of thousands is as deep as it is long.
    """
    nodes: dict[str, dict[str, Any]] = {
        made.id: {"checkpoint": checkpoint_object(made, project_path), "children": []} for made in checkpoints
    }
    roots: list[dict[str, Any]] = []
    for made in sorted(checkpoints, key=lambda made: made.ordinal):
        siblings = nodes[made.parent]["children"] if made.parent in nodes else roots
        siblings.append(nodes[made.id])
    return roots


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
    roots = tree(found, worker.root)
    settings = call.services.settings.effective(show_path(worker.root), session)
    return {
        "session_id": session or call.names(worker).session("") or MANUAL_SESSION,
        "root_node": roots[0] if roots else None,
        "roots": roots,
        "current_checkpoint_id": catalogue.current(worker.project_id, session) or None,
        "auto_checkpoint_enabled": settings["auto_checkpoint"]["value"],
        "checkpoint_strategy": settings["strategy"]["value"],
        "total_checkpoints": len(found),
    }
