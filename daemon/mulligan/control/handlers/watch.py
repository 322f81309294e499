"""watch.sync: the exact barrier for programs."""

from __future__ import annotations

from typing import Any

from mulligan.control.methods import Params, method
from mulligan.control.services import Call


class SyncParams(Params, frozen=True, kw_only=True):
    """`project` "" means all."""

    project: str = ""


@method("watch.sync", SyncParams)
def sync(call: Call, params: SyncParams) -> dict[str, Any]:
    """Return when every file event that happened before the call has been captured."""
    workers = [call.worker(params.project)] if params.project else call.services.registry.workers()
    for future in [worker.call(worker.sync) for worker in workers]:
        future.result()
    return {"synced": len(workers)}
