"""Folding batches into the catalogue: one function per kind of fact, one transaction per batch.

The digest of a project's live tree is kept in O(changes): the sum, modulo 2**256, of one SHA-256 per entry that is
there. It finds our own mistakes and answers at once whether two trees differ.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from mulligan.model import Checkpoint, Entry, Flag, Kind, Row, Stat
from mulligan.store import records

_MODULUS = 1 << 256
ZERO_DIGEST = b"\0" * 32
_THERE = (Kind.FILE, Kind.DIR, Kind.LINK)


def entry_digest(path: bytes, entry: Entry) -> int:
    """The summand of one entry; 0 for what is not there."""
    if not entry.there:
        return 0
    last = entry.hash if entry.kind == Kind.FILE else entry.target
    state = hashlib.sha256()
    kind, mode = entry.kind.to_bytes(1, "big"), entry.mode.to_bytes(2, "big")
    for part in (b"mulligan-entry-1", path, kind, mode, last):
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return int.from_bytes(state.digest(), "big")


def add_digest(digest: bytes, difference: int) -> bytes:
    """A digest after entries came (positive) and went (negative)."""
    return ((int.from_bytes(digest, "big") + difference) % _MODULUS).to_bytes(32, "big")


def split_path(path: bytes) -> tuple[bytes, bytes]:
    """(directory, name) of a relative path."""
    directory, _, name = path.rpartition(b"/")
    return directory, name


def fold(connection: sqlite3.Connection, batch: records.Batch, segment: int, end: int) -> None:
    """Apply one batch and move the watermark to behind it, in one transaction.

    Raises sqlite3.Error; then nothing of it is applied.
    """
    connection.execute("begin immediate")
    try:
        for fact in batch.facts:
            _FOLDERS[type(fact)](connection, fact)
        watermark = [("batch", batch.number), ("segment", segment), ("offset", end), ("time", batch.time)]
        connection.executemany("insert or replace into meta values (?, ?)", watermark)
        connection.execute("commit")
    except BaseException:
        connection.execute("rollback")
        raise


def _content(db: sqlite3.Connection, fact: records.ContentFact) -> None:
    # A hash that two writers stored at once keeps its first place; the second is dead weight until collection.
    db.execute(
        "insert or ignore into content values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (fact.id, fact.hash, fact.size, fact.encoding, fact.segment, fact.offset, fact.stored, fact.base, fact.depth),
    )
    db.execute("insert or replace into meta values ('content_id', ?)", (fact.id,))


def _project(db: sqlite3.Connection, fact: records.ProjectFact) -> None:
    db.execute(
        "insert into project (id, path, state, dev, ino, generation, added, baseline_end, reason, digest)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " on conflict (id) do update set path = excluded.path, state = excluded.state, dev = excluded.dev,"
        " ino = excluded.ino, generation = excluded.generation, baseline_end = excluded.baseline_end,"
        " reason = excluded.reason",
        (
            fact.id,
            fact.path,
            fact.state,
            fact.dev,
            fact.ino,
            fact.generation,
            fact.added,
            fact.baseline_end,
            fact.reason,
            ZERO_DIGEST,
        ),
    )


class _Totals:
    """What rows do to a project's counts."""

    def __init__(self) -> None:
        self.kinds = dict.fromkeys(_THERE, 0)
        self.bytes = self.digest = 0

    def count(self, path: bytes, entry: Entry, sign: int) -> None:
        if entry.there:
            self.kinds[entry.kind] += sign
            self.bytes += sign * entry.size
            self.digest += sign * entry_digest(path, entry)


