"""Folding batches into the catalogue: one function per kind of fact, one transaction per batch."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain
from typing import Any

import msgspec

from mulligan.model import KINDS, Checkpoint, Entry, Flag, Kind, Row
from mulligan.store import records, removals
from mulligan.store.digest import THERE, ZERO_DIGEST, add_digest, entry_digest
from mulligan.store.many import insert, update

_FROM_UNKNOWN = int(Flag.FROM_UNKNOWN)
#: Names that are looked up at once.
_NAMES = 100


def split_path(path: bytes) -> tuple[bytes, bytes]:
    """(directory, name) of a relative path."""
    directory, _, name = path.rpartition(b"/")
    return directory, name


def by_directory(paths: Iterable[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
    """(directory, names in it) of many paths, as many names at once as one query looks up."""
    grouped: dict[bytes, list[bytes]] = {}
    for path in paths:
        directory, name = split_path(path)
        grouped.setdefault(directory, []).append(name)
    for directory, names in grouped.items():
        for start in range(0, len(names), _NAMES):
            yield directory, names[start : start + _NAMES]


def fold(connection: sqlite3.Connection, batch: records.Batch, segment: int, end: int) -> None:
    """Apply one batch and move the watermark to behind it, in one transaction.

    Raises sqlite3.Error, or whatever a fact that cannot be stored leads to; then nothing of it is applied.
    """
    connection.execute("begin immediate")
    try:
        # Of a scan there are as many as files; nothing else is folded in another way for them.
        _contents(connection, [fact for fact in batch.facts if isinstance(fact, records.ContentFact)])
        for fact in batch.facts:
            if not isinstance(fact, records.ContentFact):
                _FOLDERS[type(fact)](connection, fact)
        watermark = [("batch", batch.number), ("segment", segment), ("offset", end), ("time", batch.time)]
        connection.executemany("insert or replace into meta values (?, ?)", watermark)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:  # SQLite has rolled back by itself when the disk is full
            connection.execute("rollback")
        raise


def _contents(db: sqlite3.Connection, facts: list[records.ContentFact]) -> None:
    if not facts:
        return
    values = [
        (fact.id, fact.hash, fact.size, fact.encoding, fact.segment, fact.offset, fact.stored, fact.base, fact.depth)
        for fact in facts
    ]
    # A content that is stored again keeps its id, since deltas name it, and has its new place: the old one may be
    # damaged. What stands on other contents replaces nothing, so chains still end.
    insert(
        db,
        "content",
        values,
        "on conflict (hash) do update set size = excluded.size, encoding = excluded.encoding,"
        " segment = excluded.segment, offset = excluded.offset, stored = excluded.stored, base = 0, depth = 0"
        " where excluded.base = 0",
    )
    db.execute("insert or replace into meta values ('content_id', ?)", (facts[-1].id,))


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
        self.kinds = dict.fromkeys(THERE, 0)
        self.bytes = self.digest = 0

    def count(self, path: bytes, entry: Entry, sign: int) -> None:
        if entry.kind in THERE:
            self.kinds[entry.kind] += sign
            self.bytes += sign * entry.size
            self.digest += sign * entry_digest(path, entry)


def _rows(db: sqlite3.Connection, fact: records.RowsFact) -> None:
    totals = _Totals()
    paths = _Paths(db, fact)
    numbered: list[tuple[Any, ...]] = []
    for seq, (row, stat) in enumerate(zip(fact.rows, fact.stats, strict=True), fact.first_seq):
        old = paths.live(row.path)
        if old is not None:
            totals.count(row.path, old, -1)
        entry = row.entry
        totals.count(row.path, entry, 1)
        # SQLite's module takes four times as long for the member of an enumeration as for a number
        values = (int(entry.kind), entry.mode, entry.size, entry.hash, entry.target, entry.reason)
        path_id = paths.put(row, (seq, *values, row.flags, row.since, row.at, *_astuple(stat)))
        numbered.append((seq, fact.project, path_id, *values, row.since, row.at, row.flags, row.call, row.grade))
    paths.write()
    insert(db, "row", numbered)
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


_astuple = msgspec.structs.astuple


def _marks(count: int) -> str:
    return ", ".join("?" * count)


@cache
def _look_up(count: int) -> str:
    """Takes (directory, name) of so many paths and the project: "place id counts" of those known, with commas."""
    places = ", ".join(f"({place}, ?, ?)" for place in range(count))
    counts = f"p.kind in ({', '.join(str(int(kind)) for kind in THERE)})"
    return (
        f"select group_concat(v.column1 || ' ' || p.id || ' ' || ({counts})) from (values {places}) v"
        " cross join path p where p.project = ? and p.dir = v.column2 and p.name = v.column3"
    )


#: The columns of a path that change.
_CHANGING = (
    "seq", "kind", "mode", "size", "hash", "target", "reason", "flags", "since", "at", "dev", "ino", "stat_size",
    "stat_mode", "mtime", "ctime", "seen",
)  # fmt: skip


class _Paths:
    """The live entries of one batch's paths, looked up before and written after all of its rows.

    Some are looked up at once, with one line of answer: a line for each would let go of the interpreter as often.
    """

    def __init__(self, db: sqlite3.Connection, fact: records.RowsFact) -> None:
        self._db, self._project = db, fact.project
        #: by path: its id, and what stands there if that counts
        self._found: dict[bytes, tuple[int, Entry | None]] = {}
        self._new: dict[bytes, tuple[Any, ...]] = {}
        self._changed: dict[bytes, tuple[Any, ...]] = {}
        (last,) = db.execute("select coalesce(max(id), 0) from path").fetchone()
        self._next: int = last + 1
        paths = [row.path for row in fact.rows]
        for start in range(0, len(paths), _NAMES):
            self._look_up(paths[start : start + _NAMES])

    def live(self, path: bytes) -> Entry | None:
        """What stood at a path until now, if that counts."""
        known = self._found.get(path)
        return known[1] if known else None

    def _look_up(self, paths: list[bytes]) -> None:
        names = chain.from_iterable(split_path(path) for path in paths)
        (answer,) = self._db.execute(_look_up(len(paths)), (*names, self._project)).fetchone()
        there: dict[int, bytes] = {}
        for line in answer.split(",") if answer else ():
            place, number, counts = line.split(" ")
            path = paths[int(place)]
            self._found[path] = int(number), None
            if counts == "1":
                there[int(number)] = path
        if there:
            columns = "id, kind, mode, size, hash, target, reason"
            cursor = self._db.execute(f"select {columns} from path where id in ({_marks(len(there))})", tuple(there))
            for number, kind, *entry in cursor:
                self._found[there[number]] = number, Entry(KINDS[kind], *entry)

    def put(self, row: Row, values: tuple[Any, ...]) -> int:
        """Set what stands at a path; returns the path's id."""
        known = self._found.get(row.path)
        if known is not None:
            self._changed[row.path] = (*values, known[0])
            self._found[row.path] = (known[0], row.entry)
            return known[0]
        number: int = self._next
        self._next += 1
        born_unknown = int(row.flags & _FROM_UNKNOWN != 0)
        self._new[row.path] = (number, self._project, *split_path(row.path), *values, born_unknown)
        self._found[row.path] = (number, row.entry)
        return number

    def write(self) -> None:
        """Write all paths."""
        insert(self._db, "path", self._new.values())
        update(self._db, "path", _CHANGING, self._changed.values())


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


