"""A connection that listens: events as notifications, bounded, and never waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from mulligan.clock import to_rfc3339
from mulligan.control import framing
from mulligan.control.methods import Params
from mulligan.events import Bus, Event

#: Events and bytes that may wait for a slow reader.
_QUEUE_LIMIT, _BUFFER_LIMIT = 500, 1 << 18


class SubscribeParams(Params, frozen=True, kw_only=True):
    """no `topics` means all; `since` is the cursor of the last event that was seen."""

    topics: tuple[str, ...] = ()
    since: int | None = None


class Subscription:
    """One subscriber. When it falls behind it gets `lost` with the cursor to come back with, and is closed."""

    def __init__(self, bus: Bus, writer: asyncio.StreamWriter) -> None:
        self._bus, self._writer = bus, writer
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue(_QUEUE_LIMIT)
        self._loop = asyncio.get_running_loop()
        self._cursor = 0

    async def run(self, number: Any, parameters: Any) -> bool:
        """Send events until the peer goes or falls behind; True if the parameters did not fit and nothing was begun."""
        try:
            params = msgspec.convert(parameters, SubscribeParams)
        except msgspec.ValidationError as error:
            message = {"code": framing.INVALID_PARAMS, "message": f"events.subscribe: {error}"}
            self._writer.write(framing.encode({"jsonrpc": "2.0", "id": number, "error": message}))
            await self._writer.drain()
            return True
        listener, kept, lost = self._bus.subscribe(self._heard, params.since)
        self._cursor = self._bus.cursor if params.since is None else params.since
        try:
            result = {"version": 1, "cursor": self._bus.cursor}
            self._writer.write(framing.encode({"jsonrpc": "2.0", "id": number, "result": result}))
            if lost:
                self._send("lost", {"cursor": self._cursor})
            for event in kept:
                self._tell(event, params.topics)
            while (event_or_end := await self._queue.get()) is not None:
                self._tell(event_or_end, params.topics)
                if self._writer.transport.get_write_buffer_size() > _BUFFER_LIMIT or self._writer.is_closing():
                    break
            if not self._writer.is_closing():
                self._send("lost", {"cursor": self._cursor})
        finally:
            self._bus.unsubscribe(listener)
        return False

    def end(self) -> None:
        """The peer is gone. Runs in the loop."""
        self._writer.close()
        if not self._queue.full():  # else the end is in it
            self._queue.put_nowait(None)

    def _heard(self, event: Event) -> None:
        # from any thread
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._put, event)

    def _put(self, event: Event) -> None:
        if self._queue.full():
            return
        if self._queue.qsize() == _QUEUE_LIMIT - 1:
            self._queue.put_nowait(None)
        else:
            self._queue.put_nowait(event)

    def _tell(self, event: Event, topics: tuple[str, ...]) -> None:
        if event.cursor <= self._cursor:
            return
        self._cursor = event.cursor
        if not topics or event.topic in topics:
            fields = {"cursor": event.cursor, "topic": event.topic, "time": to_rfc3339(event.time), **event.data}
            self._send("event", fields)

    def _send(self, name: str, fields: dict[str, Any]) -> None:
        self._writer.write(framing.encode({"jsonrpc": "2.0", "method": name, "params": fields}))
