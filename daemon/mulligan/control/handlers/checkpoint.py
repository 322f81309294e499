"""checkpoint.create, list, show, describe, pin, unpin."""

from __future__ import annotations

from typing import Any

from mulligan.control.carried_state import state_of
from mulligan.control.handlers.checkpoint_diff import tree_diff_object
from mulligan.control.methods import Params, method
from mulligan.control.objects import checkpoint_object, file_object
from mulligan.control.services import Call
from mulligan.errors import IntegrityError
from mulligan.journal.diff import Change, diff_trees
from mulligan.model import Checkpoint, Entry, Kind, RelPath
from mulligan.project.checkpoints import Request
from mulligan.store.damage import Mark
from mulligan.store.questions import doings
from mulligan.store.records import MarkFact


class CreateParams(Params, frozen=True, kw_only=True):
    """A manual checkpoint of a project; `session` says whose timeline it is also in."""

    project: str
    session: str = ""
    description: str = ""
    pin: bool = False


class ListParams(Params, frozen=True, kw_only=True):
    """Newest first; no `limit` means all."""

    project: str
    session: str = ""
    limit: int | None = None


class IdParams(Params, frozen=True, kw_only=True):
    """A checkpoint of a project, by any of its names."""

    project: str
    id: str
    session: str = ""


class ShowParams(IdParams, frozen=True, kw_only=True):
    """`patch`: the changes with their patches, not their counts alone."""

    patch: bool = False


class DescribeParams(Params, frozen=True, kw_only=True):
    """A new description."""

    project: str
    id: str
    description: str
    session: str = ""


def partial(made: Checkpoint) -> dict[str, Any]:
    """The exit status of an incomplete checkpoint."""
    return {} if made.complete else {"exit_status": 3}


def damaged_files(count: int) -> dict[str, Any]:
    """How many files of a checkpoint cannot be restored; nothing if all can, as far as it is known."""
    return {"damaged_files": count} if count else {}


@method("checkpoint.create", CreateParams)
def create(call: Call, params: CreateParams) -> dict[str, Any]:
    """Take a checkpoint now, even if nothing changed."""
    worker = call.worker(params.project)
    session = call.names(worker).session(params.session)
    request = Request("manual", session, params.description, params.pin)
    made = worker.call(lambda: worker.checkpoint(request)).result()
    assert made is not None
    return {
        "checkpoint": checkpoint_object(made, worker.root),
        "files_processed": made.metadata.file_changes,
        "warnings": [f"{path.decode('utf-8', 'replace')}: {reason}" for path, reason in made.incomplete],
        **partial(made),
    }


@method("checkpoint.list", ListParams)
def list_(call: Call, params: ListParams) -> dict[str, Any]:
    """The checkpoints of a project or of one session, newest first."""
    worker = call.worker(params.project)
    where, arguments = "project = ?", [worker.project_id]
    if params.session:
        where += " and session = ?"
        arguments.append(call.names(worker).session(params.session))  # type: ignore[arg-type]
    catalogue = call.services.store.catalogue()
    found = catalogue.checkpoints(where, arguments, -1 if params.limit is None else params.limit)
    damaged = {need.id: need.count for need in call.services.integrity.damage.needs()}
    return {
        "checkpoints": [
            {**checkpoint_object(made, worker.root), **damaged_files(damaged.get(made.id, 0))} for made in found
        ],
        "current_checkpoint_id": catalogue.current(worker.project_id) or None,
    }


@method("checkpoint.show", ShowParams)
def show(call: Call, params: ShowParams) -> dict[str, Any]:
    """One checkpoint with what it changed and every file of its tree."""
    worker = call.worker(params.project)
    made = call.names(worker).checkpoint(params.id)
    catalogue = call.services.store.catalogue()
    tree = catalogue.tree(worker.project_id, made.cut)
    if catalogue.digest(worker.record(), made.cut) != made.tree:
        raise IntegrityError(f"checkpoint {made.id}: its tree is not the one that was recorded", hint="mulligan verify")
    marks = call.services.integrity.damage.marks()
    files = [
        {**file_object(path, row.entry, row.flags), **_damage(marks, row.entry)} for path, row in sorted(tree.items())
    ]
    changes, warnings = None, []
    try:
        changes = _changes(call, made, patch=params.patch)
    except IntegrityError as error:  # everything else of it can be shown
        warnings = [f"its changes cannot be compared: {error.message}"]
    shown = checkpoint_object(made, worker.root)
    if made.tool is not None:
        doing = doings(catalogue, [made.tool.id]).get(made.tool.id)
        shown["tool"]["unguarded"] = doing is not None and doing.unguarded
    return {
        "checkpoint": {
            **shown,
            **damaged_files(sum("damaged" in file for file in files)),
        },
        "changes": changes,
        "state": state_of(call, worker, made),
        "warnings": warnings,
        "files": files,
    }


def _damage(marks: dict[bytes, Mark], entry: Entry) -> dict[str, Any]:
    """Why a file of a tree cannot be restored."""
    mark = marks.get(entry.hash) if marks and entry.kind is Kind.FILE else None
    return {"damaged": mark.reason} if mark else {}


def _changes(call: Call, made: Checkpoint, *, patch: bool) -> dict[str, Any] | None:
    """What differs from the parent; None without one, as for the baseline."""
    store = call.services.store
    catalogue = store.catalogue()
    parent = catalogue.checkpoint(made.parent) if made.parent else None
    if parent is None:
        return None
    found = diff_trees(
        [
            Change(RelPath(path), old, new)
            for path, old, new in catalogue.differences(made.project, parent.cut, made.cut)
        ],
        store.contents.read,
    )
    changes = tree_diff_object(found)
    for name in () if patch else ("modified_files", "added_files", "deleted_files"):
        for file in changes[name]:
            file.pop("diff_content")
            file.pop("diff_content_b64", None)
    return {"from_checkpoint_id": parent.id, **changes}


def _mark(call: Call, project: str, name: str, **changes: Any) -> dict[str, Any]:
    worker = call.worker(project)
    made = call.names(worker).checkpoint(name)
    call.services.store.log.append([MarkFact(made.id, **changes)])
    again = call.services.store.catalogue().checkpoint(made.id)
    assert again is not None
    call.services.bus.publish("checkpoint_changed", id=made.id, **changes)
    return {"checkpoint": checkpoint_object(again, worker.root)}


@method("checkpoint.describe", DescribeParams)
def describe(call: Call, params: DescribeParams) -> dict[str, Any]:
    """Give a checkpoint another description."""
    return _mark(call, params.project, params.id, description=params.description)


@method("checkpoint.pin", IdParams)
def pin(call: Call, params: IdParams) -> dict[str, Any]:
    """Keep a checkpoint whatever retention says."""
    return _mark(call, params.project, params.id, pinned=True)


@method("checkpoint.unpin", IdParams)
def unpin(call: Call, params: IdParams) -> dict[str, Any]:
    """Leave a checkpoint to retention again."""
    return _mark(call, params.project, params.id, pinned=False)
