"""What is told as soon as it is known whose changes were whose: destruction in a call, sessions in each other's way.

Runs in the project's worker thread, behind attribution.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from mulligan.errors import IntegrityError
from mulligan.journal.alarm import FEW, Gone
from mulligan.journal.gitstore import LARGEST, GitStore
from mulligan.journal.losses import How, lost
from mulligan.model import Entry, Kind
from mulligan.project.worker import ProjectWorker
from mulligan.session.conflicts import CERTAIN, SPAN, Touch, shared_files
from mulligan.store.catalogue import join_path

_SHOWN = 20
#: So many files are held against what git has, to tell a destruction from the change of a branch.
_SAMPLE = 50


def look_for_destruction(worker: ProjectWorker, call: str) -> None:
    """Raise an alarm if a call did away with much that was there before it."""
    gone = _done_away_with(worker, call)
    if len(gone) < FEW or _is_gits(worker, gone):
        return
    files = worker.record().files + sum(each.how is How.VANISHED for each in gone)
    alarm = worker.health.alarms.judge(call, gone, files, worker.now())
    if alarm is not None:
        session, tool, command = call_words(worker, call)
        worker.bus.publish(
            "destruction",
            project=os.fsdecode(worker.root),
            session=session,
            call=call,
            tool=tool,
            command=command,
            vanished=alarm.vanished,
            emptied=alarm.emptied,
            bytes=alarm.size,
            paths=[_text(path) for path in alarm.paths],
        )


def call_words(worker: ProjectWorker, call: str) -> tuple[str, str, str]:
    """(session, tool, beginning of the command) of a call."""
    found = (
        worker.store.catalogue()
        .db.execute("select session, name, substr(command, 1, 200) from call where id = ?", (call,))
        .fetchone()
    )
    return found if found is not None else ("", "", "")


def _done_away_with(worker: ProjectWorker, call: str) -> list[Gone]:
    """The files that were there before a call's first change of them, and are lost now; not what it only moved."""
    before = ", ".join(f"b.{name}" for name in ("kind", "mode", "size", "hash", "target"))
    live = ", ".join(f"p.{name}" for name in ("kind", "mode", "size", "hash", "target"))
    found = worker.store.catalogue().db.execute(
        f"select p.dir, p.name, {before}, {live} from (select path, min(seq) as first from row where call = ?"
        " group by path) o join path p on p.id = o.path join row b on b.seq ="
        " (select max(seq) from row where path = o.path and seq < o.first)",
        (call,),
    )
    gone: list[Gone] = []
    made = _made(worker, call)
    for directory, name, *entries in found:
        old, new = Entry(Kind(entries[0]), *entries[1:5]), Entry(Kind(entries[5]), *entries[6:])
        how = lost(old, new) if old.kind != Kind.DIR else None
        if how is not None and not (how is How.VANISHED and old.hash in made):
            gone.append(Gone(join_path(directory, name), old, how))
    return gone


def _made(worker: ProjectWorker, call: str) -> set[bytes]:
    """The contents that a call left somewhere."""
    query = "select p.hash from row r join path p on p.id = r.path where r.call = ? and p.kind = 1 and p.size > 0"
    return {found[0] for found in worker.store.catalogue().db.execute(query, (call,))}


def _is_gits(worker: ProjectWorker, gone: Sequence[Gone]) -> bool:
    """Whether git took all of this away and still holds it, as with another branch; judged by a sample."""
    git = GitStore(worker.root)
    try:
        return git.there and all(
            each.how is How.VANISHED and not git.tracks(each.path) and _held(worker, git, each.before)
            for each in gone[:: max(1, len(gone) // _SAMPLE)]
        )
    finally:
        git.close()


def _held(worker: ProjectWorker, git: GitStore, entry: Entry) -> bool:
    if entry.kind != Kind.FILE or entry.size > LARGEST:
        return False
    try:
        return git.held_since(worker.store.contents.read(entry.hash)) > 0
    except IntegrityError:
        return False


def look_for_conflicts(worker: ProjectWorker, call: str, rows: Sequence[int]) -> None:
    """Tell of files that another session changed as well, among those of rows that were attributed just now."""
    since = worker.now() - 2 * SPAN
    active = "select 1 from call where project = ? and start >= ? and session != ? limit 1"
    session, _, _ = call_words(worker, call)
    db = worker.store.catalogue().db
    if not rows or db.execute(active, (worker.project_id, since, session)).fetchone() is None:
        return
    changed = "select path from row where seq in (select value from json_each(?))"
    found = shared_files(touches(worker, changed, (json.dumps(list(rows)),), since))
    news = worker.health.radar.news([one for one in found if session in one.sessions])
    for pair in sorted({tuple(sorted(one.sessions)) for one in news}):
        paths = sorted(one.path for one in news if tuple(sorted(one.sessions)) == pair)
        worker.bus.publish(
            "conflict",
            project=os.fsdecode(worker.root),
            sessions=list(pair),
            files=len(paths),
            paths=[_text(path) for path in paths[:_SHOWN]],
        )


def touches_of(worker: ProjectWorker, session: str) -> list[Touch]:
    """Who changed the files that a session changed, as far as that is certain."""
    changed = "select r.path from row r join call c on c.id = r.call where c.session = ? and r.project = ?"
    return touches(worker, changed, (session, worker.project_id), 0)


def touches(worker: ProjectWorker, paths: str, arguments: tuple[Any, ...], since: int) -> list[Touch]:
    """Which sessions changed some paths (a query for their ids) since a moment, as far as that is certain."""
    cursor = worker.store.catalogue().db.execute(
        "select p.dir, p.name, c.session, r.at from row r join call c on c.id = r.call join path p on p.id = r.path"
        f" where r.path in ({paths}) and r.at >= ? and r.kind != 2 and r.grade in (?, ?)",
        (*arguments, since, *CERTAIN),
    )
    return [Touch(join_path(directory, name), session, at) for directory, name, session, at in cursor]


def _text(path: bytes) -> str:
    return path.decode("utf-8", "replace")
