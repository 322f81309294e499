"""Signals as calls on the loop: SIGTERM and SIGINT stop, SIGHUP reloads."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def handled(loop: asyncio.AbstractEventLoop, *, stop: Callable[[], None], reload: Callable[[], None]) -> Iterator[None]:
    """While inside, signals call `stop` and `reload` between two steps of the loop, never in the middle of one.

    `stop` is called again for every further signal, so it must bear that. Main thread only.
    """
    calls = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload}
    for number, call in calls.items():
        loop.add_signal_handler(number, call)
    try:
        yield
    finally:
        for number in calls:
            loop.remove_signal_handler(number)
