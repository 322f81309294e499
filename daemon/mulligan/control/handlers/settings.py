"""settings.get, settings.set, settings.unset."""

from __future__ import annotations

from typing import Any, Literal

from mulligan.control.methods import Params, method
from mulligan.control.objects import show_path
from mulligan.control.services import Call
from mulligan.errors import UsageError
from mulligan.project.settings import KEYS, Scope


class GetParams(Params, frozen=True, kw_only=True):
    """Which key (all if None), for which project and session."""

    key: str | None = None
    project: str = ""
    session: str = ""
    scope: Literal["session", "project", "global"] | None = None


class SetParams(Params, frozen=True, kw_only=True):
    """The default scope is the project, or the session if one is named."""

    key: str
    value: str | bool | int | None
    project: str = ""
    session: str = ""
    scope: Literal["session", "project", "global"] | None = None


class UnsetParams(Params, frozen=True, kw_only=True):
    """As in `set`."""

    key: str
    project: str = ""
    session: str = ""
    scope: Literal["session", "project", "global"] | None = None


def subject_of(call: Call, scope: Scope, project: str, session: str) -> str:
    """What a scope is of: a session's id, a project's path, "" globally. Raises NotFoundError, UsageError."""
    if scope == "global":
        return ""
    if scope == "project":
        return show_path(call.worker(project).root)
    worker = call.worker(project)
    found = call.names(worker).session(session)
    if not found:
        raise UsageError("no session was seen in this project", hint="give --scope project, or start an agent")
    return found


def scope_of(scope: Scope | None, session: str) -> Scope:
    """The scope that is meant: the one given, the session's if one is named, else the project's."""
    return scope or ("session" if session else "project")


@method("settings.get", GetParams)
def get(call: Call, params: GetParams) -> dict[str, Any]:
    """What is in effect, and where it comes from."""
    if params.key is not None and params.key not in KEYS:
        raise UsageError(f'no setting "{params.key}"', hint="one of: " + ", ".join(KEYS))
    project = session = ""
    if params.scope != "global" and params.project:
        worker = call.worker(params.project)
        project = show_path(worker.root)
        session = call.names(worker).session(params.session) if params.session else ""
    found = call.services.settings.effective(project, session)
    return {"settings": {key: value for key, value in found.items() if params.key in (None, key)}}


@method("settings.set", SetParams)
def set_(call: Call, params: SetParams) -> dict[str, Any]:
    """Remember a value for a session, a project or everything."""
    scope = scope_of(params.scope, params.session)
    subject = subject_of(call, scope, params.project, params.session)
    value = call.services.settings.set(scope, subject, params.key, params.value)
    call.services.space.set_budgets()
    call.services.bus.publish("settings", key=params.key, value=value, scope=scope, subject=subject)
    return {"key": params.key, "value": value, "scope": scope, "subject": subject}


@method("settings.unset", UnsetParams)
def unset(call: Call, params: UnsetParams) -> dict[str, Any]:
    """Forget a value; the next wider scope holds again."""
    scope = scope_of(params.scope, params.session)
    subject = subject_of(call, scope, params.project, params.session)
    removed = call.services.settings.unset(scope, subject, params.key)
    call.services.space.set_budgets()
    return {"key": params.key, "removed": removed, "scope": scope, "subject": subject}
