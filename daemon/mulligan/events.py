"""The event bus: what happens is told to whoever listens, and nobody who listens slowly is waited for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened; `cursor` rises by one with each event of this daemon's life."""

    cursor: int
    topic: str
    time: int
    data: dict[str, Any]


class Bus:
    """Publishes events from any thread and keeps the last thousand for subscribers that come back with a cursor."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._kept: deque[Event] = deque(maxlen=_KEPT)
        self._listeners: dict[int, Callable[[Event], None]] = {}
        self._next_listener = 0
        self.cursor = 0

    def publish(self, topic: str, **data: Any) -> None:
        """Tell everybody. Listeners only note the event; they may not block."""
        with self._lock:
            self.cursor += 1
            event = Event(self.cursor, topic, self._now(), data)
            self._kept.append(event)
            listeners = list(self._listeners.values())
        for listener in listeners:
            listener(event)

    def subscribe(self, listener: Callable[[Event], None], since: int | None) -> tuple[int, list[Event], bool]:
        """(number to unsubscribe with, kept events behind `since`, whether events between were lost)."""
        with self._lock:
            number = self._next_listener
            self._next_listener += 1
            self._listeners[number] = listener
            if since is None:
                return number, [], False
            kept = [event for event in self._kept if event.cursor > since]
            oldest = self._kept[0].cursor if self._kept else self.cursor + 1
            return number, kept, since + 1 < oldest or since > self.cursor

    def unsubscribe(self, number: int) -> None:
        """Stop telling a listener."""
        with self._lock:
            self._listeners.pop(number, None)
