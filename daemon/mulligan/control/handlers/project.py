"""project.add, remove, exclude, list, pause, resume."""

from __future__ import annotations

import os
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from mulligan.control.handlers.daemon import project_object, project_warnings
from mulligan.control.methods import Params, method
from mulligan.control.objects import path_fields, show_path
from mulligan.control.services import Call, Services
from mulligan.errors import MulliganError, NotFoundError, RefusedError
from mulligan.project.registry import EXCLUDED, REMOVED
from mulligan.project.worker import ProjectWorker
from mulligan.store.catalogue import Project

_PROGRESS_SECONDS = 0.2


class AddParams(Params, frozen=True, kw_only=True):
    """`wait`: answer when the baseline is complete, with progress until then."""

    project: str
    wait: bool = True


class ProjectParams(Params, frozen=True, kw_only=True):
    """A path in the project."""

    project: str


class RemoveParams(Params, frozen=True, kw_only=True):
    """`purge` also erases what was captured, and needs `confirmed`."""

    project: str
    purge: bool = False
    confirmed: bool = False
    dry_run: bool = False


class ExcludeParams(Params, frozen=True, kw_only=True):
    """A directory or a glob of directories."""

    target: str


class ListParams(Params, frozen=True, kw_only=True):
    """`found`: also projects that transcripts name and nobody protects."""

    found: bool = False


def wait_until_watching(call: Call, worker: ProjectWorker) -> None:
    """Wait for the baseline, telling how far it is. Raises what went wrong."""
    done: Future[None] = worker.call(worker.sync)
    started = time.monotonic()
    while True:
        try:
            done.result(timeout=_PROGRESS_SECONDS)
        except FutureTimeoutError:
            seconds = max(time.monotonic() - started, 0.001)
            health = worker.health
            call.progress(stage="baseline", done=health.done, total=health.total, rate=round(health.done / seconds))
        else:
            return


@method("project.add", AddParams)
def add(call: Call, params: AddParams) -> dict[str, Any]:
    """Watch a directory from now on."""
    worker = call.services.registry.add(params.project)
    if params.wait:
        wait_until_watching(call, worker)
    project = project_object(call.services, worker)
    return {"project": project, "warnings": project_warnings(project) if params.wait else []}


@method("project.remove", RemoveParams)
def remove(call: Call, params: RemoveParams) -> dict[str, Any]:
    """Stop watching a project, for good; what was captured stays in the store."""
    if params.purge:
        return _purge(call, params)
    worker = call.worker(params.project)
    if not params.dry_run:
        call.services.registry.end(worker, REMOVED)
    return {"removed": show_path(worker.root), "dry_run": params.dry_run}


def _purge(call: Call, params: RemoveParams) -> dict[str, Any]:
    """Erase all that is known of a project, of one that was removed before as well."""
    services = call.services
    root = os.fsencode(os.path.realpath(params.project))
    worker = services.registry.holding(root)
    removed = [project for project in services.store.catalogue().projects() if project.path == root]
    if worker is None and not removed:
        worker = call.worker(params.project)  # which says that there is none
    project = worker.record() if worker is not None else removed[0]
    catalogue = services.store.catalogue()
    (checkpoints,) = catalogue.db.execute("select count(*) from checkpoint where project = ?", (project.id,)).fetchone()
    plan = {"removed": show_path(project.path), "dry_run": params.dry_run, "checkpoints": checkpoints,
            "files": project.files}  # fmt: skip
    if params.dry_run:
        return plan
    if not params.confirmed:
        raise RefusedError("this was not confirmed; nothing was erased", hint="give --yes to erase it all", **plan)
    if worker is not None:
        services.registry.end(worker, REMOVED)
    _remove_handoffs(services, project)
    collected, _ = services.space.eraser.erase(project)
    return {**plan, "freed_bytes": max(0, collected.bytes), "left": collected.damaged}


def _remove_handoffs(services: Services, project: Project) -> None:
    """They tell of the commands of its sessions."""
    seen = services.store.catalogue().db.execute("select id from session where project = ?", (project.id,)).fetchall()
    kept = [session for session, root in services.states.sessions() if root == project.path]
    for session in {*kept, *(session for (session,) in seen)}:
        services.handoffs.remove(session, project.path)


@method("project.exclude", ExcludeParams)
def exclude(call: Call, params: ExcludeParams) -> dict[str, Any]:
    """Never watch a directory, or what fits a glob."""
    call.services.registry.exclude(params.target)
    return {"excluded": params.target}


@method("project.list", ListParams)
def list_(call: Call, params: ListParams) -> dict[str, Any]:
    """The projects, and on request those that transcripts name."""
    services = call.services
    projects = [project_object(services, worker) for worker in services.registry.workers()]
    for project in services.store.catalogue().projects():
        if project.state == EXCLUDED:
            projects.append({**path_fields(project.path), "state": "excluded"})
    return {"projects": projects, **({"found": services.found_projects()} if params.found else {})}


@method("project.pause", ProjectParams)
def pause(call: Call, params: ProjectParams) -> dict[str, Any]:
    """Stop watching until `resume`; the gap is recorded."""
    worker = call.worker(params.project)
    worker.call(worker.pause).result()
    return {"project": project_object(call.services, worker)}


@method("project.resume", ProjectParams)
def resume(call: Call, params: ProjectParams) -> dict[str, Any]:
    """Watch a paused project again."""
    worker = call.worker(params.project)
    worker.call(worker.resume).result()
    if worker.health.state == "missing":
        raise NotFoundError(f"{show_path(worker.root)}: {worker.health.reason}", hint="bring the directory back")
    if worker.health.state != "watching":
        raise MulliganError(f"{show_path(worker.root)} is {worker.health.state}", hint="mulligan status")
    return {"project": project_object(call.services, worker)}
