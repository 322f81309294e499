"""store.gc."""

from __future__ import annotations

from typing import Any

from mulligan.control.methods import Params, method
from mulligan.control.services import Call


class GcParams(Params, frozen=True, kw_only=True):
    """No parameters."""


@method("store.gc", GcParams)
def gc(call: Call, _params: GcParams) -> dict[str, Any]:
    """Drop versions older than a day that no checkpoint needs, and contents that nothing names."""
    done = call.services.space.collect()
    room = call.services.store.room
    return {
        "freed_bytes": max(0, done.bytes),
        "versions": done.rows,
        "contents": done.contents,
        "segments": done.segments,
        "bytes": room.used(fresh=True),
        "budget_bytes": room.budget,
        "damaged": done.damaged,
        **({"exit_status": 9} if done.damaged else {}),
    }