def _rows(db: sqlite3.Connection, fact: records.RowsFact) -> None:
    totals = _Totals()
    numbered: list[tuple[Any, ...]] = []
    latest: dict[bytes, int] = {}
    for index, (row, stat) in enumerate(zip(fact.rows, fact.stats, strict=True)):
        seq = fact.first_seq + index
        path_id = latest.get(row.path)
        old = _live(db, fact.project, row.path)
        if old is not None:
            path_id = old[0]
            totals.count(row.path, old[1], -1)
        totals.count(row.path, row.entry, 1)
        path_id = _set_live(db, fact.project, path_id, row, seq, stat)
        latest[row.path] = path_id
        entry = row.entry
        numbered.append(
            (
                seq,
                fact.project,
                path_id,
                entry.kind,
                entry.mode,
                entry.size,
                entry.hash,
                entry.target,
                entry.reason,
                row.since,
                row.at,
                row.flags,
                row.call,
                row.grade,
            )
        )
    db.executemany("insert into row values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", numbered)
    (digest,) = db.execute("select digest from project where id = ?", (fact.project,)).fetchone()
    last_seq = fact.first_seq + len(fact.rows) - 1
    db.execute(
        "update project set last_seq = ?, files = files + ?, dirs = dirs + ?, links = links + ?, bytes = bytes + ?,"
        " digest = ?, last_capture = ? where id = ?",
        (
            last_seq,
            totals.kinds[Kind.FILE],
            totals.kinds[Kind.DIR],
            totals.kinds[Kind.LINK],
            totals.bytes,
            add_digest(digest, totals.digest),
            max((stat.seen for stat in fact.stats), default=0),
            fact.project,
        ),
    )
    db.execute("insert or replace into meta values ('seq', ?)", (last_seq,))


def _live(db: sqlite3.Connection, project: int, path: bytes) -> tuple[int, Entry] | None:
    found = db.execute(
        "select id, kind, mode, size, hash, target, reason from path where project = ? and dir = ? and name = ?",
        (project, *split_path(path)),
    ).fetchone()
    return None if found is None else (found[0], Entry(Kind(found[1]), *found[2:]))


def _set_live(db: sqlite3.Connection, project: int, path_id: int | None, row: Row, seq: int, stat: Stat) -> int:
    entry = row.entry
    values = (
        seq,
        entry.kind,
        entry.mode,
        entry.size,
        entry.hash,
        entry.target,
        entry.reason,
        row.flags,
        row.since,
        row.at,
        *msgspec.structs.astuple(stat),
    )
    if path_id is None:
        born_unknown = int(bool(row.flags & Flag.FROM_UNKNOWN))
        cursor = db.execute(
            "insert into path (project, dir, name, seq, kind, mode, size, hash, target, reason, flags, since, at,"
            " dev, ino, stat_size, stat_mode, mtime, ctime, seen, born_unknown)"
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (project, *split_path(row.path), *values, born_unknown),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid
    db.execute(
        "update path set seq = ?, kind = ?, mode = ?, size = ?, hash = ?, target = ?, reason = ?, flags = ?, since = ?,"
        " at = ?, dev = ?, ino = ?, stat_size = ?, stat_mode = ?, mtime = ?, ctime = ?, seen = ? where id = ?",
        (*values, path_id),
    )
    return path_id


def _stats(db: sqlite3.Connection, fact: records.StatsFact) -> None:
    db.executemany(
        "update path set dev = ?, ino = ?, stat_size = ?, stat_mode = ?, mtime = ?, ctime = ?, seen = ?"
        " where project = ? and dir = ? and name = ?",
        [(*msgspec.structs.astuple(stat), fact.project, *split_path(path)) for path, stat in fact.stats],
    )


def _checkpoint(db: sqlite3.Connection, fact: records.CheckpointFact) -> None:
    made = fact.checkpoint
    db.execute(
        "insert into checkpoint values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            made.id,
            made.project,
            made.ordinal,
            made.session,
            made.parent,
            made.timestamp,
            made.seq,
            made.moment,
            made.trigger,
            made.event_key or None,
            made.pinned,
            made.description,
            msgspec.msgpack.encode(made),
        ),
    )
    db.execute("update project set next_ordinal = max(next_ordinal, ?) where id = ?", (made.ordinal + 1, made.project))


def _mark(db: sqlite3.Connection, fact: records.MarkFact) -> None:
    found = db.execute("select body from checkpoint where id = ?", (fact.checkpoint,)).fetchone()
    if found is None:
        return
    made = msgspec.msgpack.decode(found[0], type=Checkpoint)
    description = made.description if fact.description is None else fact.description
    pinned = made.pinned if fact.pinned is None else fact.pinned
    parent = made.parent if fact.parent is None else fact.parent
    changed = msgspec.structs.replace(made, description=description, pinned=pinned, parent=parent)
    db.execute(
        "update checkpoint set description = ?, pinned = ?, parent = ?, body = ? where id = ?",
        (description, pinned, parent, msgspec.msgpack.encode(changed), fact.checkpoint),
    )


