"""Folding what leaves the store: rows, contents, operations, whole projects; and contents that move.

Each runs inside the transaction of its batch.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right

import msgspec

from mulligan.model import KINDS, PURGED, Checkpoint, Entry, Kind
from mulligan.store import records
from mulligan.store.digest import add_digest, entry_digest

_OF_PROJECT = ("row", "path", "checkpoint", "deleted", "current", "session", "prompt", "call", "gap", "operation")


def thin(db: sqlite3.Connection, fact: records.ThinFact) -> None:
    """Rows that no kept position selects."""
    db.executemany(
        "insert or ignore into thinned select ?, path from row where seq = ? and project = ?",
        [(call, seq, fact.project) for call, seq in fact.lost],
    )
    db.executemany(
        "update row set call = ?, grade = ?, flags = ? where seq = ? and project = ?",
        [(call, grade, flags, seq, fact.project) for seq, call, grade, flags in fact.changed],
    )
    db.executemany("delete from row where seq = ? and project = ?", [(seq, fact.project) for seq in fact.rows])
    if fact.before:
        db.execute("update project set thinned = max(thinned, ?) where id = ?", (fact.before, fact.project))


def drop(db: sqlite3.Connection, fact: records.DropFact) -> None:
    """Contents that nothing names; one that was stored again meanwhile has another place, and stays.

    In a catalogue that is made anew from a snapshot it may have none yet.
    """
    db.executemany("delete from content where id = ?1 and (segment = 0 or segment = ?2 and offset = ?3)", fact.contents)


def place(db: sqlite3.Connection, fact: records.PlaceFact) -> None:
    """Contents that were copied, unless they were stored again meanwhile."""
    db.executemany(
        "update content set encoding = ?, segment = ?, offset = ?, stored = ?, base = ?, depth = ?"
        " where id = ? and segment = ? and offset = ?",
        [
            (one.encoding, one.segment, one.offset, one.stored, one.base, one.depth, one.id, one.was_segment,
             one.was_offset)
            for one in fact.moved
        ],
    )  # fmt: skip


def forget(db: sqlite3.Connection, fact: records.ForgetFact) -> None:
    """Operations with their plans and outcomes."""
    going = [(operation,) for operation in fact.operations]
    db.executemany("delete from payload where operation = ?", going)
    db.executemany("delete from operation where id = ?", going)


def purge(db: sqlite3.Connection, fact: records.PurgeFact) -> None:
    """Contents that are to be found nowhere: rows and trees that had them say so."""
    hashes = [(digest,) for digest in fact.hashes]
    db.execute("create temp table if not exists erased (hash blob primary key)")
    db.execute("delete from erased")
    db.executemany("insert or ignore into erased values (?)", hashes)
    db.executemany("insert or ignore into purged values (?)", hashes)
    paths = [
        number for (number,) in db.execute("select distinct path from row where hash in (select hash from erased)")
    ]
    for number in paths:
        _purge_path(db, number)
    for table in ("row", "path"):
        db.execute(
            f"update {table} set kind = {int(Kind.UNKNOWN)}, mode = 0, size = 0, hash = x'', reason = ?"
            " where kind = 1 and hash in (select hash from erased)",
            (PURGED,),
        )
    db.execute("delete from content where hash in (select hash from erased)")
    db.execute("delete from erased")


def _purge_path(db: sqlite3.Connection, number: int) -> None:
    """Take a path's erased versions out of the live tree's totals and out of the trees of checkpoints."""
    project, directory, name = db.execute("select project, dir, name from path where id = ?", (number,)).fetchone()
    path = directory + b"/" + name if directory else name
    rows = db.execute(
        "select seq, at, kind, mode, size, hash, target, reason, hash in (select hash from erased) from row"
        " where path = ? order by seq",
        (number,),
    ).fetchall()
    seqs, moments = [row[0] for row in rows], [row[1] for row in rows]
    if rows[-1][8]:
        entry = Entry(KINDS[rows[-1][2]], *rows[-1][3:8])
        (digest,) = db.execute("select digest from project where id = ?", (project,)).fetchone()
        db.execute(
            "update project set files = files - 1, bytes = bytes - ?, digest = ? where id = ?",
            (entry.size, add_digest(digest, -entry_digest(path, entry)), project),
        )
    for checkpoint, body in db.execute("select id, body from checkpoint where project = ?", (project,)).fetchall():
        made = msgspec.msgpack.decode(body, type=Checkpoint)
        count = min(bisect_right(seqs, made.seq), bisect_right(moments, made.moment))
        if count and rows[count - 1][8]:
            entry = Entry(KINDS[rows[count - 1][2]], *rows[count - 1][3:8])
            db.execute("update checkpoint set body = ? where id = ?", (_without(made, path, entry), checkpoint))


def _without(made: Checkpoint, path: bytes, entry: Entry) -> bytes:
    """A checkpoint whose tree does not hold a file any more."""
    metadata = msgspec.structs.replace(made.metadata, snapshot_size=made.metadata.snapshot_size - entry.size)
    tree = add_digest(bytes.fromhex(made.tree), -entry_digest(path, entry)).hex() if made.tree else ""
    changed = msgspec.structs.replace(made, incomplete=[*made.incomplete, (path, PURGED)], tree=tree, metadata=metadata)
    return msgspec.msgpack.encode(changed)


def erase(db: sqlite3.Connection, fact: records.EraseFact) -> None:
    """All of a project but the row that says where it is; it begins anew if it is added again."""
    project = (fact.project,)
    db.execute("delete from thinned where path in (select id from path where project = ?)", project)
    db.execute("delete from usage where session in (select id from session where project = ?)", project)
    db.execute("delete from payload where operation in (select id from operation where project = ?)", project)
    for table in _OF_PROJECT:
        db.execute(f"delete from {table} where project = ?", project)
    db.execute(
        "update project set files = 0, dirs = 0, links = 0, bytes = 0, digest = zeroblob(32), baseline_end = 0,"
        " thinned = 0 where id = ?",
        project,
    )
