"""Following transcripts: files that change are read on, lines become commands, commands go to their project's worker.

One thread reads; it never waits for a project. What is done with the commands, and when the place behind the lines is
recorded, is the delivery's.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mulligan.clock import MILLISECOND, NANOSECONDS, to_rfc3339
from mulligan.errors import MulliganError
from mulligan.project.registry import Registry
from mulligan.project.settings import Settings
from mulligan.project.worker import ProjectWorker
from mulligan.session import events as session_events
from mulligan.session.events import SessionCommand, SessionInput
from mulligan.session.machine import SessionMachine
from mulligan.session.state import State
from mulligan.store.records import AnyFact, OffsetFact
from mulligan.store.store import Store
from mulligan.supervisor.adoption import Adoption
from mulligan.supervisor.delivery import Counts, Delivery, Session
from mulligan.supervisor.sources import Sources
from mulligan.transcript.events import Parsed, TranscriptEvent
from mulligan.transcript.kept import parse_kept
from mulligan.transcript.locate import Found, Transcript, live_clients, read_head
from mulligan.transcript.parse import parse_line
from mulligan.transcript.tail import Tail, TailState, state_at_end

log = logging.getLogger(__name__)
_TICK_SECONDS, _CLIENTS_SECONDS = 1.0, 5.0
#: What could not be done is tried again after so long.
_AGAIN_SECONDS = 3.0
#: File systems' clocks may be as far behind.
_COARSE = 20 * MILLISECOND
#: A session without lines for so long leaves memory; the catalogue has what it knew.
_FORGET = 3600 * NANOSECONDS


@dataclass(slots=True)
class _Batch:
    """Lines of one file that go to one worker; `cwd` is the last directory that they named, `parse` reads one."""

    path: str
    worker: ProjectWorker | None
    agent: bool = False
    cwd: str = ""
    commands: list[SessionCommand] = field(default_factory=list)
    parse: Callable[[bytes], Parsed] = parse_line


class Follower:
    """Follows all transcripts below some configuration directories, from `start` to `stop`."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: Settings,
        config_dirs: list[str],
        adoption: Adoption,
        observe: Callable[[ProjectWorker, Sequence[SessionCommand]], None],
    ) -> None:
        self._store, self._registry, self._settings, self._adoption = store, registry, settings, adoption
        self._config_dirs = config_dirs
        self._sources = Sources(config_dirs, store.clock.now)
        self._tails: dict[str, Tail] = {}
        self._placed: dict[str, str] = {}
        self._sessions: dict[str, Session] = {}
        self._later: dict[str, int] = {}
        self._requests: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="transcripts", daemon=True)
        self._clients: dict[str, str] = {}
        #: Told of a session whose client has ended, or that was forgotten; may not block.
        self.on_end: Callable[[str], None] = lambda _session: None
        self._next_clients = 0
        self.counts = Counts()
        self._delivery = Delivery(store, registry, self.counts, self._wake.set, self._failed, observe)

    def start(self) -> None:
        """Begin; what is there at the very first start of the store is the past and is followed from its end."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what its projects have not done yet is read again at the next start."""
        self._stopping = self._delivery.stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._sources.stop()

    def _run(self) -> None:
        begun = False
        while not self._stopping:
            try:
                if not begun:
                    self._begin()
                    begun = True
                self._round()
            except (MulliganError, OSError) as error:
                log.warning("transcripts: %s", error)
            except Exception:
                log.exception("transcripts: a fault of ours")
            self._wake.wait(_TICK_SECONDS)
            self._wake.clear()

    def _begin(self) -> None:
        """Watch, then list: the past is left alone, and what grew while nobody looked is read, the known files first.

        The order matters, because a fork's file copies the lines of an older one.
        """
        self._sources.start(self._wake.set)
        files = list(self._sources.index())
        if not self._store.catalogue().db.execute("select 1 from offset limit 1").fetchone():
            self._record_past(files)
        self.counts.files = len(files)
        grown = [(self._stored(found.transcript.path), found) for found in files]
        for _, found in sorted(
            ((state is None, found) for state, found in grown if not _at_end(state, found)), key=lambda item: item[0]
        ):
            self._try_read(found.transcript.path)

    def _record_past(self, files: list[Found]) -> None:
        """The places behind the past are durable before anything is read, so a crash cannot turn it into news.

        A file that was written since the store was made holds news as well: it is read, and its older lines do nothing.
        """
        if self._store.damage:
            return
        since = self._store.first_start - self._store.clock.correction - _COARSE
        facts: list[AnyFact] = [
            OffsetFact(os.fsencode(found.transcript.path), msgspec.msgpack.encode(state_at_end(found.status)))
            for found in files
            if found.status.st_mtime_ns < since
        ]
        self._store.log.append([*facts, OffsetFact(b"", b"")])

    def _round(self) -> None:
        while not self._requests.empty():
            self._requests.get()()
        now = self._store.clock.now()
        changed = self._sources.changed()
        for path in [path for path, due in self._later.items() if due <= now]:
            del self._later[path]
            changed.add(path)
        # files that are known come first: a fork's new file copies their lines
        for path in sorted(changed - self._later.keys(), key=lambda path: (path not in self._tails, path)):
            self._try_read(path)
        self._tick(now)
        if now >= self._next_clients:
            self._next_clients = now + int(_CLIENTS_SECONDS * NANOSECONDS)
            self._look_at_clients()

    def _try_read(self, path: str) -> None:
        """Read a file; one that cannot be read now, or not by us, is no reason to leave the others unread."""
        try:
            if not self._read(path):
                self._sources.again(path)
        except (MulliganError, OSError) as error:
            self.counts.count("could not be read")
            log.warning("transcript %s: %s", path, error)
            self._tails.pop(path, None)
            self._again_later(path)
        except Exception:
            self.counts.count("could not be read")
            log.exception("transcript %s: a part was passed over", path)

    def _again_later(self, path: str) -> None:
        self._later[path] = self._store.clock.now() + int(_AGAIN_SECONDS * NANOSECONDS)

    # files

    def _stored(self, path: str) -> TailState | None:
        query = "select state from offset where file = ?"
        found = self._store.catalogue().db.execute(query, (os.fsencode(path),)).fetchone()
        return msgspec.msgpack.decode(found[0], type=TailState) if found and found[0] else None

    def _open(self, path: str) -> Tail:
        tail = self._tails.get(path)
        if tail is None:
            state = self._stored(path)
            tail = self._tails[path] = Tail(path, state)
            self.counts.files += state is None
        return tail

    def _session_of(self, transcript: Transcript) -> str:
        """Whose file it is; "" until its first lines say so."""
        if transcript.session:
            return transcript.session
        session = self._placed.get(transcript.path) or read_head(transcript.path).session
        if session:
            self._placed[transcript.path] = session
        return session

    def _read(self, path: str) -> bool:
        """Read a file on; False if it has to be left for now because its project is busy."""
        transcript = self._sources.recognise(path)
        session = self._session_of(transcript) if transcript else ""
        if transcript is None or not session:
            return True
        tail = self._open(path)
        known = self._session(session)
        while not self._stopping:
            if self._delivery.is_full(known.worker):
                return False
            before = tail.state
            step = tail.read()
            if step.gone or (not step.lines and step.restart is None and tail.state == before):
                return True
            if not transcript.agent and not transcript.kept:
                known.transcript = os.fsencode(path)
            batch = _Batch(path, known.worker, bool(transcript.agent))
            if transcript.kept:
                batch.parse = parse_kept
            if step.restart is not None:
                self.counts.count(f"restart: {step.restart}")
                if not transcript.agent:
                    batch.commands += known.machine.feed(session_events.Reread())
            if step.too_long:
                self.counts.count("line too long", step.too_long)
            for _, line in step.lines:
                self._line(known, line, batch)
            self._delivery.submit(known, batch.worker, batch.commands, path, tail.state)
            if not step.more:
                return True
        return True

    def _line(self, known: Session, line: bytes, batch: _Batch) -> None:
        """One line's commands go to the batch; what came before it in another project is handed over first."""
        self.counts.lines += 1
        parsed = batch.parse(line)
        if parsed.fault:
            self.counts.count(parsed.fault)
        for event in parsed.events:
            if event.cwd and event.cwd != batch.cwd:
                batch.cwd = event.cwd
                self._settle(known, batch)
            batch.commands += known.machine.feed(event)
            if event.time is not None:
                known.last = max(known.last, self._store.clock.from_wall(event.time))

    # sessions

    def knows(self, key: str) -> bool:
        """Whether an event of this key had its effect, before this start too. From any thread."""
        return self._known(key)

    def _known(self, key: str) -> bool:
        if self._delivery.under_way(key):
            return True
        query = "select 1 from known where key = ?"
        return self._store.catalogue().db.execute(query, (key,)).fetchone() is not None

    def _session(self, session: str) -> Session:
        known = self._sessions.get(session)
        if known is None:
            query = "select state, first, last, project, transcript from session where id = ?"
            found = self._store.catalogue().db.execute(query, (session,)).fetchone()
            state = msgspec.msgpack.decode(found[0], type=State) if found and found[0] else State(session)
            now = self._store.clock.now()
            since = self._store.first_start - self._store.clock.correction
            machine = SessionMachine(state, self._known, since=since)
            known = Session(machine, found[1] if found else now, found[2] if found else now)
            if found:
                known.worker, known.transcript = self._registry.by_id(found[3]), found[4]
            self._sessions[session] = known
        self._apply_settings(known)
        return known

    def _apply_settings(self, known: Session) -> None:
        project = os.fsdecode(known.worker.root) if known.worker else ""
        effective = self._settings.effective(project, known.machine.state.session)
        values = {key: found["value"] for key, found in effective.items()}
        known.machine.set_settings(msgspec.convert(values, session_events.Settings))

    def _settle(self, known: Session, batch: _Batch) -> None:
        """Find whose project the lines are about; one that nobody watches is added if that is allowed.

        A session that goes where nothing is protected stays with its project. A subagent may work in another project
        than its session, which stays where it is.
        """
        worker = self._registry.holding(os.fsencode(batch.cwd))
        if worker is None:
            worker, reason = self._adoption.adopt(batch.cwd)
            if worker is None:
                self.counts.unprotected[batch.cwd] = reason
                return
        self.counts.unprotected.pop(batch.cwd, None)
        if worker is not batch.worker and batch.worker is not None:
            self._delivery.submit(known, batch.worker, batch.commands, batch.path, None)
            batch.commands = []
        batch.worker = worker
        if worker is not known.worker and (known.worker is None or not batch.agent):
            known.worker = worker
            self._apply_settings(known)

    def _failed(self, known: Session) -> None:
        """Called from a project's thread: what a session caused could not be done."""
        self._requests.put(lambda: self._start_over(known))

    def _start_over(self, known: Session) -> None:
        self._delivery.forget(known)
        session = known.machine.state.session
        if self._sessions.get(session) is known:
            del self._sessions[session]
        for path in known.paths:
            self._tails.pop(path, None)
            self._again_later(path)

    # time

    def _tick(self, now: int) -> None:
        wall = now - self._store.clock.correction
        for session, known in list(self._sessions.items()):
            commands = known.machine.feed(session_events.Tick(wall))
            self._delivery.submit(known, known.worker, commands, "", None)
            idle = now - known.last > _FORGET and now - self._store.first_start > _FORGET
            if (idle or known.forgotten) and not known.waiting:
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
                commands = known.machine.feed(session_events.ClientIdle(key, wall))
                self._delivery.submit(known, known.worker, commands, "", None)
        for session in self._clients.keys() - clients.keys():
            known = self._sessions.get(session)
            if known is not None:
                commands = known.machine.feed(session_events.ClientGone(wall))
                self._delivery.submit(known, known.worker, commands, "", None)
            self.on_end(session)
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
            batch = _Batch("", known.worker)
            self._line(known, line.encode("utf-8", "surrogatepass"), batch)
            self._delivery.submit(known, batch.worker, batch.commands, "", None)
            answer["commands"] = len(batch.commands)
            done.set()

        self._registry.find(project)
        self._requests.put(run)
        self._wake.set()
        done.wait(10)
        return {"tracked": done.is_set(), **answer}

    def hear(
        self, session: str, cwd: str, events: Sequence[TranscriptEvent | SessionInput], *, agent: bool = False
    ) -> None:
        """Feed a session with what an agent's hook told, before any line that comes later; waits for nothing.

        `cwd` says whose project it is about, as in a line. A subagent's directory is not its session's.
        """

        def run() -> None:
            known = self._session(session)
            batch = _Batch("", known.worker, agent, cwd)
            self._settle(known, batch)
            for event in events:
                batch.commands += known.machine.feed(event)
            self._delivery.submit(known, batch.worker, batch.commands, "", None)

        self._ask(run)

    def visit(self, cwd: str) -> None:
        """An agent works in a directory: it is protected if that is allowed. Waits for nothing."""

        def run() -> None:
            if self._registry.holding(os.fsencode(cwd)) is None:
                _, reason = self._adoption.adopt(cwd)
                if reason:
                    self.counts.unprotected[cwd] = reason

        self._ask(run)

    def _ask(self, request: Callable[[], None]) -> None:
        self._requests.put(request)
        self._wake.set()

    def forget(self, session: str) -> bool:
        """A session has ended, whatever its lines say: its calls are closed and it leaves memory.

        Whether it was in memory; lines that come later make it known again.
        """
        done = threading.Event()
        answer: list[tuple[bool, Future[None] | None]] = []

        def run() -> None:
            was_known = session in self._sessions
            known = self._session(session)
            wall = self._store.clock.now() - self._store.clock.correction
            commands = known.machine.feed(session_events.ClientGone(wall))
            key = f"forgotten:{session}:{known.machine.state.last_time}"
            commands += known.machine.feed(session_events.ClientIdle(key, wall))
            self._delivery.submit(known, known.worker, commands, "", None)
            known.forgotten = True
            self.on_end(session)
            answer.append((was_known, known.given))
            done.set()

        self._requests.put(run)
        self._wake.set()
        done.wait(10)
        for was_known, given in answer:
            if given is not None:
                given.result(10)
            return was_known
        return False

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


def _at_end(state: TailState | None, found: Found) -> bool:
    """Whether a file is, by its stat, as it was left; one that was changed in place is noticed when it grows."""
    status = found.status
    return state is not None and (state.device, state.inode, state.offset) == (
        status.st_dev, status.st_ino, status.st_size,
    )  # fmt: skip
