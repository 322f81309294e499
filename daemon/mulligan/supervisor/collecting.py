"""When the store is collected: once a day by age, and as soon as its room gets short."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from mulligan.errors import BusyError, MulliganError
from mulligan.project.space import Space
from mulligan.store.store import Store

log = logging.getLogger(__name__)
COLLECT_SECONDS = 24 * 3600.0
#: Looking adds up the sizes of some tens of files; what writes much tells by itself.
ROOM_SECONDS = 60.0


class Collecting:
    """The jobs. `threadsafe` runs something on the loop, `spawn` makes a task of a coroutine."""

    def __init__(
        self,
        space: Space,
        store: Store,
        threadsafe: Callable[[Callable[[], None]], None],
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        self._space, self._threadsafe, self._spawn = space, threadsafe, spawn
        self._relieving = False
        store.log.grown = self._grown

    async def collect(self) -> None:
        """Thin and collect by age."""
        try:
            done = await asyncio.to_thread(self._space.collect)
        except BusyError:
            return  # whoever is at it does the same
        except MulliganError as error:
            log.warning("nothing was collected: %s", error)
            return
        if done.rows or done.contents or done.segments:
            log.info("collected: %d versions, %d contents, %d bytes", done.rows, done.contents, done.bytes)
        for damaged in done.damaged:
            log.warning("not collected: %s", damaged)

    async def begin(self) -> None:
        """Finish an erasure that was cut short, and make room if it is short."""
        try:
            await asyncio.to_thread(self._space.eraser.finish)
        except MulliganError as error:
            log.warning("what was purged is not erased yet: %s", error.message)
        await self.look()

    async def look(self) -> None:
        """Make room if it is short."""
        if self._relieving or not await asyncio.to_thread(lambda: self._space.is_due):
            return
        self._relieving = True
        try:
            await asyncio.to_thread(self._space.relieve)
        except (MulliganError, OSError) as error:
            log.warning("no room was made: %s", error)
        finally:
            self._relieving = False

    def _grown(self) -> None:
        # from the log's thread
        self._threadsafe(self._look_soon)

    def _look_soon(self) -> None:
        self._spawn(self.look(), "room")
