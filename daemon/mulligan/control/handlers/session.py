"""session.list, session.show, session.forget."""

from __future__ import annotations

from typing import Any

from mulligan.clock import to_rfc3339
from mulligan.control.methods import Params, method
from mulligan.control.objects import is_at_work, path_fields, show_path
from mulligan.control.services import Call
from mulligan.errors import NotFoundError, UsageError
from mulligan.project.alerts import touches_of
from mulligan.project.worker import ProjectWorker
from mulligan.session.conflicts import shared_files


class ListParams(Params, frozen=True, kw_only=True):
    """Sessions of one project, or of all."""

    project: str = ""
    all: bool = False


class ShowParams(Params, frozen=True, kw_only=True):
    """Which session; "" is the most recently active one of the project."""

    project: str
    session: str = ""


def session_object(call: Call, worker: ProjectWorker, session: str) -> dict[str, Any]:
    """The `session` object."""
    db = call.services.store.catalogue().db
    first, last, state, transcript = db.execute(
        "select first, last, state, transcript from session where id = ?", (session,)
    ).fetchone()
    (prompts,) = db.execute("select count(*) from prompt where session = ?", (session,)).fetchone()
    (calls,) = db.execute("select count(*) from call where session = ?", (session,)).fetchone()
    current = call.services.store.catalogue().current(worker.project_id, session)
    return {
        "id": session,
        "project_path": show_path(worker.root),
        "transcript": show_path(transcript),
        "first_activity": to_rfc3339(first),
        "last_activity": to_rfc3339(last),
        "at_work": is_at_work(state, call.services.store.clock.now() - last),
        "strategy": call.services.settings.value("strategy", show_path(worker.root), session),
        "prompts": prompts,
        "calls": calls,
        "metadata": session_metadata(call, session),
        "current_checkpoint_id": current or None,
    }


def shared_with_others(worker: ProjectWorker, session: str) -> list[dict[str, Any]]:
    """The files that another session changed within a while of this one's change, the latest first."""
    found = shared_files(touches_of(worker, session))
    return [
        {
            **path_fields(one.path),
            "session_id": next(other for other in one.sessions if other != session),
            "timestamp": to_rfc3339(one.moment),
        }
        for one in found
        if session in one.sessions
    ]


def session_metadata(call: Call, session: str) -> dict[str, Any]:
    """Token sums, last model and last prompt of a session up to now."""
    db = call.services.store.catalogue().db
    sums = db.execute(
        "select coalesce(sum(input), 0), coalesce(sum(output), 0), coalesce(sum(cache_creation), 0),"
        " coalesce(sum(cache_read), 0) from usage where session = ?",
        (session,),
    ).fetchone()
    model = db.execute(
        "select model from usage where session = ? and model not in ('', '<synthetic>') order by number desc limit 1",
        (session,),
    ).fetchone()
    prompt = db.execute(
        "select text from prompt where session = ? order by ordinal desc limit 1", (session,)
    ).fetchone()
    names = ("input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens")
    return {
        "total_tokens": sum(sums),
        **dict(zip(names, sums, strict=True)),
        "model_used": model[0] if model else "",
        "user_prompt": prompt[0] if prompt else "",
    }


@method("session.list", ListParams)
def list_(call: Call, params: ListParams) -> dict[str, Any]:
    """The sessions of a project, the most recently active first."""
    workers = call.services.registry.workers() if params.all or not params.project else [call.worker(params.project)]
    found: list[tuple[int, dict[str, Any]]] = []
    for worker in workers:
        cursor = call.services.store.catalogue().db.execute(
            "select id, last from session where project = ? order by last desc", (worker.project_id,)
        )
        found += [(last, session_object(call, worker, session)) for session, last in cursor.fetchall()]
    found.sort(key=lambda item: -item[0])
    return {"sessions": [session for _, session in found]}


@method("session.show", ShowParams)
def show(call: Call, params: ShowParams) -> dict[str, Any]:
    """Everything about one session."""
    worker = call.worker(params.project)
    session = call.names(worker).session(params.session)
    if not session:
        raise NotFoundError(
            f"no session was seen in {show_path(worker.root)}", hint="start an agent there, or: mulligan session list"
        )
    return {"session": {**session_object(call, worker, session), "shared_files": shared_with_others(worker, session)}}


class ForgetParams(Params, frozen=True, kw_only=True):
    """Which session; it has to be named."""

    project: str
    session: str


@method("session.forget", ForgetParams)
def forget(call: Call, params: ForgetParams) -> dict[str, Any]:
    """Take a session for ended: it leaves memory, and nothing that was recorded is lost."""
    worker = call.worker(params.project)
    if not params.session:
        raise UsageError("which session is to be forgotten?", hint="mulligan session list")
    session = call.names(worker).session(params.session)
    was_in_memory = call.services.forget(session)
    return {"session": session_object(call, worker, session), "was_in_memory": was_in_memory}
