"""store.drill."""

from __future__ import annotations

import random
from typing import Any

from mulligan.clock import NANOSECONDS
from mulligan.control.methods import Params, method
from mulligan.control.objects import path_fields
from mulligan.control.services import Call
from mulligan.errors import NotFoundError, UsageError
from mulligan.model import Checkpoint
from mulligan.project.drill import drill_all


class DrillParams(Params, frozen=True, kw_only=True):
    """So many checkpoints by chance, of one project or of all; with `id` that one of the project."""

    project: str = ""
    id: str = ""
    count: int = 3


@method("store.drill", DrillParams)
def drill(call: Call, params: DrillParams) -> dict[str, Any]:
    """Restore checkpoints into a directory beside the store, read every byte back, and compare."""
    chosen = _chosen(call, params)
    store = call.services.store
    roots = {project.id: project.path for project in store.catalogue().projects()}
    started = store.clock.now()
    last, reasons = drill_all(
        store, call.services.state, chosen, lambda done, total: call.progress(stage="drill", done=done, total=total)
    )
    return {
        **last,
        "seconds": round((store.clock.now() - started) / NANOSECONDS, 3),
        "checkpoints": [
            {"id": made.id, "ordinal": made.ordinal, **path_fields(roots[made.project]),
             "bytes": made.metadata.snapshot_size, "reason": reason}
            for made, reason in zip(chosen, reasons, strict=True)
        ],
        **({"exit_status": 9} if any(reasons) else {}),
    }  # fmt: skip


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
