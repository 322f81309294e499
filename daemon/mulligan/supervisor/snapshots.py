"""Has a snapshot of the catalogue written once a day, if anything came since the last one."""

from __future__ import annotations

import asyncio
import logging

from mulligan.clock import NANOSECONDS
from mulligan.errors import BusyError, MulliganError
from mulligan.store.snapshot import newest
from mulligan.store.store import Store

log = logging.getLogger(__name__)
#: Looking reads the newest snapshot; the first look is this long after the start.
LOOK_SECONDS = 1800.0
_DAY = 24 * 3600 * NANOSECONDS


class Snapshots:
    """The job."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def look(self) -> None:
        """Write one if it is due; ends when it is durable."""
        try:
            await asyncio.to_thread(self._look)
        except BusyError:
            log.info("no snapshot of the catalogue was written: the store is being reorganized")
        except MulliganError as error:
            log.warning("%s", error.message)

    def _look(self) -> None:
        store = self._store
        if store.damage or not self._due():
            return
        with store.reorganizing():
            batch = store.snapshot()
        log.info("a snapshot of the catalogue was written, behind batch %d", batch)

    def _due(self) -> bool:
        """Whether what the newest one holds is a day old, and not all that there is."""
        last = newest(self._store.pool)
        if last is None:
            return self._store.clock.now() - self._store.first_start >= _DAY
        return last.batch < self._store.log.batch and self._store.clock.now() - last.time >= _DAY
