"""store.verify."""

from __future__ import annotations

from typing import Any

from mulligan.control.methods import Params, method
from mulligan.control.objects import path_fields
from mulligan.control.services import Call
from mulligan.store.verify import verify as verify_store


class VerifyParams(Params, frozen=True, kw_only=True):
    """No parameters yet."""


@method("store.verify", VerifyParams)
def verify(call: Call, _params: VerifyParams) -> dict[str, Any]:
    """Read every stored content and hold it against its hash."""
    store = call.services.store
    report = verify_store(
        store.catalogue(), store.contents, lambda done, total: call.progress(stage="verify", done=done, total=total)
    )
    return {
        "clean": report.clean and not store.damage,
        "contents": report.contents,
        "bytes": report.size,
        "damaged": [{"hash": digest, "reason": reason} for digest, reason in report.damaged],
        "paths": [
            {**path_fields(path), "project_id": str(project), "hash": digest} for project, path, digest in report.paths
        ],
        "store": store.damage,
        **({} if report.clean and not store.damage else {"exit_status": 9}),
    }
