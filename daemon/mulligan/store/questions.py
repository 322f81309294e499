"""Queries behind `history` and `blame`: who made rows, which checkpoints hold them, where a file came from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from mulligan.clock import MILLISECOND
from mulligan.journal.history import REPLACED, Doing, Lineage, Mark, Source, lineage
from mulligan.journal.renames import find_renames
from mulligan.model import Checkpoint, Cut, Entry, Flag, Kind, RelPath, Row
from mulligan.store.catalogue import Catalogue, join_path

#: Characters of a prompt that go with every version and line; `session` and its number name the rest.
PROMPT_SHOWN = 300
#: What was deleted around one moment and is compared with what was created then.
_CANDIDATES = 200
_MARGIN = 1000 * MILLISECOND


def file_lineage(
    catalogue: Catalogue, project: int, path: RelPath, cut: Cut, read: Callable[[bytes], bytes]
) -> Lineage:
    """The rows of a file's life up to a cut, over its renames; none if the path was never known."""
    return lineage(
        path,
        cut,
        lambda name: catalogue.versions(project, name),
        lambda row: came_from(catalogue, project, row, read),
    )


def paths_below(catalogue: Catalogue, project: int, directory: bytes) -> Iterator[bytes]:
    """Every path that was ever known below a directory; b"" is the root."""
    query = "select dir, name from path where project = ?"
    if directory:  # two searches of the index; with an "or" SQLite walks the whole project
        query = f"{query} and dir = ? union all {query} and dir > ? and dir < ?"
        arguments = [project, directory, project, directory + b"/", directory + b"0"]
    else:
        arguments = [project]
    return (join_path(*found) for found in catalogue.db.execute(query, arguments))


def came_from(catalogue: Catalogue, project: int, row: Row, read: Callable[[bytes], bytes]) -> Source | None:
    """Where a file that a row made came from: what vanished at that moment with the same bytes, or alike in one call.

    Looks at the rows around that moment alone; a scan after a gap has found both at its own time.
    """
    last = row.at + REPLACED
    if row.flags & Flag.AWAY:
        last = max([last, *(end + REPLACED for start, end, _ in catalogue.gaps(project) if start <= row.at <= end)])
    cursor = catalogue.db.execute(
        "select p.dir, p.name, g.seq, b.mode, b.size, b.hash from row g join path p on p.id = g.path"
        " join row b on b.seq = (select max(seq) from row where path = g.path and seq < g.seq)"
        " where g.project = ? and g.at >= ? and g.at <= ? and g.kind = 0 and b.kind = 1"
        " and (b.hash = ? or (g.call != '' and g.call = ?)) order by abs(g.at - ?), g.seq limit ?",
        (project, row.at - REPLACED, last, row.entry.hash, row.call, row.at, _CANDIDATES),
    )
    gone: dict[RelPath, tuple[Entry, int]] = {}
    for directory, name, seq, mode, size, digest in cursor:
        path = RelPath(join_path(directory, name))
        if path != row.path:
            gone.setdefault(path, (Entry(Kind.FILE, mode, size, digest), seq))
    found = find_renames([(path, entry) for path, (entry, _) in gone.items()], [(RelPath(row.path), row.entry)], read)
    return Source(found[0].old, gone[found[0].old][1]) if found else None


def marks(catalogue: Catalogue, project: int, since: int) -> list[Mark]:
    """The checkpoints of a project from about a moment on, in the order of their times."""
    cursor = catalogue.db.execute(
        "select id, ordinal, timestamp, seq, moment from checkpoint where project = ? and timestamp >= ?"
        " order by timestamp, ordinal",
        (project, since - _MARGIN),
    )
    return [Mark(name, ordinal, timestamp, Cut(seq, moment)) for name, ordinal, timestamp, seq, moment in cursor]


def doings(catalogue: Catalogue, calls: Iterable[str]) -> dict[str, Doing]:
    """What is known of some calls, by their ids."""
    cursor = catalogue.db.execute(
        "select c.id, c.session, c.project, c.name, c.prompt, c.agent, c.unguarded,"
        " coalesce((select substr(text, 1, ?) from prompt where session = c.session and ordinal = c.prompt), '')"
        " from call c where c.id in (select value from json_each(?))",
        (PROMPT_SHOWN, json.dumps(sorted(set(calls) - {""}))),
    )
    found: dict[str, Doing] = {}
    models: dict[str, list[str]] = {}
    for call, session, project, name, prompt, agent, unguarded, text in cursor.fetchall():
        if session not in models:
            models[session] = _models(catalogue, session)
        model = models[session][0] if len(models[session]) == 1 else ""
        if len(models[session]) > 1 and not agent:
            model = _model_at(catalogue, project, call)
        found[call] = Doing(call, session, name, prompt, text, model, bool(unguarded))
    return found


def _models(catalogue: Catalogue, session: str) -> list[str]:
    query = "select distinct model from usage where session = ? and model not in ('', '<synthetic>')"
    return [model for (model,) in catalogue.db.execute(query, (session,))]


def _model_at(catalogue: Catalogue, project: int, call: str) -> str:
    """The model that a session used when a call of it ended, if a checkpoint was taken then."""
    body: tuple[Any, ...] | None = catalogue.db.execute(
        "select body from checkpoint where project = ? and event_key = ?", (project, f"tool_use:{call}")
    ).fetchone()
    return "" if body is None else msgspec.msgpack.decode(body[0], type=Checkpoint).metadata.model_used
