"""state.migrate: what an older program left in the project, and taking it over into a session."""

from __future__ import annotations

from typing import Any

from mulligan.clock import to_rfc3339
from mulligan.control.caller import Caller, SessionParams, caller
from mulligan.control.methods import method
from mulligan.control.objects import path_fields
from mulligan.control.services import Call
from mulligan.control.state_objects import shown_session
from mulligan.errors import AmbiguousError, ConflictError, NotFoundError
from mulligan.taskstate.imports import Imported, imported_as, mark_adopted
from mulligan.taskstate.merge import merge


class MigrateParams(SessionParams, frozen=True, kw_only=True):
    """`adopt` merges an imported state into the session's; `namespace` says which one, if there are several."""

    adopt: bool = False
    namespace: str | None = None


@method("state.migrate", MigrateParams)
def migrate(call: Call, params: MigrateParams) -> dict[str, Any]:
    """Tell what checkpoint-orchestrator 1.x left in the project; on request merge it into a session's state."""
    who = caller(call, params)
    services = call.services
    found = services.legacy.look(who.project)
    adopted, undo = None, None
    if params.adopt:
        adopted, undo = _adopt(call, who, _wanted(call, who, found.imported, params.namespace))
        found = services.legacy.look(who.project)
    return {
        "session_id": shown_session(who.session),
        "legacy": [_imported_object(each) for each in found.imported],
        "foreign": [{**path_fields(path), "reason": reason} for path, reason in found.foreign],
        "adopted": adopted,
        "undo": undo,
    }


def _wanted(call: Call, who: Caller, there: list[Imported], namespace: str | None) -> Imported:
    """The one to take over. Raises NotFoundError, AmbiguousError, and ConflictError for what another session has."""
    if namespace is not None:
        there = imported_as(call.services.state, namespace)
    if not there:
        what = f"as {namespace[:120]}" if namespace is not None else "for this project"
        raise NotFoundError(f"nothing was imported {what}", hint="mulligan state migrate tells what there is")
    if len(there) > 1:
        names = sorted({each.namespace for each in there})
        raise AmbiguousError(
            f"{len(names)} imported states could be meant", hint=f"add --namespace: {', '.join(names)}",
            candidates=[{"id": name} for name in names],
        )  # fmt: skip
    found = there[0]
    if found.adopted_by and found.adopted_by != who.session and namespace is None:
        raise ConflictError(
            f"{found.namespace} was taken over by session {shown_session(found.adopted_by)[:8]} already",
            hint=f"give --namespace '{found.namespace}' to take it over once more",
        )
    return found


def _adopt(call: Call, who: Caller, found: Imported) -> tuple[str, str | None]:
    """(its namespace, the snapshot that leads back); a session that has it already is left as it is."""
    states = call.services.states
    state = states.load(who.session)
    if found.adopted_by == who.session and state is not None:
        return found.namespace, None
    base = state.value if state is not None and not state.synthesized else {}
    _, undo = states.replace(who.session, who.project, merge(base, found.value))
    mark_adopted(call.services.state, found.namespace, found.hash, who.session, call.services.store.clock.now())
    return found.namespace, undo.name if undo else None


def _imported_object(found: Imported) -> dict[str, Any]:
    title, status = found.value.get("title"), found.value.get("status")
    return {
        "namespace": found.namespace,
        "source": found.source,
        "title": title if isinstance(title, str) else "",
        "status": status if isinstance(status, str) else "active",
        "imported_at": to_rfc3339(found.imported_at),
        "adopted_by": shown_session(found.adopted_by) if found.adopted_by else None,
    }
