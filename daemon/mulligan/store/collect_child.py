"""The child process of a collection: `python -m mulligan.store.collect_child`, niced, one task and its answer.

It reads the catalogue and the segments. The only thing it writes are copies, in a segment of its own, of which nothing
knows until the daemon has committed where they are.
"""

from __future__ import annotations

import os
import sqlite3
import sys

import msgspec

from mulligan import child
from mulligan.errors import MulliganError
from mulligan.journal.thinning import Thinned
from mulligan.store import rewriting
from mulligan.store.catalogue import NAME, Catalogue, connect
from mulligan.store.contents import Contents
from mulligan.store.records import Moved
from mulligan.store.references import references
from mulligan.store.rewriting import Copies
from mulligan.store.thinner import Scope, forgettable, plan

_NICENESS = 10


class Sweep(msgspec.Struct, frozen=True, tag=True):
    """Which rows leave the journals of some projects, which operations of before a moment are forgotten, and which
    contents nothing needs then, of those up to an id.

    Deltas are encoded anew within `limit` bytes; nothing is to stand on the `erased` any more.
    """

    directory: str
    settled: int
    limit: int
    scopes: list[Scope] = []
    before: int = 0
    erased: list[bytes] = []


class Rewrite(msgspec.Struct, frozen=True, tag=True):
    """Copy what is needed out of segments; see `rewriting.victims`."""

    directory: str
    current: int
    ratio: float
    snapshot: int
    limit: int
    holding: list[bytes] = []
    avoid: list[int] = []


class Estimate(msgspec.Struct, frozen=True, tag=True):
    """The bytes of contents that would leave the store if rows were thinned as `then`, and stay as `now` says."""

    directory: str
    now: list[Scope]
    then: list[Scope]


class Task(msgspec.Struct, frozen=True):
    """One of them."""

    do: Sweep | Rewrite | Estimate


class Dead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A content that nothing needs, where it lies, and what it builds on."""

    id: int
    segment: int
    offset: int
    hash: bytes
    base: int
    encoding: int


class Answer(msgspec.Struct, kw_only=True):
    """What was found: of `Sweep` `thinned` by project, `operations` and `dead`, of both others `moved`.

    `row`, `content` and `payload` are the last numbers that were looked at. `done` are the segments of which everything
    needed was copied, `more` whether there are others, `damaged` says what could not be.
    """

    thinned: list[tuple[int, Thinned]] = []
    operations: list[str] = []
    row: int = 0
    content: int = 0
    payload: int = 0
    dead: list[Dead] = []
    moved: list[Moved] = []
    done: list[int] = []
    more: bool = False
    damaged: list[str] = []
    bytes: int = 0
    error: str = ""


def _sweep(task: Sweep, catalogue: Catalogue, contents: Contents) -> Answer:
    catalogue.db.execute("begin")  # one state, whatever is committed meanwhile
    (payload,) = catalogue.db.execute("select coalesce(max(rowid), 0) from payload").fetchone()
    row, content = catalogue.meta("seq"), catalogue.meta("content_id")
    thinned = [(scope.project, rows) for scope in task.scopes if (rows := plan(catalogue, scope)).rows]
    operations = forgettable(catalogue, task.before) if task.before else []
    erased = frozenset(task.erased)
    gone = frozenset(seq for _, rows in thinned for seq in rows.rows)
    found = references(catalogue, contents, gone, frozenset(operations), erased)
    copies = Copies(contents.directory)
    freed = rewriting.rebase(contents, found, copies, task.limit, erased)
    copies.finish()
    catalogue.db.execute("commit")
    going = [found.places[one] for one in sorted({*found.dead, *freed}) if one <= task.settled]
    return Answer(
        thinned=thinned, operations=operations, row=row, content=content, payload=payload, moved=copies.moved,
        dead=[Dead(p.id, p.segment, p.offset, p.hash, p.base, p.encoding) for p in going],
    )  # fmt: skip


def _rewrite(task: Rewrite, catalogue: Catalogue, contents: Contents) -> Answer:
    chosen = rewriting.victims(
        contents.directory, catalogue, current=task.current, ratio=task.ratio, snapshot=task.snapshot,
        holding=task.holding,
    )  # fmt: skip
    copies = Copies(contents.directory)
    avoided = set(task.avoid)
    going = [victim for victim in chosen if victim.number not in avoided]
    done, damaged = rewriting.copy(contents.directory, going, copies, task.limit)
    copies.finish()
    return Answer(moved=copies.moved, done=done, more=len(done) + len(damaged) < len(going), damaged=damaged)


def _estimate(task: Estimate, catalogue: Catalogue, contents: Contents) -> Answer:
    now, then = (
        frozenset(seq for scope in scopes for seq in plan(catalogue, scope).rows) for scopes in (task.now, task.then)
    )
    if not then - now:
        return Answer()
    before, after = references(catalogue, contents, now), references(catalogue, contents, then)
    freed = {*after.dead, *after.bases} - {*before.dead, *before.bases}
    return Answer(bytes=sum(after.places[one].stored for one in freed))


def answer(task: Task) -> Answer:
    """Do a task."""
    do = task.do
    catalogue = Catalogue(connect(os.path.join(do.directory, NAME)))
    contents = Contents(os.path.join(do.directory, "content_pool"), lambda: catalogue)
    try:
        if isinstance(do, Sweep):
            return _sweep(do, catalogue, contents)
        if isinstance(do, Rewrite):
            return _rewrite(do, catalogue, contents)
        return _estimate(do, catalogue, contents)
    finally:
        contents.close()
        catalogue.close()


def main() -> int:
    """Do the task on the standard input."""
    os.umask(0o077)
    task = child.question(Task, _NICENESS)
    try:
        found = answer(task)
    except (OSError, sqlite3.Error, MulliganError) as error:
        found = Answer(error=f"nothing was collected: {error}")
    child.answer(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
