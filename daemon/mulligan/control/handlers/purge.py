"""store.purge."""

from __future__ import annotations

from typing import Any

from mulligan.control.methods import Params, method
from mulligan.control.objects import path_fields, show_path
from mulligan.control.scope import chosen_paths
from mulligan.control.services import Call
from mulligan.errors import NotFoundError, RefusedError
from mulligan.project.purging import Purge, plan_purge
from mulligan.project.worker import ProjectWorker

_SHOWN = 200


class PurgeParams(Params, frozen=True, kw_only=True):
    """The captured contents of some paths, and of all below them. `dry_run` says what would be erased."""

    project: str
    paths: tuple[str, ...] = ()
    paths_b64: tuple[str, ...] = ()
    dry_run: bool = False
    confirmed: bool = False


@method("store.purge", PurgeParams)
def purge(call: Call, params: PurgeParams) -> dict[str, Any]:
    """Erase every version of some files, wherever the same bytes stand; nothing on disk is touched."""
    worker = call.worker(params.project)
    paths = chosen_paths(call, worker, params.paths, params.paths_b64).paths
    call.look(worker)
    found = plan_purge(worker, paths)
    if not found.hashes and params.confirmed and call.services.space.eraser.finish():
        return {**_object(worker, found), "freed_bytes": 0, "left": []}
    if not paths or not found.hashes:
        raise NotFoundError("nothing was captured there", hint="mulligan history PATH lists the versions of a file")
    if params.dry_run:
        return _object(worker, found)
    if not params.confirmed:
        raise RefusedError(
            "this was not confirmed; nothing was erased", hint="look at the plan, then give --yes",
            **_object(worker, found),
        )  # fmt: skip
    done, collected, left = call.services.space.eraser.purge(worker, paths)
    return {
        **_object(worker, done),
        "freed_bytes": max(0, collected.bytes),
        "left": [f"segment {number}" for number in left] + collected.damaged,
        **({"exit_status": 3} if left else {}),
    }


def _object(worker: ProjectWorker, found: Purge) -> dict[str, Any]:
    roots = {project.id: project.path for project in worker.store.catalogue().projects()}
    warnings = []
    if found.there:
        names = ", ".join(show_path(path) for path in found.there[:3]) + (" …" if len(found.there) > 3 else "")
        warnings.append(f"{names}: still there, so the next change is captured again; .mulliganignore leaves it out")
    if found.kept:
        warnings.append(f"{found.kept} blocks stay: other files have them as well")
    return {
        "versions": found.versions,
        "contents": len(found.hashes),
        "paths": [path_fields(path) for path in found.paths[:_SHOWN]],
        "paths_total": len(found.paths),
        "elsewhere": [
            {**path_fields(path), "project": show_path(roots[project])} for project, path in found.elsewhere[:_SHOWN]
        ],
        "warnings": warnings,
    }
