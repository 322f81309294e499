"""state.save, load, status, clear, list, load_snapshot, restore_snapshot, backup, check."""

from __future__ import annotations

import os
from typing import Annotated, Any

from msgspec import Meta

from mulligan.clock import to_rfc3339
from mulligan.control.caller import SessionParams, caller
from mulligan.control.methods import Params, method
from mulligan.control.services import Call
from mulligan.control.state_objects import shown_session, snapshot_object, state_fields
from mulligan.errors import RefusedError, UsageError
from mulligan.store.state_files import back_up, check_file
from mulligan.taskstate.schema import check, check_name, count_steps


class SaveParams(SessionParams, frozen=True, kw_only=True):
    """`state` is merged into what is stored; `snapshot` is a name under which the result is kept as well."""

    state: dict[str, Any]
    snapshot: str | None = None


class ClearParams(SessionParams, frozen=True, kw_only=True):
    """`dry_run` says what there is; anything else needs `confirmed`."""

    dry_run: bool = False
    confirmed: bool = False


class ListParams(SessionParams, frozen=True, kw_only=True):
    """Newest first; no `limit` means all."""

    limit: Annotated[int, Meta(ge=0)] | None = None


class NameParams(SessionParams, frozen=True, kw_only=True):
    """One snapshot by its name."""

    name: str


class BackupParams(Params, frozen=True, kw_only=True):
    """An absolute path at which there is nothing."""

    path: str


class CheckParams(Params, frozen=True, kw_only=True):
    """There are no parameters."""


@method("state.save", SaveParams)
def save(call: Call, params: SaveParams) -> dict[str, Any]:
    """Merge into a session's task state, and keep the result under a name on request."""
    if params.snapshot is not None:
        check_name(params.snapshot)
    found = caller(call, params)
    states = call.services.states
    saved = states.save(found.session, found.project, params.state, params.snapshot or "")
    fields = state_fields(found.session, saved.state)
    snapshot = snapshot_object(saved.snapshot) if saved.snapshot else None
    return {**fields, "changed": saved.changed, "snapshot": snapshot}


@method("state.load", SessionParams)
def load(call: Call, params: SessionParams) -> dict[str, Any]:
    """A session's whole task state."""
    found = caller(call, params)
    return state_fields(found.session, call.services.states.load(found.session))


@method("state.status", SessionParams)
def status(call: Call, params: SessionParams) -> dict[str, Any]:
    """Whether there is a state, when it changed, and what it counts."""
    found = caller(call, params)
    state = call.services.states.load(found.session)
    fields = state_fields(found.session, state)
    known = check(fields.pop("state") or {})
    return {
        **fields,
        "title": known.title if state else None,
        "status": known.status if state else None,
        "steps": count_steps(known),
        "blockers": len(known.blockers),
        "snapshots": len(call.services.states.snapshots(found.session)),
    }


@method("state.clear", ClearParams)
def clear(call: Call, params: ClearParams) -> dict[str, Any]:
    """Delete a session's task state with its snapshots and counters; no other session's."""
    found = caller(call, params)
    states = call.services.states
    session = shown_session(found.session)
    if params.dry_run or not params.confirmed:
        state = states.load(found.session)
        there = {
            "session_id": session,
            "cleared": False,
            "exists": state is not None,
            "title": check(state.value).title if state else None,
            "snapshots": len(states.snapshots(found.session)),
        }
        if params.dry_run:
            return there
        hint = "look at what it holds, then give --yes"
        raise RefusedError("clearing the task state was not confirmed; nothing was changed", hint=hint, plan=there)
    cleared, snapshots = states.clear(found.session)
    return {"session_id": session, "cleared": cleared, "snapshots": snapshots}


@method("state.list", ListParams)
def list_(call: Call, params: ListParams) -> dict[str, Any]:
    """A session's snapshots, newest first."""
    found = caller(call, params)
    snapshots = call.services.states.snapshots(found.session)[: params.limit]
    return {"session_id": shown_session(found.session), "snapshots": [snapshot_object(each) for each in snapshots]}


@method("state.load_snapshot", NameParams)
def load_snapshot(call: Call, params: NameParams) -> dict[str, Any]:
    """One snapshot's state; nothing is changed."""
    found = caller(call, params)
    snapshot = call.services.states.snapshot(found.session, params.name)
    return {"session_id": shown_session(found.session), **snapshot_object(snapshot), "state": snapshot.value}


@method("state.restore_snapshot", NameParams)
def restore_snapshot(call: Call, params: NameParams) -> dict[str, Any]:
    """Make a snapshot the state; what the state was is kept as a snapshot too."""
    found = caller(call, params)
    state, undo = call.services.states.restore_snapshot(found.session, params.name)
    return {
        "session_id": shown_session(found.session),
        "name": params.name,
        "undo": undo.name if undo else None,
        "updated_at": to_rfc3339(state.updated_at),
        "state": state.value,
    }


@method("state.backup", BackupParams)
def backup(call: Call, params: BackupParams) -> dict[str, Any]:
    """Copy the state database into a file of its own while it is in use."""
    if not os.path.isabs(params.path) or "\0" in params.path:
        raise UsageError("the file of a backup is not an absolute path", hint="give the whole path")
    return {"path": params.path, "bytes": back_up(call.services.state.path, params.path)}


@method("state.check", CheckParams)
def check_(call: Call, _params: CheckParams) -> dict[str, Any]:
    """Whether the state database is whole, as SQLite finds it; nothing is repaired."""
    found = check_file(call.services.state.path)
    return {
        "path": call.services.state.path,
        "schema_version": found.version,
        "newer": call.services.state.newer,
        "ok": not found.integrity and not found.foreign_keys,
        "integrity": found.integrity,
        "foreign_keys": found.foreign_keys,
    }
