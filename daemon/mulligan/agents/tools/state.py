"""The state of the caller's task: state_save and seven others, always of the caller's own session."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from mulligan.agents.plan_tokens import LIFETIME_SECONDS
from mulligan.agents.seat import Seat
from mulligan.agents.tool import (
    ANSWER_CHARACTERS,
    JsonObject,
    Tool,
    cut,
    flag,
    offset,
    page,
    paging,
    shortened,
    size,
    text,
    texts,
)
from mulligan.agents.tools.changes import TOKEN, TWO_STEPS
from mulligan.errors import RefusedError, UsageError

_SNAPSHOTS = 20
_ROOM = 2 * ANSWER_CHARACTERS


def _ask(seat: Seat, method: str, **params: Any) -> JsonObject:
    return seat.call(f"state.{method}", project=seat.project, session=seat.session(), **params)


def _save(seat: Seat, arguments: JsonObject) -> JsonObject:
    found = _ask(seat, "save", state=arguments["state"], snapshot=arguments.get("snapshot"))
    return {key: found[key] for key in ("session_id", "changed", "updated_at", "snapshot")}


def bounded(state: JsonObject, arguments: JsonObject) -> JsonObject:
    """A state within the room of an answer: what is too large is left out and named, or given in pages by itself."""
    keys = arguments.get("keys")
    if keys and (unknown := [key for key in keys if key not in state]):
        raise UsageError(f"the state has no {', '.join(unknown)}", hint=f"it has: {', '.join(state) or 'nothing'}")
    chosen = {key: state[key] for key in keys} if keys else dict(state)
    if keys and len(keys) == 1 and size(chosen) > _ROOM:
        whole = chosen[keys[0]]
        whole = whole if isinstance(whole, str) else json.dumps(whole, ensure_ascii=False)
        first = offset(arguments)
        last = min(len(whole), first + _ROOM)
        return {"text": whole[first:last], "next_cursor": str(last) if last < len(whole) else None}
    left: dict[str, int] = {}
    while size(chosen) > _ROOM:
        largest = max(chosen, key=lambda key: size(chosen[key]))
        left[largest] = size(chosen.pop(largest))
    return {"state": chosen, **({"left_out": left, "next_step": "ask for one of these in keys"} if left else {})}


def _load(seat: Seat, arguments: JsonObject) -> JsonObject:
    found = _ask(seat, "load")
    about = {key: found[key] for key in ("session_id", "exists", "synthesized", "updated_at")}
    return {**about, **bounded(found["state"] or {}, arguments)}


def _status(seat: Seat, _arguments: JsonObject) -> JsonObject:
    found = _ask(seat, "status")
    found.pop("version", None)
    return {key: cut(value) if isinstance(value, str) else value for key, value in found.items()}


def _list(seat: Seat, arguments: JsonObject) -> JsonObject:
    found = _ask(seat, "list")
    snapshots = [
        {
            key: cut(one[key], 120) if one[key] is not None else None
            for key in ("name", "kind", "timestamp", "title", "status")
        }
        for one in found["snapshots"]
    ]
    return {"session_id": found["session_id"], **page("snapshots", snapshots, arguments, _SNAPSHOTS)}


def _load_snapshot(seat: Seat, arguments: JsonObject) -> JsonObject:
    found = _ask(seat, "load_snapshot", name=arguments["name"])
    about = {key: found[key] for key in ("session_id", "name", "kind", "timestamp")}
    return {**about, **bounded(found["state"] or {}, arguments)}


def _restore_snapshot(seat: Seat, arguments: JsonObject) -> JsonObject:
    found = _ask(seat, "restore_snapshot", name=arguments["name"])
    about = {key: found[key] for key in ("session_id", "name", "undo", "updated_at")}
    return {**about, **bounded(found["state"] or {}, {})}


def _migrate(seat: Seat, arguments: JsonObject) -> JsonObject:
    found = _ask(seat, "migrate", adopt=arguments.get("adopt"), namespace=arguments.get("namespace"))
    return {
        "session_id": found["session_id"],
        "legacy": shortened(found["legacy"]),
        "foreign": shortened(found["foreign"]),
        "adopted": found["adopted"],
    }


def _clear(seat: Seat, arguments: JsonObject) -> JsonObject:
    session = seat.session()
    where = {"project": seat.project, "session": session}
    status = seat.call("state.status", **where)
    digest = hashlib.sha256(json.dumps(status, sort_keys=True).encode()).hexdigest()
    if token := arguments.get("token"):
        planned = seat.tokens.redeem(token, "state_clear", arguments, seat.project, session)
        if planned.digest != digest:
            raise RefusedError(
                "the state was changed since this was planned; nothing was cleared",
                hint="call state_clear without a token for a new plan",
            )
        found = seat.call("state.clear", **where, confirmed=True)
        return {"done": True, **{key: found[key] for key in ("session_id", "cleared", "snapshots")}}
    about = {key: status[key] for key in ("session_id", "exists", "title", "status", "snapshots", "updated_at")}
    if not status["exists"] and not status["snapshots"]:
        return {"done": False, "would_clear": about, "next_step": "there is nothing to clear"}
    return {
        "done": False,
        "would_clear": about,
        "token": seat.tokens.issue("state_clear", arguments, seat.project, session, {}, digest),
        "expires_in_seconds": LIFETIME_SECONDS,
        "next_step": "nothing was cleared yet: call state_clear with this token; it cannot be undone",
    }


_NAME = text("the snapshot's name, as state_list gives it", minLength=1)
_PARTS = {"keys": texts("only these keys of the state"), "cursor": text("next_cursor, for a single key that is long")}
TOOLS = (
    Tool(
        "state_save",
        "Save what you are doing, so that it outlives compaction, crashes and a change of model. The object is merged"
        " into the saved state: null deletes a key, lists of objects with an id merge by id, other lists are replaced."
        " Save after each finished step.",
        _save,
        {
            "state": {
                "type": "object",
                "description": "title, status (active, blocked, done, abandoned), goal, steps [{id, text, status}],"
                " next, blockers[], decisions[], files[], notes, and anything else",
            },
            "snapshot": text("also keep this state under a name"),
        },
        required=("state",),
        read_only=False,
    ),
    Tool("state_load", "The saved state of this session.", _load, _PARTS),
    Tool(
        "state_status",
        "Whether a state is saved, when it changed, its status, counts of steps, blockers and snapshots.",
        _status,
    ),
    Tool(
        "state_clear",
        "Delete this session's state and its snapshots for good. Other sessions are untouched." + TWO_STEPS,
        _clear,
        {"token": TOKEN},
        read_only=False,
        destructive=True,
    ),
    Tool(
        "state_list",
        "The snapshots of this session's state, newest first.",
        _list,
        paging("snapshots", _SNAPSHOTS, 100),
    ),
    Tool(
        "state_load_snapshot",
        "Read one snapshot of the state. Nothing is changed.",
        _load_snapshot,
        {"name": _NAME, **_PARTS},
        required=("name",),
    ),
    Tool(
        "state_restore_snapshot",
        "Make a snapshot the state again; what was saved before is kept as a pre-restore snapshot.",
        _restore_snapshot,
        {"name": _NAME},
        required=("name",),
        read_only=False,
    ),
    Tool(
        "state_migrate",
        "States that another program saved for this project; with adopt, one of them becomes this session's state.",
        _migrate,
        {
            "adopt": flag("take it over into this session"),
            "namespace": text("which one, if there are several"),
        },
        read_only=False,
    ),
)
