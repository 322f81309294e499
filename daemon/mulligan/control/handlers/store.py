"""store.verify."""

from __future__ import annotations

import math
from typing import Any

from mulligan.control.methods import Params, method
from mulligan.control.objects import path_fields, show_path
from mulligan.control.services import Call
from mulligan.errors import UsageError
from mulligan.project.integrity import digest_words
from mulligan.store.verify import Report


class VerifyParams(Params, frozen=True, kw_only=True):
    """`sample`: so many percent of the contents, by chance. `repair`: heal what is damaged."""

    sample: float | None = None
    repair: bool = False


@method("store.verify", VerifyParams)
def verify(call: Call, params: VerifyParams) -> dict[str, Any]:
    """Hold stored contents against their hashes, and the log, references and trees against each other."""
    percent = 100.0 if params.sample is None else params.sample
    if not (math.isfinite(percent) and 0 < percent <= 100):
        hint = "a number above 0, and at most 100"
        raise UsageError(f"cannot look at {percent:g} percent of the contents", hint=hint)
    store, integrity = call.services.store, call.services.integrity
    report = integrity.verify(
        percent / 100,
        repair=params.repair,
        progress=lambda done, total: call.progress(stage="verify", done=done, total=total),
    )
    clean = report.clean and not store.damage
    return {
        "clean": clean,
        "contents": report.contents,
        "bytes": report.size,
        "total_contents": report.total_contents,
        "total_bytes": report.total_size,
        "sample": params.sample,
        "repair": params.repair,
        "checkpoints_looked_at": report.checkpoints,
        "checkpoints_total": report.total_checkpoints,
        **_found(call, report),
        "store": store.damage,
        **({} if clean else {"exit_status": 9}),
    }


def _found(call: Call, report: Report) -> dict[str, Any]:
    catalogue = call.services.store.catalogue()
    roots = {project.id: project.path for project in catalogue.projects()}
    return {
        "healed": [{"hash": digest.hex(), "from": source} for digest, source in report.healed.items()],
        "damaged": [{"hash": digest, "reason": reason} for digest, reason in report.damaged],
        "digests": [
            {
                **path_fields(roots[project], "project_path"),
                "checkpoint_id": checkpoint or None,
                "reason": digest_words(catalogue, project, checkpoint),
            }
            for project, checkpoint in report.digests
        ],
        "paths": [
            {**path_fields(path), "project_id": str(project), "project_path": show_path(roots[project]), "hash": digest}
            for project, path, digest in report.paths
        ],
        "checkpoints": [
            {
                "id": need.id,
                "ordinal": need.ordinal,
                **path_fields(roots[need.project], "project_path"),
                "damaged_files": need.count,
                "paths": [show_path(path) for path in need.paths],
            }
            for need in call.services.integrity.damage.needs()
        ],
    }
