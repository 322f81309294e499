"""Erasing what was captured: the contents of some paths, or all that is known of a project.

A content is erased by its hash, so it goes from every path and every project that had the same bytes; their versions
say that they were purged. Nothing on disk is touched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field

import msgspec

from mulligan.model import Entry, Kind, covers
from mulligan.project.worker import ProjectWorker
from mulligan.restore.plan import Outcome, Plan
from mulligan.store.catalogue import Catalogue, Project, join_path
from mulligan.store.collection import Collected, Collection
from mulligan.store.encoding import Encoding, block_hashes
from mulligan.store.records import EraseFact
from mulligan.store.state import StateDatabase
from mulligan.store.store import Store

_PURGED, _EVERYTHING = "purged", "everything"
#: So long a collection that is under way is waited for.
_WAIT_SECONDS = 60.0


@dataclass(slots=True)
class Purge:
    """What would be erased: hashes (of blocks too), how many versions, and where else the same bytes stand.

    `there` are paths that are on disk and in scope: their next version is captured again. `kept` are blocks that
    another file has as well.
    """

    hashes: list[bytes] = field(default_factory=list)
    versions: int = 0
    paths: list[bytes] = field(default_factory=list)
    elsewhere: list[tuple[int, bytes]] = field(default_factory=list)
    there: list[bytes] = field(default_factory=list)
    kept: int = 0


def plan_purge(worker: ProjectWorker, paths: Set[bytes]) -> Purge:
    """What erasing some paths, and all below them, comes to. Raises IntegrityError if a list of blocks is damaged."""
    catalogue = worker.store.catalogue()
    found = Purge()
    hashes: set[bytes] = set()
    cursor = catalogue.db.execute(
        "select p.dir, p.name, p.kind, r.hash, r.size from row r join path p on p.id = r.path"
        " where r.project = ? and r.kind = 1 order by p.dir, p.name",
        (worker.project_id,),
    )
    for directory, name, kind, digest, size in cursor:
        path = join_path(directory, name)
        if not covers(paths, path) or not size:
            continue  # what is empty has nothing to erase
        hashes.add(digest)
        found.versions += 1
        if found.paths[-1:] != [path]:
            found.paths.append(path)
            found.there += [path] if kind == Kind.FILE else []
    hashes.update(_of_operations(catalogue, worker.project_id, paths))
    found.elsewhere = _elsewhere(worker, paths, hashes)
    blocks, found.kept = _blocks(worker, hashes)
    found.hashes = sorted(hashes | blocks)
    return found


def _of_operations(catalogue: Catalogue, project: int, paths: Set[bytes]) -> Iterator[bytes]:
    """Versions that only plans and outcomes name."""
    cursor = catalogue.db.execute(
        "select p.phase, p.body from payload p join operation o on o.id = p.operation where o.project = ?", (project,)
    )
    for phase, body in cursor:
        for path, entry in _entries(phase, body):
            if covers(paths, path) and entry.kind == Kind.FILE and entry.size:
                yield entry.hash


def _entries(phase: str, body: bytes) -> Iterator[tuple[bytes, Entry]]:
    if phase == "begin":
        for step in msgspec.msgpack.decode(body, type=Plan).steps():
            yield step.path, step.expected
            yield step.path, step.target
        return
    outcome = msgspec.msgpack.decode(body, type=Outcome)
    for done in outcome.done:
        yield done.path, done.before
        yield done.path, done.after
    yield from outcome.captured


def _elsewhere(worker: ProjectWorker, paths: Set[bytes], hashes: set[bytes]) -> list[tuple[int, bytes]]:
    """(project, path) that had the same bytes."""
    catalogue = worker.store.catalogue()
    cursor = catalogue.db.execute("select distinct path, hash from row where kind = 1 and size > 0")
    numbers = {number for number, digest in cursor if digest in hashes}
    found: list[tuple[int, bytes]] = []
    for number in sorted(numbers):
        query = "select project, dir, name from path where id = ?"
        project, directory, name = catalogue.db.execute(query, (number,)).fetchone()
        path = join_path(directory, name)
        if project != worker.project_id or not covers(paths, path):
            found.append((project, path))
    return found


def _blocks(worker: ProjectWorker, hashes: set[bytes]) -> tuple[set[bytes], int]:
    """The blocks that large files among these consist of and no other has, and how many others have, too."""
    mine: set[bytes] = set()
    others: set[bytes] = set()
    contents = worker.store.contents
    for place in worker.store.catalogue().places():
        if place.encoding == Encoding.BLOCKS:
            (mine if place.hash in hashes else others).update(block_hashes(contents.payload(place)))
    return mine - others, len(mine & others)


class Eraser:
    """Erasing in one store; for any thread. What is begun is remembered, and finished by `finish` after a crash."""

    def __init__(self, store: Store, state: StateDatabase, collection: Collection) -> None:
        self._store, self._state, self._collection = store, state, collection
        #: Erases what is kept of a project and its sessions elsewhere; called again if it was cut short.
        self.erase_beside: Callable[[bytes, list[str]], None] = lambda _project, _sessions: None

    def purge(self, worker: ProjectWorker, paths: Set[bytes]) -> tuple[Purge, Collected, list[int]]:
        """Erase the captured contents of some paths. Returns what it was, and the segments that still have some of it.

        Raises BusyError beside a collection, StoreFullError, IntegrityError.
        """

        def go() -> Purge:
            found = plan_purge(worker, paths)
            self._state.keep_erasing(self._state.erasing() or _PURGED)
            self._collection.purge(found.hashes)
            return found

        with self._collection.alone(_WAIT_SECONDS):
            found = worker.call(go).result()
            return found, *self._erase()

    def erase(self, project: Project) -> tuple[Collected, list[int]]:
        """Erase all that is known of a project that is watched no more. Raises as `purge`."""
        with self._collection.alone(_WAIT_SECONDS):
            self._state.keep_erasing(_EVERYTHING)
            query = "select id from session where project = ?"
            sessions = [session for (session,) in self._store.catalogue().db.execute(query, (project.id,))]
            for scope, subject in [("project", os.fsdecode(project.path)), *(("session", one) for one in sessions)]:
                self._state.replace(scope, subject, {})
            self.erase_beside(project.path, sessions)
            self._store.log.append([EraseFact(project.id)])
            return self._erase()

    def finish(self) -> bool:
        """Go on where an erasure was cut short; whether there was one, and it is done now. Raises as `purge`."""
        if not self._state.erasing():
            return False
        with self._collection.alone():
            return not self._erase()[1]

    def _erase(self) -> tuple[Collected, list[int]]:
        everything = self._state.erasing() == _EVERYTHING
        hashes = self._store.catalogue().purged()
        collected = self._collection.erase(hashes, everything=everything)
        left = self._collection.holding(hashes)
        if not left:
            self._state.keep_erasing("")
        return collected, left
