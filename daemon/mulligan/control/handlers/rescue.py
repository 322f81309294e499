"""operation.rescue."""

from __future__ import annotations

from typing import Any

from mulligan.clock import to_rfc3339
from mulligan.control.methods import Params, method
from mulligan.control.objects import path_fields, show_path
from mulligan.control.operations import outcome_fields, plan_object, refuse
from mulligan.control.scope import Chosen, chosen_paths
from mulligan.control.services import Call
from mulligan.errors import NotFoundError
from mulligan.journal.losses import Loss
from mulligan.model import Entry, Kind, covers
from mulligan.project.rescuing import Found, Rescuer, find_losses
from mulligan.project.restoring import Result
from mulligan.project.worker import ProjectWorker

_SHOWN = 200


class RescueParams(Params, frozen=True, kw_only=True):
    """`since` is an age or a time; no `paths` means all that was lost. `all`: also what is no loss, as a rule.

    `dry_run` gives the plan alone; anything else needs `confirmed`. `force`: over something newer, too.
    """

    project: str
    since: str = "1h"
    session: str = ""
    paths: tuple[str, ...] = ()
    paths_b64: tuple[str, ...] = ()
    all: bool = False
    dry_run: bool = False
    confirmed: bool = False
    force: bool = False


@method("operation.rescue", RescueParams)
def rescue(call: Call, params: RescueParams) -> dict[str, Any]:
    """Bring back what vanished, was emptied or was replaced since some moment."""
    worker = call.worker(params.project)
    names = call.names(worker)
    session, since = names.session(params.session), names.moment(params.since)
    chosen = chosen_paths(call, worker, params.paths, params.paths_b64)
    worker.call(worker.sync).result()
    found = find_losses(worker, since, chosen.paths, everything=params.all)
    _require_each(found, chosen, params.since)
    rescuer = Rescuer(worker)

    def run() -> Result:
        if params.dry_run or not params.confirmed or not found.losses:
            return Result(rescuer.plan_rescue(found.losses, force=params.force))
        return rescuer.rescue(found.losses, session, force=params.force)

    result = worker.call(run).result()
    if found.losses and not params.dry_run and not params.confirmed:
        raise refuse(plan_object(result.plan), "the rescue")
    if result.operation:
        worker.health.alarms.settle()
        call.services.bus.publish("rescue", project=show_path(worker.root), operation=result.operation)
    newer = [] if params.force else [loss for loss in found.losses if loss.newer]
    return {
        "since": to_rfc3339(since),
        "entries": [_entry(worker, loss, found) for loss in found.losses],
        "left_out": found.left_out,
        "conflicts": [
            {**path_fields(loss.path), "ours": _side(loss.now.entry), "theirs": _side(loss.version.entry)}
            for loss in newer
        ],
        **outcome_fields(result),
    }


def _require_each(found: Found, chosen: Chosen, since: str) -> None:
    """Who names a path expects something there: one that lost nothing is an error."""
    for path, paths in chosen.words.items():
        if not any(covers(paths, loss.path) for loss in found.losses):
            left = f"; {sum(found.left_out.values())} left out, --all takes them" if found.left_out else ""
            raise NotFoundError(
                f"nothing of {show_path(path) or 'the project'} was lost since {since}{left}",
                hint="--since with a longer age, or mulligan list for a checkpoint to restore it from",
            )


def _side(entry: Entry) -> dict[str, Any]:
    return {"kind": entry.kind.name.lower(), "size": entry.size, "hash": entry.hash.hex() or None}


def _entry(worker: ProjectWorker, loss: Loss, found: Found) -> dict[str, Any]:
    """One entry: the version that is brought back, when and by whom it was lost, and what is there now."""
    version = loss.version.entry
    moved = found.moved.get(loss.path)
    return {
        **path_fields(loss.path),
        "how": str(loss.how),
        "kind": {Kind.DIR: "directory", Kind.LINK: "symlink"}.get(version.kind, "file"),
        "size": version.size,
        "hash": version.hash.hex() or None,
        "timestamp": to_rfc3339(loss.version.at),
        "lost_at": to_rfc3339(loss.loss.at),
        "now": _side(loss.now.entry) if loss.now.entry.there else None,
        "newer": loss.newer,
        "moved_to": show_path(moved) if moved is not None else None,
        "call": _call(worker, loss.loss.call),
        "grade": loss.loss.grade,
    }


def _call(worker: ProjectWorker, call: str) -> dict[str, Any] | None:
    """The call whose window was open; None if it was nobody's."""
    found = (
        worker.store.catalogue()
        .db.execute(
            "select c.session, c.name, c.command, coalesce(p.text, '') from call c left join prompt p"
            " on p.session = c.session and p.ordinal = c.prompt where c.id = ?",
            (call,),
        )
        .fetchone()
    )
    if found is None:
        return None
    session, name, command, prompt = found
    return {"id": call, "session_id": session, "tool": name, "command": command[:_SHOWN], "prompt": prompt[:_SHOWN]}