def _current(db: sqlite3.Connection, fact: records.CurrentFact) -> None:
    db.execute("insert or replace into current values (?, ?, ?)", (fact.project, fact.session, fact.checkpoint))


def _session(db: sqlite3.Connection, fact: records.SessionFact) -> None:
    db.execute(
        "insert into session values (?, ?, ?, ?, ?, ?, ?) on conflict (id) do update set project = excluded.project,"
        " transcript = excluded.transcript, last = max(last, excluded.last), state = excluded.state,"
        " ended = excluded.ended",
        (fact.id, fact.project, fact.transcript, fact.first, fact.last, fact.state, fact.ended),
    )


def _prompt(db: sqlite3.Connection, fact: records.PromptFact) -> None:
    db.execute(
        "insert or ignore into prompt values (?, ?, ?, ?, ?, ?, ?)",
        (fact.key, fact.session, fact.ordinal, fact.project, fact.moment, fact.text, fact.kind),
    )


def _call(db: sqlite3.Connection, fact: records.CallFact) -> None:
    db.execute(
        "insert or replace into call values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            fact.id,
            fact.session,
            fact.project,
            fact.name,
            fact.owns,
            fact.start,
            fact.end,
            fact.is_error,
            msgspec.msgpack.encode(fact.paths),
            fact.prompt,
            fact.agent,
            fact.background,
            fact.background_end,
        ),
    )


def _usage(db: sqlite3.Connection, fact: records.UsageFact) -> None:
    db.execute(
        "insert into usage values (?, ?, ?, ?, ?, ?, ?, (select coalesce(max(number), 0) + 1 from usage))"
        " on conflict (message) do update set model = excluded.model, input = excluded.input, output = excluded.output,"
        " cache_creation = excluded.cache_creation, cache_read = excluded.cache_read",
        (fact.message, fact.session, fact.model, fact.input, fact.output, fact.cache_creation, fact.cache_read),
    )


def _keys(db: sqlite3.Connection, fact: records.KeysFact) -> None:
    db.executemany("insert or ignore into known values (?, ?)", [(key, fact.session) for key in fact.keys])


def _attribution(db: sqlite3.Connection, fact: records.AttributionFact) -> None:
    db.executemany(
        "update row set call = ?, grade = ? where seq = ? and project = ?",
        [(call, grade, seq, fact.project) for seq, call, grade in fact.rows],
    )


def _offset(db: sqlite3.Connection, fact: records.OffsetFact) -> None:
    db.execute("insert or replace into offset values (?, ?)", (fact.file, fact.state))


def _gap(db: sqlite3.Connection, fact: records.GapFact) -> None:
    db.execute("insert into gap values (?, ?, ?, ?)", (fact.project, fact.start, fact.end, fact.reason))


def _operation(db: sqlite3.Connection, fact: records.OperationFact) -> None:
    if fact.phase == "begin":
        (number,) = db.execute("select coalesce(max(number), 0) + 1 from operation").fetchone()
        db.execute(
            "insert or replace into operation values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                fact.id,
                fact.project,
                fact.kind,
                fact.phase,
                fact.time,
                fact.target,
                fact.before,
                fact.payload,
                b"",
                fact.undoes,
                number,
            ),
        )
        return
    db.execute("update operation set phase = ? where id = ?", (fact.phase, fact.id))
    if fact.phase == "done":
        db.execute("update operation set outcome = ? where id = ?", (fact.payload, fact.id))


def _clock(db: sqlite3.Connection, fact: records.ClockFact) -> None:
    db.executemany(
        "insert or replace into meta values (?, ?)", [("correction", fact.correction), ("latest", fact.latest)]
    )
    db.execute("insert or ignore into meta values ('first_start', ?)", (fact.latest,))


_FOLDERS: dict[type, Callable[[sqlite3.Connection, Any], None]] = {
    records.ContentFact: _content,
    records.ProjectFact: _project,
    records.RowsFact: _rows,
    records.StatsFact: _stats,
    records.CheckpointFact: _checkpoint,
    records.MarkFact: _mark,
    records.CurrentFact: _current,
    records.SessionFact: _session,
    records.PromptFact: _prompt,
    records.CallFact: _call,
    records.UsageFact: _usage,
    records.KeysFact: _keys,
    records.AttributionFact: _attribution,
    records.OffsetFact: _offset,
    records.GapFact: _gap,
    records.OperationFact: _operation,
    records.ClockFact: _clock,
}
