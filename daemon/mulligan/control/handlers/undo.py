"""operation.undo and operation.redo."""

from __future__ import annotations

from typing import Any

from mulligan.control.carried_state import take_state_back
from mulligan.control.methods import Params, method
from mulligan.control.objects import show_path
from mulligan.control.operations import outcome_fields, plan_object, refuse
from mulligan.control.services import Call
from mulligan.project.restoring import Restorer, Result
from mulligan.store.records import OperationFact


class UndoParams(Params, frozen=True, kw_only=True):
    """As in `restore`."""

    project: str
    session: str = ""
    dry_run: bool = False
    confirmed: bool = False
    force: bool = False


def _take_back(call: Call, params: UndoParams, kind: str) -> dict[str, Any]:
    worker = call.worker(params.project)
    session = call.names(worker).session(params.session)
    restorer = Restorer(worker)

    operations: list[str] = []

    def run() -> Result:
        operation: OperationFact = restorer.to_undo() if kind == "undo" else restorer.to_redo()
        operations.append(operation.id)
        if params.dry_run or not params.confirmed:
            return Result(restorer.plan_inverse(operation, force=params.force))
        return restorer.take_back(kind, operation, session, force=params.force)

    result = worker.call(run).result()
    if not params.dry_run and not params.confirmed:
        raise refuse(plan_object(result.plan), f"the {kind}")
    fields = outcome_fields(result)
    if result.operation:
        call.services.bus.publish(kind, project=show_path(worker.root), operation=result.operation)
        fields["warnings"] = fields["warnings"] + take_state_back(call, operations[-1], result.operation)
    return {"conflicts": [], **fields}


@method("operation.undo", UndoParams)
def undo(call: Call, params: UndoParams) -> dict[str, Any]:
    """Take the last restore or redo back."""
    return _take_back(call, params, "undo")


@method("operation.redo", UndoParams)
def redo(call: Call, params: UndoParams) -> dict[str, Any]:
    """Take the last undo back."""
    return _take_back(call, params, "redo")
