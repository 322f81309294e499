"""The objects of the protocol that tell of task states."""

from __future__ import annotations

from typing import Any

from mulligan.clock import to_rfc3339
from mulligan.session_ids import MANUAL_SESSION
from mulligan.taskstate.schema import MANUAL
from mulligan.taskstate.store import Snapshot, TaskState


def shown_session(session: str) -> str:
    """A session's id as it is told; a project's own is `manual`, as everywhere."""
    return MANUAL_SESSION if session.startswith(MANUAL) else session


def state_fields(session: str, state: TaskState | None) -> dict[str, Any]:
    """What `state.load` says of a session's state; `state` is null if there is none."""
    return {
        "session_id": shown_session(session),
        "exists": state is not None,
        "synthesized": state is not None and state.synthesized,
        "updated_at": to_rfc3339(state.updated_at) if state else None,
        "state": state.value if state else None,
    }


def snapshot_object(snapshot: Snapshot) -> dict[str, Any]:
    """One snapshot, without its state."""
    title, status = snapshot.value.get("title"), snapshot.value.get("status")
    return {
        "name": snapshot.name,
        "kind": snapshot.kind,
        "timestamp": to_rfc3339(snapshot.taken),
        "title": title if isinstance(title, str) else "",
        "status": status if isinstance(status, str) else "active",
        "checkpoint_id": snapshot.checkpoint or None,
    }
