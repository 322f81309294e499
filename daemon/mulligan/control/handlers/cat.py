"""file.cat: the bytes of one version of a file."""

from __future__ import annotations

import base64
from typing import Any

from mulligan.control.methods import Params, method
from mulligan.control.objects import kind_name, path_fields, show_path
from mulligan.control.scope import one_path
from mulligan.control.services import Call
from mulligan.errors import NotFoundError, UsageError
from mulligan.model import Entry, Kind

#: Bytes of one answer, unless fewer are asked for.
PIECE = 8 << 20


class CatParams(Params, frozen=True, kw_only=True):
    """One path at a position; `offset` and `limit` are bytes, for files that are larger than one answer."""

    project: str
    id: str
    path: str = ""
    paths: tuple[str, ...] = ()
    paths_b64: tuple[str, ...] = ()
    session: str = ""
    offset: int = 0
    limit: int = PIECE


@method("file.cat", CatParams)
def cat(call: Call, params: CatParams) -> dict[str, Any]:
    """The bytes of a file, or the text of a link, at a position."""
    worker = call.worker(params.project)
    path = one_path(worker, params.path, params.paths, params.paths_b64)
    if params.offset < 0 or params.limit < 1:
        raise UsageError("offset and limit are numbers of bytes", hint="leave them out")
    position = call.names(worker).position(params.id, params.session)
    entry = call.services.store.catalogue().entry_at(worker.project_id, path, position.cut)
    _require_bytes(path, entry, position.label)
    end = params.offset + min(params.limit, PIECE)
    if entry.kind is Kind.LINK:
        data, size = entry.target[params.offset : end], len(entry.target)
    else:
        data, size = call.services.store.contents.part(entry.hash, params.offset, end), entry.size
    try:
        content: str | None = data.decode()
    except UnicodeDecodeError:
        content = None
    return {
        **path_fields(path),
        "checkpoint_id": position.checkpoint.id if position.checkpoint else position.label,
        "kind": kind_name(entry.kind),
        "mode": entry.mode,
        "size": size,
        "hash": entry.hash.hex() if entry.kind is Kind.FILE else None,
        "content": content,
        **({} if content is not None else {"content_b64": base64.b64encode(data).decode()}),
        "next_offset": end if end < size else None,
    }


def _require_bytes(path: bytes, entry: Entry, label: str) -> None:
    shown = show_path(path)
    if entry.kind is Kind.DIR:
        raise UsageError(f"{shown} is a directory", hint=f"mulligan show {label} lists what is in it")
    if entry.kind in (Kind.FILE, Kind.LINK):
        return
    reason = {Kind.ABSENT: f"{shown} does not exist in {label}"}.get(
        entry.kind, f"{shown} has no stored bytes in {label}: {entry.reason or kind_name(entry.kind)}"
    )
    raise NotFoundError(reason, hint=f"mulligan history {shown}")
