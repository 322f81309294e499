"""file.recent and message.track: what programs ask for by API."""

from __future__ import annotations

from typing import Any

from mulligan.clock import NANOSECONDS, to_rfc3339
from mulligan.control.methods import Params, method
from mulligan.control.objects import path_fields
from mulligan.control.services import Call
from mulligan.store.catalogue import join_path


class RecentParams(Params, frozen=True, kw_only=True):
    """`since` is a number of seconds back from now."""

    project: str
    since: int = 300
    limit: int = 100


@method("file.recent", RecentParams)
def recent(call: Call, params: RecentParams) -> dict[str, Any]:
    """The files that changed lately, newest first."""
    worker = call.worker(params.project)
    now = call.services.store.clock.now()
    cursor = call.services.store.catalogue().db.execute(
        "select dir, name, kind, size, at from path where project = ? and at >= ? and kind in (0, 1, 3)"
        " order by at desc limit ?",
        (worker.project_id, now - params.since * NANOSECONDS, params.limit),
    )
    return {
        "files": [
            {
                **path_fields(join_path(directory, name)),
                "is_deleted": kind == 0,
                "size": size,
                "timestamp": to_rfc3339(at),
            }
            for directory, name, kind, size, at in cursor
        ]
    }


class TrackParams(Params, frozen=True, kw_only=True):
    """One transcript line of a session that runs in a project."""

    session: str
    project: str
    line: str


@method("message.track", TrackParams)
def track(call: Call, params: TrackParams) -> dict[str, Any]:
    """Take a transcript line as if it had been read from the session's file."""
    return call.services.track(params.session, params.project, params.line)
