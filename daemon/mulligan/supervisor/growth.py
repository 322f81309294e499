"""Keeps the growth that `status` warns by: reckoned by a child, if something was stored since the last time."""

from __future__ import annotations

import asyncio
import logging

from mulligan.control.handlers.usage import take_usage
from mulligan.control.services import Services
from mulligan.errors import MulliganError

log = logging.getLogger(__name__)


class Growth:
    """The job."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._batch = 0

    async def look(self) -> None:
        """Have it reckoned if it is worth it; ends with the child."""
        await asyncio.to_thread(self._take)

    def _take(self) -> None:
        batch = self._services.store.catalogue().meta("batch")
        if batch == self._batch:
            return
        try:
            take_usage(self._services)
        except MulliganError as error:
            log.warning("the growth of the store is not known: %s", error)
        else:
            self._batch = batch
