"""Keeps hand-offs up to date, behind what sessions do and never in its way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mulligan.config import Config
from mulligan.taskstate.handoffs import Handoffs

#: Several saves within so long make one hand-off.
LOOK_SECONDS = 2.0


class HandingOff:
    """The job."""

    def __init__(self, handoffs: Handoffs, config: Callable[[], Config]) -> None:
        self._handoffs, self._config = handoffs, config

    async def look(self) -> None:
        """Make anew what has changed since the last look."""
        await asyncio.to_thread(self._handoffs.catch_up, self._config())
