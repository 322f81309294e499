"""Delivering what lines caused: to their project's worker, in order; only then is the place behind them recorded.

The jobs of one session are carried out one after another, whatever projects they belong to. If one fails, those behind
it do nothing, and the session is read again from what is durable.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import msgspec

from mulligan.errors import BusyError, MulliganError
from mulligan.project.execute import execute
from mulligan.project.registry import Registry
from mulligan.project.worker import ProjectWorker
from mulligan.session.events import Note, SessionCommand
from mulligan.session.machine import SessionMachine
from mulligan.store.records import AnyFact, KeysFact, OffsetFact, SessionFact
from mulligan.store.store import Store
from mulligan.transcript.tail import TailState

log = logging.getLogger(__name__)
#: Jobs of one project that may wait before its files are left unread for a while.
_BACKLOG = 64
#: Lines that cannot be executed because of a fault of ours are passed over after so many attempts, said in the log.
_ATTEMPTS = 3


@dataclass(slots=True)
class Session:
    """A session in memory. `worker` is its project's; `keys` were given out and are not durable yet.

    `given` ends with the last job that was handed over, and `given_to` is the worker that has it in its queue already.
    """

    machine: SessionMachine
    first: int
    last: int
    worker: ProjectWorker | None = None
    transcript: bytes = b""
    paths: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    waiting: int = 0
    broken: bool = False
    forgotten: bool = False
    given: Future[None] | None = None
    given_to: ProjectWorker | None = None


@dataclass(slots=True)
class Counts:
    """What was met, for `status`: odd lines by kind, sessions without a project, files that are followed."""

    lines: int = 0
    files: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    unprotected: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str, times: int = 1) -> None:
        """More of a kind; from any thread."""
        with self._lock:
            self.faults[what] = self.faults.get(what, 0) + times


class Delivery:
    """Hands over jobs from the reading thread. `wake` and `start_over` are called from any thread.

    `observe` is told of commands that were executed, in their project's thread; after a crash perhaps once more.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        counts: Counts,
        wake: Callable[[], None],
        start_over: Callable[[Session], None],
        observe: Callable[[ProjectWorker, Sequence[SessionCommand]], None],
    ) -> None:
        self._observe = observe
        self._store, self._registry, self._counts = store, registry, counts
        self._wake, self._start_over = wake, start_over
        self._lock = threading.Lock()
        self._waiting: dict[int, int] = {}
        self._keys: set[str] = set()
        self._failures: dict[str, int] = {}
        self._told: dict[str, str] = {}
        self.stopping = False

    def is_full(self, worker: ProjectWorker | None) -> bool:
        """Whether a project has enough to do already."""
        with self._lock:
            return worker is not None and self._waiting.get(worker.project_id, 0) >= _BACKLOG

    def under_way(self, key: str) -> bool:
        """Whether a command of this key was handed over and is not durable yet."""
        return key in self._keys

    def forget(self, session: Session) -> None:
        """What a session gave out and did not come to be is unknown again."""
        self._keys -= session.keys

    def submit(
        self,
        session: Session,
        worker: ProjectWorker | None,
        commands: Sequence[SessionCommand],
        path: str,
        state: TailState | None,
    ) -> None:
        """Hand over what lines caused, with the place behind them; without a project only the place is recorded."""
        if not commands and state is None:
            return
        for command in commands:
            if isinstance(command, Note):
                self._counts.count(command.what)
        keys = [
            key for command in commands if (key := getattr(command, "key", "") or getattr(command, "event_key", ""))
        ]
        facts = self._facts(session, worker, path, state)
        if keys:
            facts.append(KeysFact(session.machine.state.session, keys))
        if worker is None:
            if facts:
                self._store.log.append(facts)
            return
        self._keys.update(keys)
        session.keys.update(keys)
        session.paths.update([path] if path else [])
        self._queue(session, worker, lambda: self._run(session, worker, commands, path, facts, keys), path)

    def _facts(
        self, session: Session, worker: ProjectWorker | None, path: str, state: TailState | None
    ) -> list[AnyFact]:
        facts: list[AnyFact] = [] if state is None else [OffsetFact(os.fsencode(path), msgspec.msgpack.encode(state))]
        if worker is not None:
            project = (session.worker or worker).project_id
            snapshot = msgspec.msgpack.encode(session.machine.state)
            name = session.machine.state.session
            facts.append(SessionFact(name, project, session.transcript, session.first, session.last, snapshot))
        return facts

    def _queue(self, session: Session, worker: ProjectWorker, job: Callable[[], None], path: str) -> None:
        """Put a job into a worker's queue, once what the session gave to another worker has ended."""
        with self._lock:
            session.waiting += 1
            self._waiting[worker.project_id] = self._waiting.get(worker.project_id, 0) + 1
        ended: Future[None] = Future()

        def end(done: Future[None]) -> None:
            self._finished(done.exception(), session, worker, path)
            ended.set_result(None)

        def give(_: object = None) -> None:
            worker.call(job).add_done_callback(end)

        before, session.given = session.given, ended
        if before is None or before.done() or session.given_to is worker:
            session.given_to = worker
            give()
        else:
            session.given_to = None
            before.add_done_callback(give)

    def _run(
        self,
        session: Session,
        worker: ProjectWorker,
        commands: Sequence[SessionCommand],
        path: str,
        facts: list[AnyFact],
        keys: list[str],
    ) -> None:
        """The job itself, in the project's thread."""
        if session.broken:  # what came before failed and comes again: this comes behind it
            return
        if self.stopping or self._registry.by_id(worker.project_id) is not worker:
            raise BusyError("the project is being left", hint="the lines are read again")
        name = path or session.machine.state.session
        if self._failures.get(name, 0) < _ATTEMPTS:
            self._passed_over(worker, *execute(worker, commands))
            self._observe(worker, commands)
        else:
            log.error("transcript %s: a part was passed over after %d failures", name, _ATTEMPTS)
        self._failures.pop(name, None)
        self._store.log.append(facts)
        self._keys.difference_update(keys)
        session.keys.difference_update(keys)

    def _passed_over(self, worker: ProjectWorker, checkpoints: int, reason: str) -> None:
        """Checkpoints of a project that is not there or is paused cannot be: counted, and said once."""
        root = os.fsdecode(worker.root)
        if reason:
            self._counts.count(f"no checkpoint: {reason}", checkpoints)
            if self._told.get(root) != reason:
                log.warning("project %s: no checkpoints are taken: it is %s", root, reason)
        self._told[root] = reason

    def _finished(self, error: BaseException | None, session: Session, worker: ProjectWorker, path: str) -> None:
        """A job ended; after a failure the session is read again from what is durable."""
        with self._lock:
            session.waiting -= 1
            self._waiting[worker.project_id] -= 1
            idle = not self._waiting[worker.project_id]
        if error is not None and not session.broken and not self.stopping:
            session.broken = True
            self._tell(error, path or session.machine.state.session)
            self._start_over(session)
        if idle or error is not None:
            self._wake()

    def _tell(self, error: BaseException, name: str) -> None:
        self._counts.count("could not be executed")
        if not isinstance(error, MulliganError | OSError):
            self._failures[name] = self._failures.get(name, 0) + 1
            log.error("transcript %s", name, exc_info=error)
        elif self._told.get(name) != str(error):
            self._told[name] = str(error)
            log.warning("transcript %s: %s; it is read again until that is over", name, error)
