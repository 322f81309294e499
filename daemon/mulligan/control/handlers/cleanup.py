"""checkpoint.cleanup and checkpoint.delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mulligan.clock import NANOSECONDS
from mulligan.control.methods import Params, method
from mulligan.control.objects import checkpoint_object
from mulligan.control.services import Call
from mulligan.errors import RefusedError, UsageError
from mulligan.journal.retention import Forgotten, Policy
from mulligan.model import Checkpoint
from mulligan.project import upkeep
from mulligan.project.worker import ProjectWorker
from mulligan.quantities import parse_duration


class CleanupParams(Params, frozen=True, kw_only=True):
    """Without `keep` and `older_than` (a duration) the configured policy; `dry_run` says what would go."""

    project: str
    keep: int | None = None
    older_than: str = ""
    dry_run: bool = False
    confirmed: bool = False


class DeleteParams(Params, frozen=True, kw_only=True):
    """A checkpoint of a project, by any of its names."""

    project: str
    id: str
    session: str = ""
    dry_run: bool = False
    confirmed: bool = False


@method("checkpoint.cleanup", CleanupParams)
def cleanup(call: Call, params: CleanupParams) -> dict[str, Any]:
    """Forget the checkpoints that a policy does not keep."""
    worker, policy = call.worker(params.project), _policy(call, params)
    return _take_out(call, worker, lambda: upkeep.plan_cleanup(worker, policy), params)


@method("checkpoint.delete", DeleteParams)
def delete(call: Call, params: DeleteParams) -> dict[str, Any]:
    """Take one checkpoint out of the timeline; those that follow it follow the one before it."""
    worker = call.worker(params.project)
    made = call.names(worker).checkpoint(params.id)
    return _take_out(call, worker, lambda: upkeep.plan_delete(worker, made), params)


def _policy(call: Call, params: CleanupParams) -> Policy:
    """What was asked for, else what is configured. Raises UsageError."""
    if params.keep is None and not params.older_than:
        policy = upkeep.configured(call.services.config())
        if policy == Policy():
            hint = "--keep N, --older-than AGE, or keep_last, keep_daily … in the configuration"
            raise UsageError("nothing says what to keep", hint=hint)
        return policy
    try:
        age = parse_duration(params.older_than) * NANOSECONDS if params.older_than else 0
    except ValueError as error:
        raise UsageError(str(error), hint="an age is written 30m, 12h or 7d") from error
    if params.keep is None:
        return Policy(max_age=age)
    if params.keep < 1:
        raise UsageError(f"cannot keep {params.keep} checkpoints", hint="--keep takes a number from 1")
    return Policy(keep_last=params.keep, spare=age)


def _take_out(
    call: Call, worker: ProjectWorker, plan: Callable[[], Forgotten], params: CleanupParams | DeleteParams
) -> dict[str, Any]:
    """Plan, and do it if that was confirmed. `freed_bytes` is what a collection frees then."""
    going = worker.call(lambda: _named(worker, plan())).result()
    freed = call.services.space.freed_by(going) if going else 0
    if params.confirmed and not params.dry_run:
        going = worker.call(lambda: _commit(worker, plan())).result()
        if going and isinstance(params, CleanupParams):
            call.services.space.collect()
    shown = [checkpoint_object(made, worker.root) for made in going]
    removed = [made["id"] for made in shown]
    if not (params.dry_run or params.confirmed):
        raise RefusedError(
            "this was not confirmed; nothing was changed", hint="look at the plan, then give --yes", removed=removed
        )
    return {"removed": removed, "checkpoints": shown, "freed_bytes": freed}


def _named(worker: ProjectWorker, forgotten: Forgotten) -> list[Checkpoint]:
    catalogue = worker.store.catalogue()
    return [made for number in forgotten.removed if (made := catalogue.checkpoint(number)) is not None]


def _commit(worker: ProjectWorker, forgotten: Forgotten) -> list[Checkpoint]:
    going = _named(worker, forgotten)
    upkeep.commit(worker, forgotten)
    return going
