"""The store's room: what is thinned and collected by age, and what goes first when the budget is reached.

The order, when room is short: what no position needs and is older than a day; what lies between checkpoints, however
young; then checkpoints, the oldest of all projects first, but for those that `cleanup` always keeps. What is left after
that is the least that there is: new contents are not stored then, their paths say so, and are looked at again when
there is room.
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
from mulligan.project.registry import Registry
from mulligan.project.worker import ProjectWorker
from mulligan.store.collection import Collected, Collection
from mulligan.store.room import NO_ROOM
from mulligan.store.store import Store
from mulligan.store.thinner import Scope

log = logging.getLogger(__name__)
_DAY = 24 * 3600 * NANOSECONDS
#: Of the checkpoints that may go, so many of a hundred go at once.
_SHARE = 25
#: After room could not be made, it is tried again when the store has grown by this part of its budget.
_GROWN = 0.02


class Space:
    """Collections of one store; any thread. `policy` is the configured retention."""

    def __init__(self, store: Store, registry: Registry, bus: Bus, policy: Callable[[], Policy]) -> None:
        self._store, self._registry, self._bus, self._policy = store, registry, bus, policy
        self.collection = Collection(store, self._snapshot)
        self._relieving = threading.Lock()
        self._tried = 0
        #: Why the store does not get below its budget; "" if it does.
        self.short = ""

    def _snapshot(self, only_one: bool) -> int:
        """The oldest batch that a snapshot would have to be followed by."""
        del only_one
        return 0

    def scopes(self, without: Iterable[Checkpoint] = ()) -> list[Scope]:
        """What is thinned by age: rows older than a day that no checkpoint needs, and no prompt that is kept."""
        policy, now = self._policy(), self._store.clock.now()
        gone = [made.id for made in without]
        oldest = now - policy.max_age if policy.max_age else 0
        return [
            Scope(project.id, now - _DAY, not policy.has_rules, oldest, gone)
            for project in self._store.catalogue().projects()
        ]

    def collect(self) -> Collected:
        """Thin and collect by age. Raises as `Collection.run`."""
        return self.collection.run(self.scopes(), forget_before=self._store.clock.now() - _DAY)

    def freed_by(self, going: Sequence[Checkpoint]) -> int:
        """The bytes of contents that a collection frees once these checkpoints are gone; those of the last day stay."""
        return self.collection.estimate(self.scopes(), self.scopes(going))

    @property
    def is_due(self) -> bool:
        """Whether room is to be made now; not again while nothing can be gained."""
        room = self._store.room
        return room.is_due and not self._store.damage and room.used() > self._tried

    def relieve(self) -> None:
        """Make room until there is enough, or nothing more may go."""
        if not self._relieving.acquire(blocking=False):
            return
        try:
            self._relieve()
        except BusyError:
            pass  # a collection is at work; the next look comes soon
        finally:
            self._relieving.release()
        self._look_again()

    def _relieve(self) -> None:
        room = self._store.room
        before, now = room.used(fresh=True), self._store.clock.now
        self.collection.run(self.scopes(), forget_before=now() - _DAY, short=True)
        while room.excess():
            scopes = [Scope(project.id, now(), prompts=False) for project in self._store.catalogue().projects()]
            self.collection.run(scopes, forget_before=now(), short=True)
            if not room.excess() or not self._forget_some():
                break
        used = room.used(fresh=True)
        self._tried = 0 if not room.is_due else used + int(room.budget * _GROWN)
        self.short = "" if not room.is_due else f"{used} bytes cannot be reduced: what is left is kept in any case"
        log.info("room was made: %d bytes before, %d after, of %d", before, used, room.budget)
        self._bus.publish("store", bytes=used, budget_bytes=room.budget, short=bool(self.short))

    def _forget_some(self) -> bool:
        """Let a part of the checkpoints go that nothing protects, the oldest first; whether there was one."""
        found: list[tuple[Checkpoint, ProjectWorker]] = []
        for worker in self._registry.workers():
            going = upkeep.plan_cleanup(worker, Policy(keep_last=1)).removed
            catalogue = self._store.catalogue()
            found += [(made, worker) for name in going if (made := catalogue.checkpoint(name)) is not None]
        found.sort(key=lambda each: each[0].timestamp)
        some = found[: max(1, len(found) * _SHARE // 100)]
        for worker in {worker.project_id: worker for _, worker in some}.values():
            names = [made.id for made, whose in some if whose is worker]
            worker.call(partial(upkeep.let_go, worker, names)).result()
            log.warning("project %s: %d checkpoints were forgotten to make room", os.fsdecode(worker.root), len(names))
        return bool(some)

    def _look_again(self) -> None:
        """Paths that found no room are looked at again once there is some."""
        if self._store.room.left < self._store.room.segment_limit:
            return
        for worker in self._registry.workers():
            if any(entry.reason == NO_ROOM for _, entry in self._store.catalogue().odd(worker.project_id)):
                try:
                    worker.call(worker.compare_soon)
                except MulliganError as error:
                    log.info("project %s: %s", os.fsdecode(worker.root), error.message)
