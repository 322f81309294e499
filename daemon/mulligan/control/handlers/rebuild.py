"""store.rebuild."""

from __future__ import annotations

from typing import Any

from mulligan.control.methods import Params, method
from mulligan.control.objects import path_fields
from mulligan.control.services import Call
from mulligan.store.catalogue import Catalogue, join_path

#: So many paths are named at the most; `store.verify` names all.
_NAMED = 1000


class RebuildParams(Params, frozen=True, kw_only=True):
    """No parameters yet."""


@method("store.rebuild", RebuildParams)
def rebuild(call: Call, _params: RebuildParams) -> dict[str, Any]:
    """Make the catalogue anew from the newest snapshot and the segments; what was read-only can be written again."""
    call.progress(stage="rebuild")
    store, read_only = call.services.store, bool(call.services.store.damage)
    built = store.rebuild()
    for worker in call.services.registry.workers() if read_only else ():
        worker.call(lambda: None)  # what it could not write it writes now
    return {
        "batch": built.batch,
        "snapshot": built.snapshot or None,
        "batches_replayed": built.batches,
        "contents": built.contents,
        "missing_contents": built.missing,
        "paths": _without_content(store.catalogue()) if built.missing else [],
        "lost": built.lost,
        "store": store.damage,
        **({"exit_status": 9} if built.missing or built.lost or store.damage else {}),
    }


def _without_content(catalogue: Catalogue) -> list[dict[str, Any]]:
    """The paths of versions of which the store has no bytes."""
    cursor = catalogue.db.execute(
        "select distinct r.project, p.dir, p.name, r.hash from row r join path p on p.id = r.path where r.kind = 1"
        " and not exists (select 1 from content c where c.hash = r.hash and c.segment != 0)"
        " order by p.project, p.dir, p.name limit ?",
        (_NAMED,),
    )
    return [
        {**path_fields(join_path(directory, name)), "project_id": str(project), "hash": digest.hex()}
        for project, directory, name, digest in cursor
    ]
