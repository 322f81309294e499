"""The parent's side of the reading children: up to two, fed by directory, answered in any order.

Pure Python work of this size would hold the interpreter that captures and answers requests need, so it runs elsewhere.
Belongs to one worker's thread.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mulligan.child import Child, ChildError
from mulligan.errors import MulliganError
from mulligan.journal.reading_child import CHILDREN, Answer, Item, Request, Setup

#: Requests that a child may have before it answered the first: enough to keep it busy, few enough for its pipe.
_AHEAD = 3
#: Names of one request; each costs a wait for the disk.
_NAMES = 600

T = TypeVar("T")


@dataclass(slots=True)
class _Reading(Generic[T]):
    child: Child
    waiting: dict[int, list[T]] = field(default_factory=dict)


class ReadingPool(Generic[T]):
    """Reads names of directories in child processes; each answer goes to `done(thing, item)` in this thread."""

    def __init__(self, setup: Setup, done: Callable[[T, Item], None]) -> None:
        self._setup, self._done = setup, done
        self._children: list[_Reading[T]] = []
        self._number = 0
        self._groups: list[tuple[bytes, list[bytes]]] = []
        self._things: list[T] = []

    def read(self, path: bytes, thing: T) -> None:
        """Have a path read; `thing` comes back with what it was. Raises MulliganError if a child has died."""
        directory, _, name = path.rpartition(b"/")
        if len(self._things) >= _NAMES:
            self._send()
        if not self._groups or self._groups[-1][0] != directory:
            self._groups.append((directory, []))
        self._groups[-1][1].append(name)
        self._things.append(thing)

    def finish(self) -> None:
        """Wait for every answer, then end the children. Raises MulliganError if a child has died."""
        self._send()
        for reading in self._children:
            reading.child.end()
        while any(reading.waiting for reading in self._children):
            self._receive()
        self.close()

    def close(self) -> None:
        """End the children at once; what they have not answered is not in the journal."""
        for reading in self._children:
            if not reading.waiting:  # it has its last segment to close
                reading.child.end()
                reading.child.process.wait()
            reading.child.stop()
        self._children = []

    def _send(self) -> None:
        if not self._things:
            return
        reading = self._free_child()
        self._number += 1
        request = Request(self._number, self._groups)
        reading.waiting[self._number] = self._things
        self._groups, self._things = [], []
        try:
            reading.child.send(request)
        except ChildError as error:
            raise _died(error) from error

    def _free_child(self) -> _Reading[T]:
        while True:
            if self._children and len(self._children) >= CHILDREN:
                free = min(self._children, key=lambda reading: len(reading.waiting))
                if len(free.waiting) < _AHEAD:
                    return free
                self._receive()
            else:
                self._children.append(self._spawn())
                return self._children[-1]

    def _spawn(self) -> _Reading[T]:
        child = Child("mulligan.journal.reading_child")
        try:
            child.send(self._setup)
        except ChildError as error:
            child.stop()
            raise _died(error) from error
        return _Reading(child)

    def _receive(self) -> None:
        """Take one answer from whoever has one."""
        busy = {reading.child.answers: reading for reading in self._children if reading.waiting}
        ready, _, _ = select.select(list(busy), [], [])
        for number in ready:
            reading = busy[number]
            try:
                answer = reading.child.receive(Answer)
            except ChildError as error:
                raise _died(error) from error
            for thing, item in zip(reading.waiting.pop(answer.number), answer.items, strict=True):
                self._done(thing, item)


def _died(error: ChildError) -> MulliganError:
    return MulliganError(f"a reading process {error}", hint="the tree is compared again in a moment")
