"""project.import_opcode: checkpoints that opcode has kept, as checkpoints of an archive beside the project."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from mulligan.control.methods import Params, method
from mulligan.control.objects import checkpoint_object, path_fields, show_path
from mulligan.control.services import Call
from mulligan.errors import ConflictError, NotFoundError, UsageError
from mulligan.model import Checkpoint, Kind
from mulligan.project.opcode import Rebuilt
from mulligan.project.opcode_files import TIMELINES, Timeline, find, read
from mulligan.project.opcode_import import REASON, OpcodeImport, archive_root, rebuilt, session_name
from mulligan.project.worker import ProjectWorker
from mulligan.transcript.locate import slug


class ImportOpcodeParams(Params, frozen=True, kw_only=True):
    """`path` is a directory of timelines, or one of them; without it those of the project are sought.

    `project` is the root that opcode was used in; with a `path` it is needed if no message says it.
    """

    project: str = ""
    path: str = ""
    dry_run: bool = False


@method("project.import_opcode", ImportOpcodeParams)
def import_opcode(call: Call, params: ImportOpcodeParams) -> dict[str, Any]:
    """Import the timelines of opcode; nothing of opcode's is changed, and importing again adds what is new."""
    if params.path and (not os.path.isabs(params.path) or "\0" in params.path):
        raise UsageError("the directory of the timelines is not an absolute path", hint="give the whole path")
    root = os.path.realpath(params.project) if params.project else ""
    timelines = [read(directory) for directory in _places(call, params.path, root)]
    for timeline in timelines:
        timeline.root = root or timeline.root
        if not timeline.root:
            raise UsageError(f"{timeline.directory}: no message says where the project is", hint="give --project PATH")
    imported = [_one(call, timeline, dry_run=params.dry_run) for timeline in timelines]
    partial_ = any(not made["complete"] for one in imported for made in one["checkpoints"])
    return {
        "timelines": imported,
        "dry_run": params.dry_run,
        **({"exit_status": 3} if partial_ and not params.dry_run else {}),
    }


def _places(call: Call, path: str, root: str) -> list[str]:
    """The directories of the timelines that are meant."""
    if path:
        return find(path)
    if not root:
        raise UsageError("neither a project nor a directory is named", hint="give the directory of the timelines")
    places = [
        os.path.join(directory, "projects", slug(root), TIMELINES) for directory in call.services.claude_config_dirs
    ]
    found = [one for place in places if os.path.isdir(place) for one in find(place)]
    if not found:
        raise NotFoundError(f"opcode kept nothing for {root}", hint="give the directory of its timelines")
    return found


def _one(call: Call, timeline: Timeline, *, dry_run: bool) -> dict[str, Any]:
    """Import one timeline; what became of it."""
    limit = call.services.config().max_file_bytes
    found = rebuilt(timeline, limit, call.services.store)
    place = archive_root(timeline.root, timeline.session)
    ghosts = sorted(node.id for node in timeline.nodes.values() if node.ghost)
    told = {
        "source": timeline.directory,
        "session_id": session_name(timeline.session),
        **path_fields(os.fsencode(timeline.root), "project_path"),
        **path_fields(place, "archive"),
        "known": 0,
        "removed_by_opcode": ghosts,
        "warnings": list(timeline.faults),
    }
    if dry_run or not found:
        return {**told, "checkpoints": [_told(one, None, place) for one in found]}
    worker = _archive(call, place, timeline)
    done = worker.call(partial(OpcodeImport(worker, timeline, limit).run, found)).result()
    call.services.bus.publish("project", project=show_path(worker.root), state="imported")
    objects = [_told(one, made, worker.root) for one, made in done.made]
    return {**told, **path_fields(worker.root, "archive"), "known": done.known, "checkpoints": objects}


def _archive(call: Call, place: bytes, timeline: Timeline) -> ProjectWorker:
    """The archive's worker. Raises ConflictError if its path belongs to anything else."""
    known = call.services.registry.holding(place)
    taken = os.path.lexists(place) or (known is not None and known.root == place and not _is_ours(known))
    if taken:
        raise ConflictError(f"{show_path(place)} is there already", hint=f"move it away to import {timeline.session}")
    return call.services.registry.archive(place, REASON)


def _is_ours(worker: ProjectWorker) -> bool:
    return worker.record().reason == REASON


def _told(one: Rebuilt, made: Checkpoint | None, root: bytes) -> dict[str, Any]:
    """A checkpoint of ours with what it was; without one what it would be."""
    unknown = [(path, what.entry.reason) for path, what in sorted(one.tree.items()) if what.entry.kind == Kind.UNKNOWN]
    missing = [(b"", reason) for reason in one.incomplete] + unknown
    missing += [(path, "it was being written") for path, what in sorted(one.tree.items()) if what.flags]
    plain = {
        "complete": not missing,
        "incomplete_paths": [{**path_fields(path), "reason": reason} for path, reason in missing],
        "description": one.node.description,
    }
    return {
        **(checkpoint_object(made, root) if made is not None else plain),
        "opcode_id": one.node.id,
        "files": sum(what.entry.kind == Kind.FILE for what in one.tree.values()),
        "notes": one.notes,
    }
