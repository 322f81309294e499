"""Keeps the search index near the journal: when much is behind it, a niced child takes it in.

What is little is taken in by the next search itself, so an idle project starts no process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable

from mulligan.store.search_index import NAME, lacks
from mulligan.store.store import Store

log = logging.getLogger(__name__)
#: Looking costs one look-up in the catalogue.
LOOK_SECONDS = 15.0
#: Rows behind the index from which on a child is worth its start.
_MANY = 200
#: Rows since the last look that only a scan or a restore makes: it is waited for, not kept waiting.
_AT_WORK = 1000


class Indexing:
    """The job. `budget` gives the bytes that the index may take."""

    def __init__(self, store: Store, budget: Callable[[], int]) -> None:
        self._store, self._budget = store, budget
        self._seq = 0
        self._looked: int | None = None
        self._lacks: str | None = None

    async def look(self) -> None:
        """Have the index built on if it is worth it; ends with the child."""
        if self._lacks is None:
            self._lacks = lacks()
            if self._lacks:
                log.warning("nothing is indexed for searches: %s", self._lacks)
        seq = await asyncio.to_thread(lambda: self._store.catalogue().meta("seq"))
        if not os.path.exists(os.path.join(self._store.directory, NAME)):
            self._seq = 0  # it was thrown away, perhaps
        looked, self._looked = self._looked, seq
        if self._lacks or seq - self._seq < _MANY or (looked is not None and seq - looked >= _AT_WORK):
            return
        words = ("-m", "mulligan.store.search_child", self._store.directory, str(self._budget()))
        process = await asyncio.create_subprocess_exec(sys.executable, *words, cwd="/")
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if status == 0:
            self._seq = seq
        else:
            log.warning("the process that builds the search index ended with status %d", status)