def _delete(db: sqlite3.Connection, fact: records.DeleteFact) -> None:
    going = [(made, fact.project) for made in fact.checkpoints]
    where = "where id = ? and project = ?"
    db.executemany(
        f"insert or ignore into deleted select project, event_key from checkpoint {where} and event_key is not null",
        going,
    )
    db.executemany(f"delete from checkpoint {where}", going)


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
        f"insert or replace into call values ({_marks(16)})",
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
            fact.command,
            fact.barrier,
            fact.unguarded,
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
    # Plans and outcomes of a big restore are megabytes: they have rows of their own, which no change of phase rewrites.
    if fact.phase == "begin":
        (number,) = db.execute("select coalesce(max(number), 0) + 1 from operation").fetchone()
        db.execute(
            f"insert or replace into operation values ({_marks(9)})",
            (fact.id, fact.project, fact.kind, fact.phase, fact.time, fact.target, fact.before, fact.undoes, number),
        )
    else:
        db.execute("update operation set phase = ? where id = ?", (fact.phase, fact.id))
    if fact.phase in ("begin", "done"):
        db.execute("insert or replace into payload values (?, ?, ?)", (fact.id, fact.phase, fact.payload))


def _clock(db: sqlite3.Connection, fact: records.ClockFact) -> None:
    db.executemany(
        "insert or replace into meta values (?, ?)", [("correction", fact.correction), ("latest", fact.latest)]
    )
    db.execute("insert or ignore into meta values ('first_start', ?)", (fact.latest,))


_FOLDERS: dict[type, Callable[[sqlite3.Connection, Any], None]] = {
    records.ProjectFact: _project,
    records.RowsFact: _rows,
    records.StatsFact: _stats,
    records.CheckpointFact: _checkpoint,
    records.MarkFact: _mark,
    records.DeleteFact: _delete,
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
    records.ThinFact: removals.thin,
    records.DropFact: removals.drop,
    records.PlaceFact: removals.place,
    records.ForgetFact: removals.forget,
    records.PurgeFact: removals.purge,
    records.EraseFact: removals.erase,
    records.ClockFact: _clock,
}
