"""operation.revert."""

from __future__ import annotations

from typing import Any

from mulligan.control.methods import Params, method
from mulligan.control.objects import path_fields, show_path
from mulligan.control.operations import outcome_fields, plan_object, refuse
from mulligan.control.services import Call
from mulligan.errors import ConflictError, PartialError
from mulligan.model import Cut
from mulligan.project.naming import Position
from mulligan.project.restoring import Result
from mulligan.project.reverting import Prepared, Reverter
from mulligan.project.selection import select
from mulligan.restore.revert import Conflict, Version


class RevertParams(Params, frozen=True, kw_only=True):
    """`dry_run` gives the plan alone; anything else needs `confirmed`.

    `partial`: do what is in no conflict. `write_conflicts`: texts in conflict get both versions between markers.
    `force`: also what is not sure to be of the target, and what changed since the plan (captured first).
    `plan_digest`: of a dry run; if what is to be done is not what that told of, nothing is.
    """

    project: str
    target: str
    session: str = ""
    dry_run: bool = False
    confirmed: bool = False
    partial: bool = False
    write_conflicts: bool = False
    force: bool = False
    plan_digest: str = ""


def _named(version: Version) -> str:
    return f"{version.at}:{show_path(version.path)}"


def conflict_object(conflict: Conflict, *, marked: bool) -> dict[str, Any]:
    """One conflict; `ours` is what is there now, `theirs` what was there before the change, `base` what it left.

    Each is position and path, `row:118:src/auth.py`.
    """
    return {
        **path_fields(conflict.path),
        "ours": _named(conflict.ours),
        "theirs": _named(conflict.theirs),
        "base": _named(conflict.base),
        "reason": conflict.reason,
        "marked": marked and conflict.marked is not None,
    }


def conflict_objects(prepared: Prepared) -> list[dict[str, Any]]:
    """All conflicts of a revert."""
    return [conflict_object(conflict, marked=prepared.marked) for conflict in prepared.conflicts]


@method("operation.revert", RevertParams)
def revert(call: Call, params: RevertParams) -> dict[str, Any]:
    """Take out what a prompt, a tool call, a session or a checkpoint changed, and nothing else."""
    worker = call.worker(params.project)
    names = call.names(worker)
    session = names.session(params.session)
    selection = select(
        call.services.store.catalogue(), worker.project_id, names, params.target, params.session and session
    )
    reverter = Reverter(worker, params.plan_digest)
    options = {"partial": params.partial, "mark": params.write_conflicts, "force": params.force}
    if params.dry_run or not params.confirmed:
        worker.call(worker.sync).result()
        prepared, result = reverter.prepare(selection, **options), None
    else:
        position = Position(Cut(0), None, selection.label)
        prepared, result = reverter.revert(selection, "revert", position, session, **options)
    conflicts = conflict_objects(prepared)
    if not params.dry_run and not params.confirmed:
        raise refuse(plan_object(prepared.plan), "the revert", conflicts=conflicts)
    if prepared.open and result is None and not params.dry_run:
        raise _in_conflict(prepared, conflicts)
    if result is not None:
        call.services.bus.publish("revert", project=show_path(worker.root), operation=result.operation)
    fields = outcome_fields(result or Result(prepared.plan))
    if not params.dry_run and (conflicts or prepared.plan.skipped):
        fields["exit_status"] = PartialError.exit_status
    return {"target": selection.label, "conflicts": conflicts, **fields}


def _in_conflict(prepared: Prepared, conflicts: list[dict[str, Any]]) -> ConflictError:
    count = len(prepared.open)
    what = "1 path is" if count == 1 else f"{count} paths are"
    return ConflictError(
        f"{what} in conflict; nothing was changed",
        hint="--partial does the rest, --write-conflicts puts both versions between markers",
        conflicts=conflicts,
        plan=plan_object(prepared.plan),
    )
