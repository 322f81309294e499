"""Collecting: rows that no kept position needs leave the journal, then contents that nothing names leave the store.

The order is what makes it safe to be killed anywhere: rows leave by a batch; a snapshot of the catalogue is durable;
contents leave by a batch, and from then on nothing may build on them; what is needed of a segment is copied, made
durable and read back; a batch says where it is; the catalogue is made durable; only then is the segment unlinked. What
a killed collection leaves behind is dead weight that the next one takes away.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from mulligan import child
from mulligan.errors import MulliganError
from mulligan.faults import point
from mulligan.journal.thinning import Thinned
from mulligan.store import search_index
from mulligan.store.atomic import sync_directory
from mulligan.store.collect_child import Answer, Estimate, Rewrite, Sweep, Task
from mulligan.store.encoding import Encoding, block_hashes
from mulligan.store.records import AnyFact, DropFact, ForgetFact, PlaceFact, PurgeFact, ThinFact
from mulligan.store.references import payload_hashes
from mulligan.store.rewriting import holds
from mulligan.store.segments import RECORD_HEADER_SIZE, segment_numbers, segment_path
from mulligan.store.store import Store
from mulligan.store.thinner import Scope
from mulligan.store.write_ahead import sync_ahead

log = logging.getLogger(__name__)
T = TypeVar("T")
_CHILD = "mulligan.store.collect_child"
#: Of this much a segment must be needed to stay as it is; when room is short, of this much.
RATIO, SHORT_RATIO = 0.5, 0.9
#: Every segment that has anything in it but needed contents.
_ALL = 1.0
#: Things in one batch: others wait for it no longer than for a scan's.
_CHUNK = 1000
#: A collection ends at the latest after so many rounds of copying; the next one goes on.
_ROUNDS = 1000


@dataclass(slots=True)
class Collected:
    """What a collection did; `bytes` is what the segments take less than before. `damaged` says what stays."""

    rows: int = 0
    contents: int = 0
    segments: int = 0
    bytes: int = 0
    damaged: list[str] = field(default_factory=list)


class Collection:
    """Collections of one store, one at a time; for any thread. `snapshot` makes one and gives its batch."""

    def __init__(self, store: Store, snapshot: Callable[[bool], int]) -> None:
        self._store, self._snapshot = store, snapshot

    def run(self, scopes: Sequence[Scope], *, forget_before: int = 0, short: bool = False) -> Collected:
        """Thin and collect. With `short` room is short: more is copied, and older snapshots go at once.

        Raises BusyError beside another collection, ReadOnlyError, StoreFullError, MulliganError if the child died.
        """
        with self.alone():
            collected = Collected()
            self._sweep(collected, scopes, forget_before)
            self._rewrite(collected, ratio=SHORT_RATIO if short else RATIO, one=short)
            return collected

    def purge(self, hashes: Sequence[bytes]) -> None:
        """Let nothing stand on some contents, and nothing name them; `erase` then has their bytes go. Within `alone`.

        Operations of a project that has them must not be under way.
        """
        with self._store.log.held():
            self._store.log.condemned.purge(hashes)
        point("purge.condemned")
        self._place(self._ask(Sweep(self._store.directory, 0, 0, erased=list(hashes))))
        point("purge.based_anew")
        self._store.log.append([PurgeFact(list(hashes))])
        point("purge.committed")

    def erase(self, hashes: Sequence[bytes] = (), *, everything: bool = False) -> Collected:
        """Have the bytes of purged contents go from every segment; with `everything` all that nothing names.

        The catalogue is written anew, its free pages with it, and what can be made again is thrown away. Within
        `alone`.
        """
        collected = Collected()
        self._sweep(collected)
        self._rewrite(collected, ratio=_ALL if everything else SHORT_RATIO, one=True, holding=hashes)
        search_index.remove(os.path.join(self._store.directory, search_index.NAME))
        shutil.rmtree(self._store.quarantine, ignore_errors=True)
        point("purge.rewritten")
        with self._store.log.held() as db:
            _vacuum(db)
        return collected

    def holding(self, hashes: Sequence[bytes]) -> list[int]:
        """The segments in which a record of one of these still lies."""
        wanted = set(hashes)
        pool = self._store.pool
        return [number for number in segment_numbers(pool) if holds(pool, number, wanted)]

    def estimate(self, now: Sequence[Scope], then: Sequence[Scope]) -> int:
        """The bytes of contents that would leave if it was thinned as `then` says, beyond those of `now`."""
        question = Task(Estimate(self._store.directory, list(now), list(then)))
        try:
            return child.ask(_CHILD, question, Answer).bytes
        except child.ChildError as error:
            raise MulliganError(f"the estimating process {error}", hint="see the log") from error

    @contextmanager
    def alone(self, seconds: float = 0) -> Iterator[None]:
        """Held while the store is reorganized; another one is waited for so long. Raises BusyError, ReadOnlyError."""
        with self._store.reorganizing(seconds):
            self._store.require_writable()
            yield

    def _ask(self, do: Sweep | Rewrite | Estimate) -> Answer:
        return self._store.ask(_CHILD, Task(do), Answer)

    # rows and contents

    def _sweep(self, collected: Collected, scopes: Sequence[Scope] = (), forget_before: int = 0) -> None:
        """Commit what leaves the journal, then what leaves the store."""
        store = self._store
        question = Sweep(store.directory, store.settled(), store.log.segment_limit, list(scopes), forget_before)
        found = self._ask(question)
        before = {
            scope.project: min(scope.prompts_from, scope.young) if scope.prompts else scope.young for scope in scopes
        }
        for project, thinned in found.thinned:
            collected.rows += len(thinned.rows)
            for fact in _thin_facts(project, thinned, before[project]):
                self._commit([fact])
                point("collect.thinned")
        for some in _chunks(found.operations):
            self._commit([ForgetFact(some)])
        self._place(found)
        with store.log.held() as db:
            dead = self._condemn(db, found)
        point("collect.condemned")
        for more in _chunks(dead):
            self._commit([DropFact(more)])
            point("collect.dropped")
        collected.contents += len(dead)

    def _commit(self, facts: Sequence[AnyFact]) -> None:
        """In the lane that lets all others pass."""
        self._store.log.submit(facts, bulk=True).result()

    def _condemn(self, db: sqlite3.Connection, found: Answer) -> list[tuple[int, int, int]]:
        """Take out what came to be needed since the child looked; from now on nothing may build on the rest.

        While the log is held: whatever is committed later is judged by it.
        """
        dead = {one.id: one for one in found.dead}
        by_hash = {one.hash: one.id for one in found.dead}
        built_on = {one.id: (one.base, one.encoding) for one in found.dead}
        new = db.execute("select id, base, encoding from content where id > ?", (found.content,)).fetchall()
        built_on.update((content, (base, how)) for content, base, how in new)
        needed = [digest for (digest,) in db.execute("select hash from row where seq > ?", (found.row,))]
        for (body,) in db.execute("select body from payload where rowid > ?", (found.payload,)):
            needed += payload_hashes(body)
        waiting = [content for content, _, _ in new] + [by_hash[digest] for digest in needed if digest in by_hash]
        while waiting:
            content = waiting.pop()
            dead.pop(content, None)
            base, how = built_on[content]
            if base in dead:
                waiting.append(base)
            if how == Encoding.BLOCKS:
                place = self._store.catalogue().place_by_id(content)
                blocks = block_hashes(self._store.contents.payload(place)) if place else ()
                waiting += [by_hash[block] for block in blocks if by_hash.get(block) in dead]
        self._store.log.condemned.condemn(one.hash for one in dead.values())
        return [(one.id, one.segment, one.offset) for one in dead.values()]

    def _place(self, found: Answer) -> None:
        for some in _chunks(found.moved):
            self._commit([PlaceFact(some)])
            point("collect.placed")

    # segments

    def _rewrite(self, collected: Collected, *, ratio: float, one: bool, holding: Sequence[bytes] = ()) -> None:
        """Rewrite what has less than this ratio of needed bytes, or a hash; `one`: a single snapshot stays."""
        current = self._store.log.leave_segment()
        snapshot = self._snapshot(one)
        point("collect.snapshot")
        avoid: list[int] = []
        for _ in range(_ROUNDS):
            try:
                found = self._ask(
                    Rewrite(
                        self._store.directory,
                        current,
                        ratio,
                        snapshot,
                        self._store.log.segment_limit,
                        list(holding),
                        avoid,
                    )
                )
            except MulliganError as error:
                collected.damaged.append(error.message)  # on a full disk there is no room for copies
                return
            collected.damaged += found.damaged
            if not found.done:
                return
            self._place(found)
            sync_ahead(self._store.catalogue_path)  # it must not go back to before, and look for what went
            collected.bytes -= sum(one.stored + RECORD_HEADER_SIZE for one in found.moved)
            for number in found.done:
                collected.bytes += self._unlink(number)
            collected.segments += len(found.done)
            avoid += sorted({one.segment for one in found.moved})
            self._store.room.was_made()
            if not found.more:
                return

    def _unlink(self, number: int) -> int:
        """Nothing is in a segment any more; what a child may have stored there meanwhile is to be read again."""
        with self._store.log.held() as db:
            if db.execute("select 1 from content where segment = ? limit 1", (number,)).fetchone() is not None:
                return 0
            self._store.log.condemned.close_segment(number)
        point("collect.unlink")
        path = segment_path(self._store.pool, number)
        size = os.path.getsize(path)
        os.unlink(path)
        sync_directory(self._store.pool)
        self._store.contents.let_go(number)
        return size


def _vacuum(db: sqlite3.Connection) -> None:
    """Write the whole catalogue anew, so that nothing stays in pages that are free."""
    db.execute("pragma wal_checkpoint(truncate)")
    db.execute("vacuum")
    db.execute("pragma wal_checkpoint(truncate)")


def _thin_facts(project: int, thinned: Thinned, before: int) -> Iterator[ThinFact]:
    """The facts of one project, each whole in itself: what rows stand for changes before those behind them go."""
    changed, lost = list(_chunks(thinned.changed)), list(_chunks(thinned.lost))
    for some in lost:
        yield ThinFact(project, [], [], some)
    for more in changed:
        yield ThinFact(project, [], more)
    for rows in _chunks(thinned.rows):
        yield ThinFact(project, rows, before=before)


def _chunks(things: Sequence[T]) -> Iterator[list[T]]:
    for start in range(0, len(things), _CHUNK):
        yield list(things[start : start + _CHUNK])
