"""Keeps hand-offs up to date, behind what sessions do and never in its way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from mulligan.config import Config
from mulligan.taskstate.handoffs import Handoffs

#: Several changes within so long make one hand-off.
_COALESCE_SECONDS = 0.5


class HandingOff:
    """Makes anew what has changed. `threadsafe` hands something to the loop, `spawn` begins a task."""

    def __init__(
        self,
        handoffs: Handoffs,
        config: Callable[[], Config],
        threadsafe: Callable[[Callable[[], None]], None],
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        self._handoffs, self._config, self._threadsafe, self._spawn = handoffs, config, threadsafe, spawn
        self._stopping = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def begin(self) -> None:
        """Go on where the last daemon may have stopped, and listen."""
        self._handoffs.wake = lambda: self._threadsafe(self._begin)
        await asyncio.to_thread(self._handoffs.find_stale)
        self._begin()

    async def stop(self) -> None:
        """End when the one in hand is written; the rest is found at the next start."""
        self._stopping = True
        await self._idle.wait()

    def _begin(self) -> None:
        if self._idle.is_set() and not self._stopping:
            self._idle.clear()
            self._spawn(self._run(), "hand-offs")

    async def _run(self) -> None:
        try:
            while self._handoffs.pending and not self._stopping:
                await asyncio.sleep(_COALESCE_SECONDS)
                await asyncio.to_thread(self._handoffs.catch_up, self._config(), lambda: self._stopping)
        finally:
            self._idle.set()
