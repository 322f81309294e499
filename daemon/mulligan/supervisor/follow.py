"""Following transcripts: files that change are read on, lines become commands, commands go to their project's worker.

One thread reads; it never waits for a project. What a file's lines caused is executed in the project's own thread, and
only then is the offset behind them recorded, in the order in which they were read.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mulligan.clock import NANOSECONDS, to_rfc3339
from mulligan.errors import MulliganError
from mulligan.project.execute import execute
from mulligan.project.registry import Registry
from mulligan.project.settings import Settings
from mulligan.project.worker import ProjectWorker
from mulligan.session import events as session_events
from mulligan.session.events import SessionCommand
from mulligan.session.machine import SessionMachine
from mulligan.session.state import State
from mulligan.store.records import AnyFact, KeysFact, OffsetFact, SessionFact
from mulligan.store.store import Store
from mulligan.supervisor.adoption import Adoption
from mulligan.supervisor.sources import Sources
from mulligan.transcript.locate import Transcript, live_clients, read_head
from mulligan.transcript.parse import parse_line
from mulligan.transcript.tail import Tail, TailState, state_at_end

log = logging.getLogger(__name__)
_TICK_SECONDS, _CLIENTS_SECONDS = 1.0, 5.0
#: Jobs of one project that may wait before its files are left unread for a while.
_BACKLOG = 64
#: Lines that cannot be executed because of a fault of ours are passed over after so many attempts, said in the log.
_ATTEMPTS = 3
#: A session without lines for so long leaves memory; the catalogue has what it knew.
_FORGET = 3600 * NANOSECONDS


@dataclass(slots=True)
class _Session:
    machine: SessionMachine
    first: int
    last: int
    worker: ProjectWorker | None = None
    project: int = 0
    transcript: bytes = b""
    cwd: str = ""
    paths: set[str] = field(default_factory=set)
    broken: bool = False


@dataclass(slots=True)
class Counts:
    """What was met, for `status`: odd lines by kind, sessions without a project, files that are followed."""

    lines: int = 0
    files: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    unprotected: dict[str, str] = field(default_factory=dict)

    def count(self, what: str) -> None:
        """One more of a kind."""
        self.faults[what] = self.faults.get(what, 0) + 1


class Follower:
    """Follows all transcripts below some configuration directories, from `start` to `stop`."""

    def __init__(
        self, store: Store, registry: Registry, settings: Settings, config_dirs: list[str], adoption: Adoption
    ) -> None:
        self._store, self._registry, self._settings, self._adoption = store, registry, settings, adoption
        self._config_dirs = config_dirs
        self._sources = Sources(config_dirs, store.clock.now)
        self._tails: dict[str, Tail] = {}
        self._placed: dict[str, str] = {}
        self._sessions: dict[str, _Session] = {}
        self._unwritten: set[str] = set()
        self._waiting: dict[int, int] = {}
        self._requests: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="transcripts", daemon=True)
        self._failures: dict[str, int] = {}
        self._clients: dict[str, str] = {}
        self._next_clients = 0
        self.counts = Counts()

    def start(self) -> None:
        """Begin; what is there at the very first start of the store is the past and is followed from its end."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what it gave to workers is theirs to finish."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._sources.stop()

    def _run(self) -> None:
        first_start = not self._store.catalogue().db.execute("select 1 from offset limit 1").fetchone()
        self._sources.start(self._wake.set)
        for found in self._sources.index():
            self._open(found.transcript.path, found.status if first_start else None)
            if not first_start:  # it may have grown while nobody looked
                self._sources.again(found.transcript.path)
        self._record_past(first_start)
        while not self._stopping:
            try:
                self._round()
            except (MulliganError, OSError) as error:
                log.warning("transcripts: %s", error)
            self._wake.wait(_TICK_SECONDS)
            self._wake.clear()

    def _record_past(self, first_start: bool) -> None:
        """The places behind the past are durable before anything is read, so a crash cannot turn it into news."""
        if first_start and not self._store.damage:
            facts: list[AnyFact] = [
                OffsetFact(os.fsencode(path), msgspec.msgpack.encode(tail.state)) for path, tail in self._tails.items()
            ]
            self._store.log.append([*facts, OffsetFact(b"", b"")])

    def _round(self) -> None:
        while not self._requests.empty():
            self._requests.get()()
        for path in sorted(self._sources.changed()):
            if not self._read(path):
                self._sources.again(path)
        now = self._store.clock.now()
        self._tick(now)
        if now >= self._next_clients:
            self._next_clients = now + int(_CLIENTS_SECONDS * NANOSECONDS)
            self._look_at_clients()

    # files

    def _open(self, path: str, status: os.stat_result | None = None) -> Tail:
        tail = self._tails.get(path)
        if tail is None:
            found = (
                self._store.catalogue()
                .db.execute("select state from offset where file = ?", (os.fsencode(path),))
                .fetchone()
            )
            state = msgspec.msgpack.decode(found[0], type=TailState) if found and found[0] else None
            if state is None and status is not None:
                state = state_at_end(status)
            tail = self._tails[path] = Tail(path, state)
            self.counts.files += 1
        return tail

    def _session_of(self, transcript: Transcript) -> str:
        if transcript.session:
            return transcript.session
        if transcript.path not in self._placed:
            self._placed[transcript.path] = read_head(transcript.path).session
        return self._placed[transcript.path]

    def _read(self, path: str) -> bool:
        """Read a file on; False if it has to be left for now because its project is busy."""
        transcript = self._sources.recognise(path)
        session = self._session_of(transcript) if transcript else ""
        if transcript is None or not session:
            return True
        tail = self._open(path)
        known = self._session(session)
        while True:
            if known.worker is not None and self._waiting.get(known.worker.project_id, 0) >= _BACKLOG:
                return False
            before = tail.state
            step = tail.read()
            if step.gone or (not step.lines and step.restart is None and tail.state == before):
                return True
            commands: list[SessionCommand] = []
            if step.restart is not None:
                self.counts.count(f"restart: {step.restart}")
                if not transcript.agent:
                    commands += known.machine.feed(session_events.Reread())
            for _ in range(step.too_long):
                self.counts.count("line too long")
            if not transcript.agent:
                known.transcript = os.fsencode(path)
            for _, line in step.lines:
                commands += self._line(known, line)
            self._submit(known, commands, path, tail.state)
            if not step.more:
                return True

    def _line(self, known: _Session, line: bytes) -> list[SessionCommand]:
        self.counts.lines += 1
        parsed = parse_line(line)
        if parsed.fault:
            self.counts.count(parsed.fault)
        commands: list[SessionCommand] = []
        for event in parsed.events:
            if event.cwd and event.cwd != known.cwd:
                known.cwd = event.cwd
                self._settle(known)
            made = known.machine.feed(event)
            commands += made
            if event.time is not None:
                known.last = max(known.last, self._store.clock.from_wall(event.time))
        return commands

    # sessions

    def _known(self, key: str) -> bool:
        if key in self._unwritten:
            return True
        query = "select 1 from known where key = ?"
        return self._store.catalogue().db.execute(query, (key,)).fetchone() is not None

    def _session(self, session: str) -> _Session:
        known = self._sessions.get(session)
        if known is None:
            found = (
                self._store.catalogue()
                .db.execute("select state, first, last, project, transcript from session where id = ?", (session,))
                .fetchone()
            )
            state = msgspec.msgpack.decode(found[0], type=State) if found and found[0] else State(session)
            now = self._store.clock.now()
            since = self._store.first_start - self._store.clock.correction
            machine = SessionMachine(state, self._known, since=since)
            known = _Session(machine, found[1] if found else now, found[2] if found else now)
            if found:
                known.worker, known.transcript = self._registry.by_id(found[3]), found[4]
            self._sessions[session] = known
        self._apply_settings(known)
        return known

    def _apply_settings(self, known: _Session) -> None:
        project = os.fsdecode(known.worker.root) if known.worker else ""
        effective = self._settings.effective(project, known.machine.state.session)
        values = {key: found["value"] for key, found in effective.items()}
        known.machine.set_settings(msgspec.convert(values, session_events.Settings))

    def _settle(self, known: _Session) -> None:
        """Find whose project a session works in; one that nobody watches is added if that is allowed."""
        worker = self._registry.holding(os.fsencode(known.cwd))
        if worker is None:
            worker, reason = self._adoption.adopt(known.cwd)
            if worker is None:
                self.counts.unprotected[known.cwd] = reason
                return
        self.counts.unprotected.pop(known.cwd, None)
        if worker is not known.worker:
            known.worker = worker
            self._apply_settings(known)

    def _submit(self, known: _Session, commands: list[SessionCommand], path: str, state: TailState | None) -> None:
        """Give what lines caused to the project's worker; without a project only the place is recorded."""
        session = known.machine.state.session
        keys = [
            key for command in commands if (key := getattr(command, "key", "") or getattr(command, "event_key", ""))
        ]
        for command in commands:
            if isinstance(command, session_events.Note):
                self.counts.count(command.what)
        self._unwritten.update(keys)
        worker = known.worker
        snapshot = msgspec.msgpack.encode(known.machine.state)
        facts: list[AnyFact] = [] if state is None else [OffsetFact(os.fsencode(path), msgspec.msgpack.encode(state))]
        if worker is not None:
            facts.append(SessionFact(session, worker.project_id, known.transcript, known.first, known.last, snapshot))
        if keys:
            facts.append(KeysFact(session, keys))
        if worker is None:
            self._store.log.append(facts)
            self._unwritten.difference_update(keys)
            return
        if not commands and state is None:
            return
        number = worker.project_id
        self._waiting[number] = self._waiting.get(number, 0) + 1

        def job() -> None:
            try:
                if known.broken:  # what came before failed and comes again: this comes behind it
                    return
                if self._failures.get(path, 0) < _ATTEMPTS:
                    execute(worker, commands)
                else:
                    log.error("transcript %s: a part was passed over after %d failures", path, _ATTEMPTS)
                self._failures.pop(path, None)
                self._store.log.append(facts)
                self._unwritten.difference_update(keys)
            finally:
                self._waiting[number] -= 1
                if self._waiting[number] == 0:
                    self._wake.set()

        known.paths.update([path] if path else [])
        worker.call(job).add_done_callback(lambda done: self._finished(done.exception(), known, path))

    def _finished(self, error: BaseException | None, known: _Session, path: str) -> None:
        """A failed job: the session is read again from what is durable, after a pause."""
        if error is None:
            return
        known.broken = True
        self._failures[path] = self._failures.get(path, 0) + (not isinstance(error, MulliganError | OSError))
        self._requests.put(lambda: self._start_over(known))
        self.counts.count("could not be executed")
        if isinstance(error, MulliganError | OSError):
            log.warning("transcript %s: %s", path, error)
        else:
            log.error("transcript %s", path, exc_info=error)

    def _start_over(self, known: _Session) -> None:
        session = known.machine.state.session
        if self._sessions.get(session) is known:
            del self._sessions[session]
        for path in known.paths:
            self._tails.pop(path, None)
            self._sources.again(path)

    # time

    def _tick(self, now: int) -> None:
        wall = now - self._store.clock.correction
        for session, known in list(self._sessions.items()):
            commands = known.machine.feed(session_events.Tick(wall))
            if commands:
                self._submit(known, commands, "", None)
            if now - known.last > _FORGET and now - self._store.first_start > _FORGET:
                del self._sessions[session]

    def _look_at_clients(self) -> None:
        """Clients that run: their projects are protected, their idleness ends a turn, their end closes their calls."""
        wall = self._store.clock.now() - self._store.clock.correction
        clients = {client.session: client for client in live_clients(self._config_dirs)}
        for session, client in clients.items():
            if self._registry.holding(os.fsencode(client.cwd)) is None:
                _, reason = self._adoption.adopt(client.cwd)
                if reason:
                    self.counts.unprotected[client.cwd] = reason
            known = self._sessions.get(session)
            if known is not None and client.status == "idle" and self._clients.get(session) == "busy":
                key = f"idle:{session}:{known.machine.state.last_time}"
                self._submit(known, known.machine.feed(session_events.ClientIdle(key, wall)), "", None)
        for session in self._clients.keys() - clients.keys():
            known = self._sessions.get(session)
            if known is not None:
                self._submit(known, known.machine.feed(session_events.ClientGone(wall)), "", None)
        self._clients = {session: client.status for session, client in clients.items()}

    # requests

    def track(self, session: str, project: str, line: str) -> dict[str, Any]:
        """Take one line as if it had been read from the session's file; answers when it was given to the worker."""
        done = threading.Event()
        answer: dict[str, Any] = {}

        def run() -> None:
            known = self._session(session)
            if known.worker is None:
                known.worker = self._registry.find(project)
                self._apply_settings(known)
            commands = self._line(known, line.encode("utf-8", "surrogatepass"))
            self._submit(known, commands, "", None)
            answer["commands"] = len(commands)
            done.set()

        self._registry.find(project)
        self._requests.put(run)
        self._wake.set()
        done.wait(10)
        return {"tracked": done.is_set(), **answer}

    def describe(self) -> dict[str, Any]:
        """The counts for `status`."""
        counts = self.counts
        return {
            "files": counts.files,
            "lines": counts.lines,
            "sessions_in_memory": len(self._sessions),
            "odd": dict(counts.faults),
            "unprotected": [{"path": path, "reason": reason} for path, reason in counts.unprotected.items()],
        }

    def found_projects(self) -> list[dict[str, Any]]:
        """The directories that transcripts name and nobody protects, the most recently used first."""
        newest: dict[str, int] = {}
        for found in self._sources.index():
            if not found.transcript.agent and (cwd := read_head(found.transcript.path).cwd):
                newest[cwd] = max(newest.get(cwd, 0), found.status.st_mtime_ns)
        return [
            {"path": cwd, "last_activity": to_rfc3339(newest[cwd]), "reason": self._adoption.reason(cwd)}
            for cwd in sorted(newest, key=lambda cwd: -newest[cwd])
            if self._registry.holding(os.fsencode(cwd)) is None
        ]
