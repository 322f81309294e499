"""checkpoint.diff: two positions, or a position and the working tree."""

from __future__ import annotations

import base64
from typing import Any

from mulligan.control.methods import Params, method
from mulligan.control.objects import path_fields, show_path
from mulligan.control.scope import chosen_paths
from mulligan.control.services import Call
from mulligan.errors import NotFoundError
from mulligan.journal.diff import Change, FileDiff, Options, TreeDiff, diff_trees
from mulligan.model import Cut, RelPath, covers
from mulligan.project.naming import Position


class DiffParams(Params, frozen=True, kw_only=True, rename={"from_": "from"}):
    """`from` absent: the current checkpoint; `to` absent: the working tree."""

    project: str
    from_: str | None = None
    to: str | None = None
    session: str = ""
    paths: tuple[str, ...] = ()
    paths_b64: tuple[str, ...] = ()
    ignore_whitespace: bool = False


def file_diff_object(diff: FileDiff) -> dict[str, Any]:
    """One file of the diff; a patch that is not UTF-8 is also there as `diff_content_b64`, byte for byte."""
    content = diff.diff.decode("utf-8", "replace")
    fields: dict[str, Any] = {
        **path_fields(diff.path),
        "additions": diff.additions,
        "deletions": diff.deletions,
        "diff_content": content,
        "binary": diff.binary,
        "old_mode": diff.old_mode,
        "new_mode": diff.new_mode,
        "renamed_from": show_path(diff.renamed_from) if diff.renamed_from is not None else None,
    }
    if content.encode() != diff.diff:
        fields["diff_content_b64"] = base64.b64encode(diff.diff).decode()
    return fields


def tree_diff_object(found: TreeDiff) -> dict[str, Any]:
    """Everything that differs, by what happened to it."""
    files: dict[str, list[dict[str, Any]]] = {"modified": [], "added": [], "deleted": []}
    for item in found.files:
        files[{"renamed": "modified"}.get(item.status, item.status)].append(file_diff_object(item))
    return {
        "modified_files": files["modified"],
        "added_files": files["added"],
        "deleted_files": files["deleted"],
        "directories": [{**path_fields(item.path), "status": item.status} for item in found.directories],
        "unseen": [{**path_fields(item.path), "reason": item.reason} for item in found.unseen],
    }


@method("checkpoint.diff", DiffParams)
def diff(call: Call, params: DiffParams) -> dict[str, Any]:
    """What differs, as counts and as a patch."""
    worker = call.worker(params.project)
    names = call.names(worker)
    before = names.position(params.from_ or "@", params.session)
    after: Position | None = names.position(params.to, params.session) if params.to else None
    if after is None:
        worker.call(worker.sync).result()
    project = worker.record()
    cut = after.cut if after else Cut(project.last_seq)
    chosen = chosen_paths(call, worker, params.paths, params.paths_b64)
    catalogue, contents = call.services.store.catalogue(), call.services.store.contents
    changes = [
        Change(RelPath(path), old, new)
        for path, old, new in catalogue.differences(project.id, before.cut, cut, chosen.paths)
        if covers(chosen.paths, path)
    ]
    if not changes:
        _require_known(call, worker.project_id, chosen.named(), params.paths)
    found = diff_trees(changes, contents.read, Options(ignore_whitespace=params.ignore_whitespace))
    one, two = before.checkpoint, after.checkpoint if after else None
    tokens = two.metadata.total_tokens - one.metadata.total_tokens if one and two else 0
    return {
        "from_checkpoint_id": one.id if one else before.label,
        "to_checkpoint_id": two.id if two else (after.label if after else None),
        **tree_diff_object(found),
        "token_delta": tokens,
    }


def _require_known(call: Call, project: int, paths: list[bytes], given: tuple[str, ...]) -> None:
    """A path that the journal never knew is a mistake to be told of, as git does."""
    catalogue = call.services.store.catalogue()
    for path in paths:
        if path and catalogue.live(project, path) is None and next(catalogue.below(project, path), None) is None:
            shown = path.decode("utf-8", "replace")
            raise NotFoundError(f"{shown} was never in this project", hint="mulligan show @ lists what is", paths=given)
