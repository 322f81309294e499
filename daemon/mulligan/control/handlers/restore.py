"""checkpoint.restore, operation.undo, operation.redo."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from mulligan.clock import to_rfc3339
from mulligan.control.methods import Params, method
from mulligan.control.objects import checkpoint_object, show_path
from mulligan.control.scope import relative_paths
from mulligan.control.services import Call
from mulligan.errors import RefusedError
from mulligan.project.quiet import sessions_at_work, wait_for_quiet
from mulligan.project.restoring import Restorer, Result
from mulligan.project.side_effects import SideEffect, side_effects_since, stood_at
from mulligan.restore.plan import Outcome, Plan, Step
from mulligan.store.records import OperationFact

#: How a warning of the ledger begins.
NOT_UNDONE = "no restore undoes: "


class RestoreParams(Params, frozen=True, kw_only=True):
    """`dry_run` gives the plan alone; anything else needs `confirmed`. No `paths` means the whole tree.

    `wait_seconds`: how long to wait for sessions that are at work; with `force` nobody is waited for.
    """

    project: str
    id: str
    session: str = ""
    paths: tuple[str, ...] = ()
    paths_b64: tuple[str, ...] = ()
    dry_run: bool = False
    confirmed: bool = False
    force: bool = False
    wait_seconds: Annotated[float, Meta(ge=0, le=86400)] = 10.0


class UndoParams(Params, frozen=True, kw_only=True):
    """As in `restore`."""

    project: str
    session: str = ""
    dry_run: bool = False
    confirmed: bool = False
    force: bool = False


def _shown(steps: list[Step]) -> list[str]:
    return [show_path(step.path) for step in steps]


def plan_object(plan: Plan, outcome: Outcome | None = None) -> dict[str, Any]:
    """The `plan` object; after the operation `kept` and `skipped` are what really was."""
    kept = [(step.path, step.reason) for step in plan.kept] if outcome is None else outcome.kept
    skipped = [(step.path, step.reason) for step in plan.skipped] if outcome is None else outcome.skipped
    return {
        "write": _shown(plan.write),
        "delete": _shown(plan.delete),
        "chmod": _shown(plan.chmod),
        "mkdir": _shown(plan.mkdir),
        "rmdir": _shown(plan.rmdir),
        "kept": sorted({show_path(path) for path, _ in kept}),
        "skipped": sorted({show_path(path) for path, _ in skipped}),
        "reasons": {show_path(path): reason for path, reason in [*kept, *skipped]},
        "exchange": plan.exchange if outcome is None else outcome.exchange,
    }


def outcome_fields(result: Result) -> dict[str, Any]:
    """What every operation tells of itself."""
    outcome = result.outcome
    plan = plan_object(result.plan, outcome)
    if outcome is None:
        return {"plan": plan, "operation_id": None, "warnings": [], "pre_restore_checkpoint_id": None}
    failed = [*outcome.skipped, *((path, "it is not what was written") for path in outcome.differs)]
    return {
        "plan": plan,
        "operation_id": result.operation,
        "pre_restore_checkpoint_id": result.before.id if result.before else None,
        "post_restore_checkpoint_id": result.after.id if result.after else None,
        "files_processed": len(outcome.done),
        "verified": outcome.verified,
        "warnings": [f"{show_path(path)}: {reason}" for path, reason in failed],
        **({"exit_status": 3} if failed else {}),
    }


def refuse(plan: Plan, what: str) -> RefusedError:
    """An operation that asks was not confirmed."""
    return RefusedError(f"{what} was not confirmed; nothing was changed", hint="look at the plan, then give --yes",
                        plan=plan_object(plan))  # fmt: skip


@method("checkpoint.restore", RestoreParams)
def restore(call: Call, params: RestoreParams) -> dict[str, Any]:
    """Make the working tree, or some paths of it, equal to a checkpoint."""
    worker = call.worker(params.project)
    names = call.names(worker)
    session = names.session(params.session)
    position = names.position(params.id, params.session and session)
    paths = relative_paths(worker, params.paths, params.paths_b64)
    restorer = Restorer(worker)
    effects = side_effects_since(call.services.store.catalogue(), worker.project_id, stood_at(position))
    if params.confirmed and not params.dry_run and not params.force:
        wait_for_quiet(worker, params.wait_seconds)

    def run() -> Result:
        if params.dry_run or not params.confirmed:
            return Result(restorer.plan_for(position, paths, force=params.force))
        return restorer.restore(position, paths, session, force=params.force)

    result = worker.call(run).result()
    if not params.dry_run and not params.confirmed:
        raise refuse(result.plan, "the restore")
    target = position.checkpoint or result.after
    if result.operation:
        worker.health.alarms.settle()
        call.services.bus.publish("restore", project=show_path(worker.root), operation=result.operation)
    fields = outcome_fields(result)
    warnings = fields["warnings"] + [f"{NOT_UNDONE}{effect.command}" for effect in effects]
    if params.dry_run and not params.force and (busy := sessions_at_work(worker)):
        warnings += [f"session {session[:8]} is at work: the restore waits for a pause" for session in busy]
    return {
        "checkpoint": checkpoint_object(target, worker.root) if target else None,
        "position": position.label,
        "files_processed": 0,
        "resume": None,
        **fields,
        "warnings": warnings,
        "side_effects": [side_effect_object(effect) for effect in effects],
    }


def side_effect_object(effect: SideEffect) -> dict[str, Any]:
    """One entry of `side_effects`; without a call it was a person's own command."""
    return {
        "kind": effect.kind,
        "command": effect.command,
        "timestamp": to_rfc3339(effect.moment),
        "session_id": effect.session,
        "call_id": effect.call or None,
        "is_error": effect.is_error,
    }


def _take_back(call: Call, params: UndoParams, kind: str) -> dict[str, Any]:
    worker = call.worker(params.project)
    session = call.names(worker).session(params.session)
    restorer = Restorer(worker)

    def run() -> Result:
        operation: OperationFact = restorer.to_undo() if kind == "undo" else restorer.to_redo()
        if params.dry_run or not params.confirmed:
            return Result(restorer.plan_inverse(operation, force=params.force))
        return restorer.take_back(kind, operation, session, force=params.force)

    result = worker.call(run).result()
    if not params.dry_run and not params.confirmed:
        raise refuse(result.plan, f"the {kind}")
    if result.operation:
        call.services.bus.publish(kind, project=show_path(worker.root), operation=result.operation)
    return {"conflicts": [], **outcome_fields(result)}


@method("operation.undo", UndoParams)
def undo(call: Call, params: UndoParams) -> dict[str, Any]:
    """Take the last restore or redo back."""
    return _take_back(call, params, "undo")


@method("operation.redo", UndoParams)
def redo(call: Call, params: UndoParams) -> dict[str, Any]:
    """Take the last undo back."""
    return _take_back(call, params, "redo")
