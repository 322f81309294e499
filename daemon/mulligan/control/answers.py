"""The answers to `file.history` and `file.blame`, made from a store that is only read."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from mulligan.clock import to_rfc3339
from mulligan.control.library import Evidence, Library
from mulligan.control.objects import kind_name, path_fields, show_path
from mulligan.errors import NotFoundError, UsageError
from mulligan.journal.blame import blame, is_text
from mulligan.journal.history import settled, steps
from mulligan.model import Cut, Flag, Kind, RelPath, Row
from mulligan.store.questions import file_lineage


def history_answer(library: Library, path: RelPath, cut: Cut, *, everything: bool = False) -> dict[str, Any]:
    """The versions of a file, newest first, over its renames. Raises NotFoundError."""
    life = file_lineage(library.catalogue, library.project, path, cut, library.contents.read)
    if not life.rows:
        raise never_known(path)
    rows = life.rows if everything else settled(life.rows)
    evidence = Evidence(library, rows, life.all)
    versions = []
    before: Row | None = None
    for row in rows:
        renamed = before is not None and before.path != row.path
        versions.append(_version(row, evidence, before.path if before and renamed else None))
        before = row
    return {**path_fields(path), "versions": versions[::-1], "left_out": len(life.rows) - len(rows)}


def _version(row: Row, evidence: Evidence, renamed_from: bytes | None) -> dict[str, Any]:
    checkpoint, ordinal = evidence.checkpoint(row)
    entry = row.entry
    return {
        "id": checkpoint or row_name(row),
        "ordinal": ordinal,
        **path_fields(row.path),
        "renamed_from": None if renamed_from is None else show_path(renamed_from),
        "timestamp": to_rfc3339(row.at),
        "kind": kind_name(entry.kind),
        "size": entry.size,
        "mode": entry.mode,
        "hash": entry.hash.hex() if entry.kind is Kind.FILE else None,
        **evidence.who(row),
        **({"torn": True} if row.flags & Flag.TORN else {}),
        **({"reason": entry.reason} if entry.kind is Kind.UNKNOWN else {}),
    }


def row_name(row: Row) -> str:
    """The name of the position at which a row was captured."""
    return f"row:{row.seq}"


class BlameParams(msgspec.Struct, frozen=True):
    """A file at a position."""

    path: bytes
    cut: Cut


def blame_answer(library: Library, params: BlameParams) -> dict[str, Any]:
    """Who brought each line of a file. Raises NotFoundError if it is not there, UsageError if it has no lines."""
    path = RelPath(params.path)
    life = file_lineage(library.catalogue, library.project, path, params.cut, library.contents.read)
    rows = steps(life.rows)
    if not rows:
        raise never_known(path)
    last = rows[-1]
    if last.entry.kind is not Kind.FILE:
        kind = kind_name(last.entry.kind)
        if last.entry.there:
            raise UsageError(f"{show_path(path)} is a {kind}", hint="blame takes a file")
        raise NotFoundError(
            f"{show_path(path)} is {kind} there",
            hint=f"mulligan history {show_path(path)} lists its versions: blame --at ID",
        )
    if last.entry.size and not is_text(last, library.contents.read(last.entry.hash)):
        raise UsageError(f"{show_path(path)} is binary or too large", hint=f"mulligan history {show_path(path)}")
    lines = blame(rows, library.contents.read)
    involved = {line.version for line in lines}
    evidence = Evidence(library, [rows[index] for index in involved], life.all)
    origins = {index: origin(rows[index], evidence) for index in involved}
    return {
        **path_fields(path),
        "lines": [
            {"line": number, **_text(line.text), **origins[line.version]} for number, line in enumerate(lines, start=1)
        ],
    }


def origin(row: Row, evidence: Evidence) -> dict[str, Any]:
    """Where a row comes from: checkpoint, time, and who."""
    checkpoint, ordinal = evidence.checkpoint(row)
    return {
        "checkpoint_id": checkpoint,
        "ordinal": ordinal,
        "timestamp": to_rfc3339(row.at),
        **evidence.who(row),
    }


def _text(line: bytes) -> dict[str, Any]:
    line = line.removesuffix(b"\n")
    text = line.decode("utf-8", "replace")
    exact = text.encode() == line
    return {"text": text, **({} if exact else {"text_b64": base64.b64encode(line).decode()})}


def never_known(path: bytes) -> NotFoundError:
    """A path that the journal never knew is a mistake to be told of, as git does."""
    return NotFoundError(f"{show_path(path)} was never in this project", hint="mulligan show @ lists what is")
