"""The parent's side of the reading children: up to two, fed by directory, answered in any order.

Pure Python work of this size would hold the interpreter that captures and answers requests need, so it runs elsewhere.
Belongs to one worker's thread.
"""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, Generic, TypeVar

import msgspec

from mulligan.child import frame, read_frame
from mulligan.errors import MulliganError
from mulligan.journal.reading_child import CHILDREN, Answer, Item, Request, Setup

#: Requests that a child may have before it answered the first: enough to keep it busy, few enough for its pipe.
_AHEAD = 3
#: Names of one request; each costs a wait for the disk.
_NAMES = 600

T = TypeVar("T")


@dataclass(slots=True)
class _Child(Generic[T]):
    process: subprocess.Popen[bytes]
    requests: BinaryIO
    answers: BinaryIO
    waiting: dict[int, list[T]] = field(default_factory=dict)


class ReadingPool(Generic[T]):
    """Reads names of directories in child processes; each answer goes to `done(thing, item)` in this thread."""

    def __init__(self, setup: Setup, done: Callable[[T, Item], None]) -> None:
        self._setup, self._done = setup, done
        self._children: list[_Child[T]] = []
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
        for child in self._children:
            child.requests.close()
        while any(child.waiting for child in self._children):
            self._receive()
        self.close()

    def close(self) -> None:
        """End the children at once; what they have not answered is not in the journal."""
        for child in self._children:
            if not child.requests.closed:
                try:
                    child.requests.close()
                except OSError:
                    pass
            if child.waiting:
                child.process.kill()
            child.process.wait()
            child.answers.close()
        self._children = []

    def _send(self) -> None:
        if not self._things:
            return
        child = self._free_child()
        self._number += 1
        request = Request(self._number, self._groups)
        child.waiting[self._number] = self._things
        self._groups, self._things = [], []
        try:
            child.requests.write(frame(msgspec.msgpack.encode(request)))
            child.requests.flush()
        except OSError as error:
            raise _died(child) from error

    def _free_child(self) -> _Child[T]:
        while True:
            if self._children and len(self._children) >= CHILDREN:
                free = min(self._children, key=lambda child: len(child.waiting))
                if len(free.waiting) < _AHEAD:
                    return free
                self._receive()
            else:
                self._children.append(self._spawn())
                return self._children[-1]

    def _spawn(self) -> _Child[T]:
        process = subprocess.Popen(
            [sys.executable, "-m", "mulligan.journal.reading_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            close_fds=True,
            cwd="/",
        )
        assert process.stdin is not None and process.stdout is not None
        child: _Child[T] = _Child(process, process.stdin, process.stdout)  # type: ignore[arg-type]
        child.requests.write(frame(msgspec.msgpack.encode(self._setup)))
        return child

    def _receive(self) -> None:
        """Take one answer from whoever has one."""
        busy = {child.answers.fileno(): child for child in self._children if child.waiting}
        ready, _, _ = select.select(list(busy), [], [])
        for number in ready:
            child = busy[number]
            data = read_frame(child.answers)
            if data is None:
                raise _died(child)
            answer = msgspec.msgpack.decode(data, type=Answer)
            for thing, item in zip(child.waiting.pop(answer.number), answer.items, strict=True):
                self._done(thing, item)


def _died(child: _Child[T]) -> MulliganError:
    status = child.process.wait()
    return MulliganError(f"a reading process ended with status {status}", hint="the tree is compared again in a moment")
