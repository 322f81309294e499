"""The store's room: what is thinned and collected by age, and what goes first when the budget is reached.

The order, when room is short: what no position needs and is older than a day; what lies between checkpoints, however
young; then checkpoints, the oldest of all projects first, but for those that `cleanup` always keeps. What is left after
that is the least that there is: new contents are not stored then, their paths say so, and are looked at again when
there is room. A project with a budget of its own is treated alike, with nobody's but its own versions and checkpoints.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from mulligan.clock import NANOSECONDS
from mulligan.errors import BusyError, MulliganError
from mulligan.events import Bus
from mulligan.journal.retention import Policy
from mulligan.model import Checkpoint
from mulligan.project import upkeep
from mulligan.project.purging import Eraser
from mulligan.project.registry import Registry
from mulligan.project.worker import ProjectWorker
from mulligan.store import search_index
from mulligan.store.catalogue import Catalogue
from mulligan.store.collection import Collected, Collection
from mulligan.store.log import release_reserve
from mulligan.store.room import NO_PROJECT_ROOM, NO_ROOM, Allowance
from mulligan.store.snapshot import prune, snapshots
from mulligan.store.state import StateDatabase
from mulligan.store.store import Store
from mulligan.store.thinner import Scope

log = logging.getLogger(__name__)
_DAY = 24 * 3600 * NANOSECONDS
#: Of the checkpoints that may go, so many of a hundred go at once.
_SHARE = 25
#: So often checkpoints are forgotten at a time; the next look goes on.
_ROUNDS = 20


class Space:
    """Collections of one store; any thread. `policy` is the configured retention."""

    def __init__(
        self, store: Store, registry: Registry, bus: Bus, state: StateDatabase, policy: Callable[[], Policy]
    ) -> None:
        self._store, self._registry, self._bus, self._policy = store, registry, bus, policy
        self.collection = Collection(store, self._snapshot)
        self.eraser = Eraser(store, state, self.collection)
        self._relieving = threading.Lock()

    def _snapshot(self, only_one: bool) -> int:
        """Have a snapshot that is as new as the log's last segment but one; the batch behind which the log must stay.

        When room is short, and when something is to be erased, only that one stays, for it was read back. On a full
        disk there may be none; segments of contents alone may go all the same.
        """
        try:
            self._store.snapshot()
        except MulliganError as error:
            log.warning("%s", error.message)
            if not release_reserve(self._store.pool):
                return min(snapshots(self._store.pool), default=0)
            self._store.snapshot()
        if only_one:
            prune(self._store.pool, 1)
        return min(snapshots(self._store.pool))

    def scopes(self, without: Iterable[Checkpoint] = (), only: int = 0) -> list[Scope]:
        """What is thinned by age: rows older than a day that no checkpoint needs, and no prompt that is kept.

        Of one project, or of all.
        """
        policy, now = self._policy(), self._store.clock.now()
        gone = [made.id for made in without]
        oldest = now - policy.max_age if policy.max_age else 0
        return [
            Scope(project.id, now - _DAY, not policy.has_rules, oldest, gone)
            for project in self._store.catalogue().projects()
            if only in (0, project.id)
        ]

    def collect(self) -> Collected:
        """Thin and collect by age, and finish what was to be erased. Raises as `Collection.run`."""
        self.eraser.finish()
        return self.collection.run(self.scopes(), forget_before=self._store.clock.now() - _DAY)

    def freed_by(self, going: Sequence[Checkpoint]) -> int:
        """The bytes of contents that a collection frees once these checkpoints are gone; those of the last day stay."""
        return self.collection.estimate(self.scopes(), self.scopes(going))

    def set_budgets(self) -> None:
        """Let each project's budget be what configuration and settings say now; what found no room is looked at."""
        self._registry.set_budgets()
        self._look_again()

    @property
    def is_due(self) -> bool:
        """Whether room is to be made now; not again while nothing can be gained."""
        return not self._store.damage and any(room.is_due for room, _ in self._rooms())

    def _rooms(self) -> list[tuple[Allowance, ProjectWorker | None]]:
        """The store's room, then that of each project."""
        return [(self._store.room, None), *((each.capture.allowance, each) for each in self._registry.workers())]

    def relieve(self) -> None:
        """Make room until there is enough, or nothing more may go."""
        if not self._relieving.acquire(blocking=False):
            return
        try:
            for room, worker in self._rooms():
                if room.is_due:
                    with room.making():
                        self._relieve(room, worker)
        except BusyError:
            pass  # a collection is at work; the next look comes soon
        finally:
            self._relieving.release()
        self._store.set_budget(self._store.room.budget)  # the reserve may have been given up
        self._look_again()

    def _relieve(self, room: Allowance, worker: ProjectWorker | None) -> None:
        """Make room in the store, or in a project's part of it."""
        before, now, forgotten = room.used(fresh=True), self._store.clock.now, 0
        short, only = worker is None, worker.project_id if worker else 0
        if short:
            self._trim_index()
        self.collection.run(self.scopes(only=only), forget_before=now() - _DAY, short=short)
        for _ in range(_ROUNDS):
            if not room.excess():
                break
            scopes = [Scope(scope.project, now(), prompts=False) for scope in self.scopes(only=only)]
            self.collection.run(scopes, forget_before=now(), short=short)
            if not room.excess() or not (gone := self._forget_some([worker] if worker else self._registry.workers())):
                break
            forgotten += gone
        used = room.judge()
        whose = {"project": os.fsdecode(worker.root)} if worker else {}
        words = "room was made%s: %d bytes before, %d now, of %d; %d checkpoints were forgotten"
        level = logging.WARNING if forgotten else logging.INFO
        log.log(level, words, " for " + whose["project"] if whose else "", before, used, room.budget, forgotten)
        self._bus.publish("store", bytes=used, budget_bytes=room.budget, short=bool(room.short), **whose)

    def _trim_index(self) -> None:
        """The search index goes first if it has more than its share, as when the budget became smaller."""
        path = os.path.join(self._store.directory, search_index.NAME)
        if search_index.size_of(path) > 2 * search_index.budget_of(self._store.room.budget):
            search_index.remove(path)

    def _forget_some(self, workers: Iterable[ProjectWorker]) -> int:
        """Let a part of the checkpoints of some projects go that nothing protects, the oldest first; how many."""
        found: list[tuple[Checkpoint, ProjectWorker]] = []
        for worker in workers:
            going = upkeep.plan_cleanup(worker, Policy(keep_last=1)).removed
            catalogue = self._store.catalogue()
            found += [(made, worker) for name in going if (made := catalogue.checkpoint(name)) is not None]
        found.sort(key=lambda each: each[0].timestamp)
        some = found[: max(1, len(found) * _SHARE // 100)]
        for worker in {worker.project_id: worker for _, worker in some}.values():
            names = [made.id for made, whose in some if whose is worker]
            worker.call(partial(upkeep.let_go, worker, names)).result()
        return len(some)

    def _look_again(self) -> None:
        """Paths that found no room are looked at again once there is some."""
        if self._store.room.left < self._store.room.segment_limit:
            return
        for worker in self._registry.workers():
            if worker.capture.allowance.left <= 0:
                continue
            if without_room(self._store.catalogue(), worker.project_id):
                try:
                    worker.call(worker.compare_soon)
                except MulliganError as error:
                    log.info("project %s: %s", os.fsdecode(worker.root), error.message)


def without_room(catalogue: Catalogue, project: int) -> list[bytes]:
    """The paths of a project whose contents are not stored because there was no room for them."""
    return [path for path, entry in catalogue.odd(project) if entry.reason in (NO_ROOM, NO_PROJECT_ROOM)]
