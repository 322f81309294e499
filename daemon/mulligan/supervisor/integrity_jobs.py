"""Timed care for what is stored: contents are read again over time, and checkpoints are restored beside the store.

Once an hour it is seen whether there is something to do. What takes long is done by niced processes, a part at a time,
so that it can be stopped.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
import threading
from collections.abc import Callable

from mulligan.clock import NANOSECONDS, from_rfc3339
from mulligan.config import Config
from mulligan.errors import MulliganError
from mulligan.events import Bus
from mulligan.model import Checkpoint
from mulligan.project.drill import drill_all
from mulligan.project.integrity import Integrity
from mulligan.store.state import StateDatabase
from mulligan.store.store import Store
from mulligan.supervisor.schedule import Schedule

log = logging.getLogger(__name__)
_NAME = "integrity"
#: The first look comes sooner: a machine may be on for less than an hour a day.
_FIRST_SECONDS, _LOOK_SECONDS = 600.0, 3600.0
#: What a drill by schedule restores: so many checkpoints, of so many bytes altogether.
_DRILLED, _DRILL_BYTES = 3, 256 << 20
#: Of so many drills one may take a larger checkpoint.
_LARGE_EVERY = 7


class IntegrityJobs:
    """Scrub and drill. `config` gives the configuration in effect."""

    def __init__(
        self,
        store: Store,
        state: StateDatabase,
        integrity: Integrity,
        bus: Bus,
        config: Callable[[], Config],
        chance: random.Random | None = None,
    ) -> None:
        self._store, self._state, self._integrity, self._bus = store, state, integrity, bus
        self._config, self._chance = config, chance or random.Random()
        self._stopping = threading.Event()
        self._skipped = ""

    def schedule(self, schedule: Schedule) -> None:
        """Look soon, then once an hour."""

        async def first() -> None:
            schedule.every(_LOOK_SECONDS, _NAME, self.look)
            await self.look()

        schedule.every(_FIRST_SECONDS, _NAME, first)

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopping.set()

    async def look(self) -> None:
        """Do what is due; ends with it."""
        await asyncio.to_thread(self._look)

    def _look(self) -> None:
        for job in (self._scrub, self._drill):
            if self._stopping.is_set():
                return
            try:
                job()
            except (MulliganError, OSError, sqlite3.Error) as error:
                log.warning("the store could not be looked after: %s", error)

    def _scrub(self) -> None:
        if seconds := self._config().scrub:
            self._integrity.scrub(seconds, lambda: not self._stopping.is_set())

    def _drill(self) -> None:
        if not (seconds := self._config().drill):
            return
        last = self._state.last_drill()
        before = self._store.first_start if last is None else from_rfc3339(str(last["time"]))
        passed = (self._store.clock.now() - before) // NANOSECONDS
        made = self._store.catalogue().checkpoints("1", ()) if passed >= seconds else []
        if not made:
            return
        chosen = self._choose(made, large=passed >= seconds * _LARGE_EVERY)
        if not chosen:
            self._skip(f"no checkpoint has less than {_DRILL_BYTES >> 20} MiB: one every {_LARGE_EVERY} times as long")
            return
        try:
            done, reasons = drill_all(self._store, self._state, chosen, lambda _done, _total: None)
        except MulliganError as error:
            self._skip(error.message)
            return
        self._skipped = ""
        for each, reason in zip(chosen, reasons, strict=True):
            if reason:
                log.warning("checkpoint %s cannot be restored as it was: %s", each.id, reason)
        self._bus.publish("drill", restorable=done["restorable"], total=done["total"])

    def _choose(self, made: list[Checkpoint], *, large: bool) -> list[Checkpoint]:
        """Some checkpoints by chance, of so many bytes; one of any size if it is time for it, or now and then."""
        self._chance.shuffle(made)
        chosen: list[Checkpoint] = []
        left = _DRILL_BYTES
        for each in made:
            if len(chosen) < _DRILLED and each.metadata.snapshot_size <= left:
                chosen.append(each)
                left -= each.metadata.snapshot_size
        if large or (chosen and self._chance.randrange(_LARGE_EVERY) == 0):
            return made[:1]
        return chosen

    def _skip(self, reason: str) -> None:
        if reason != self._skipped:
            log.info("no drill: %s", reason)
        self._skipped = reason
