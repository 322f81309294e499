"""store.drill."""

from __future__ import annotations

import random
from typing import Any

from mulligan.clock import NANOSECONDS, to_rfc3339
from mulligan.control.methods import Params, method
from mulligan.control.objects import path_fields
from mulligan.control.services import Call
from mulligan.errors import NotFoundError, UsageError
from mulligan.model import Checkpoint
from mulligan.project.drill import drill as try_out


class DrillParams(Params, frozen=True, kw_only=True):
    """So many checkpoints by chance, of one project or of all; with `id` that one of the project."""

    project: str = ""
    id: str = ""
    count: int = 3


@method("store.drill", DrillParams)
def drill(call: Call, params: DrillParams) -> dict[str, Any]:
    """Restore checkpoints into a directory beside the store, read every byte back, and compare."""
    chosen = _chosen(call, params)
    store, tried = call.services.store, []
    roots = {project.id: project.path for project in store.catalogue().projects()}
    started = store.clock.now()
    for number, made in enumerate(chosen):
        call.progress(stage="drill", done=number, total=len(chosen))
        reason = try_out(store, made)
        tried.append({"id": made.id, "ordinal": made.ordinal, **path_fields(roots[made.project]),
                      "bytes": made.metadata.snapshot_size, "reason": reason})  # fmt: skip
    restorable = sum(not item["reason"] for item in tried)
    now = store.clock.now()
    last = {"time": to_rfc3339(now), "restorable": restorable, "total": len(tried)}
    call.services.state.keep_drill(last)
    return {
        **last,
        "seconds": round((now - started) / NANOSECONDS, 3),
        "checkpoints": tried,
        **({} if restorable == len(tried) else {"exit_status": 9}),
    }


def _chosen(call: Call, params: DrillParams) -> list[Checkpoint]:
    if params.count < 1:
        raise UsageError(f"cannot try {params.count} checkpoints", hint="--count takes a number from 1")
    if params.id:
        return [call.names(call.worker(params.project)).checkpoint(params.id)]
    catalogue = call.services.store.catalogue()
    if params.project:
        found = catalogue.checkpoints("project = ?", (call.worker(params.project).project_id,))
    else:
        found = catalogue.checkpoints("1", ())
    if not found:
        raise NotFoundError("there is no checkpoint to try", hint="mulligan checkpoint makes one")
    return random.sample(found, min(params.count, len(found)))
