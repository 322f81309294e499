"""The worker of one project: a thread that reconciles, captures, takes checkpoints and restores, one after another.

Everything that changes a project's journal runs here, so it is serial by construction. Other threads ask by `call`.
A slow disk or a huge directory delays this project, never another one.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TypeVar

from mulligan.clock import NANOSECONDS
from mulligan.errors import BusyError, MulliganError
from mulligan.events import Bus
from mulligan.faults import point
from mulligan.journal import gitinfo
from mulligan.journal.capture import Capture, Limits
from mulligan.journal.memory import give_back_memory
from mulligan.journal.reconcile import Reconciler
from mulligan.model import ANOTHER_ROOT, Checkpoint, Cut, Flag, RelPath, Row
from mulligan.project.checkpoints import Request, make_checkpoint
from mulligan.project.health import Health
from mulligan.project.pace import comparison_seconds, next_rescan
from mulligan.project.root import birth_time
from mulligan.store.catalogue import Project
from mulligan.store.records import AnyFact, CheckpointFact, CurrentFact, GapFact, ProjectFact
from mulligan.store.store import Store
from mulligan.watch.ignore import IgnoreRules
from mulligan.watch.observer import Observer, ObserverFactory
from mulligan.watch.scan import root_identity

T = TypeVar("T")
log = logging.getLogger(__name__)

_BARRIER_SECONDS = 10.0
_ROOT_CHECK_SECONDS = 2.0
#: Work on so many things makes the heap grow by megabytes; after so long without a job the rest is given back.
_MANY, _QUIET_SECONDS = 500, 2.0

_NOT_TOLD = int(Flag.SCANNED | Flag.FROM_UNKNOWN)


class ProjectWorker:
    """One project's thread. `start` begins to watch; `call` runs something in the thread; `stop` ends it."""

    def __init__(
        self,
        store: Store,
        project: Project,
        bus: Bus,
        limits: Limits,
        make_rules: Callable[[bytes], IgnoreRules],
        make_observer: ObserverFactory,
    ) -> None:
        self.store, self.bus = store, bus
        self.project_id, self.root = project.id, project.path
        self.health = Health()
        self.now = store.clock.now
        self._limits, self._make_rules, self._make_observer = limits, make_rules, make_observer
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"project-{project.id}", daemon=True)
        self._woken = threading.Event()
        self._heap_grew = False
        self._stopping = False
        self.observer: Observer | None = None
        self.reconciler: Reconciler | None = None
        self.capture = Capture(store, project.id, project.path, limits)
        self.capture.last_seq = project.last_seq
        self.capture.on_rows = self._on_rows
        self.on_attribution: Callable[[list[Row]], None] = lambda _rows: None
        self.recover: Callable[[], None] = lambda: None
        self.nested: Callable[[], list[bytes]] = list
        self.recovered = threading.Event()
        self._next_rescan = 0
        self._must_rescan = False

    # from any thread

    def start(self) -> None:
        """Begin; the baseline or the comparison with the journal comes first."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what is being done, then end the thread."""
        self._stopping = True
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Run `function` in the worker's thread, after what is already queued."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function())
            except Exception as error:  # noqa: BLE001 - the request boundary: whoever asked gets it
                future.set_exception(error)

        if self._stopping:
            future.set_exception(BusyError("the daemon is stopping", hint="try again in a moment"))
        else:
            self._queue.put(run)
        return future

    def record(self) -> Project:
        """The project as the catalogue has it."""
        return self.store.catalogue().project(self.project_id)

    # the thread

    def _run(self) -> None:
        try:
            with self.store.building():
                self._begin()
            due: int | None = None
            while not self._stopping:
                due = self._step(due)
        except Exception:
            log.exception("project %s: the worker died", os.fsdecode(self.root))
            self.health.state, self.health.last_error = "failed", "internal error, see the log"
        finally:
            self._end_watch()
            self._refuse_rest()

    def _refuse_rest(self) -> None:
        self._stopping = True
        while True:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return
            if job is not None:
                job()

    def _step(self, due: int | None) -> int | None:
        job = self._next_job(due)
        with self.store.building():
            self.capture_errors(self._check_root)
            if job is not None:
                self._in_tree(job)
            if self.health.state != "watching":
                return None
            return self.capture_errors(self._look)

    def _next_job(self, due: int | None) -> Callable[[], None] | None:
        if self.health.state in ("missing", "paused", "failed"):
            timeout = _ROOT_CHECK_SECONDS
        else:
            wake = self._next_rescan if due is None else min(due, self._next_rescan)
            timeout = max(0.0, (wake - self.now()) / NANOSECONDS)
        if self._heap_grew:
            timeout = min(timeout, _QUIET_SECONDS)
        try:
            return self._queue.get(timeout=min(timeout, 3600.0))
        except queue.Empty:
            if self._heap_grew:
                self._heap_grew = False
                give_back_memory()
            return None

    def give_back_later(self, things: int) -> None:
        """Work on so many things was done: once it is quiet, freed memory goes back to the system."""
        self._heap_grew = self._heap_grew or things >= _MANY

    def _wake(self) -> None:
        # from the observer's thread: once until the worker has looked
        if not self._woken.is_set():
            self._woken.set()
            self._queue.put(lambda: None)

    def _in_tree(self, job: Callable[[], None]) -> None:
        """Run a job with the root's descriptor open for as long as it takes."""
        try:
            if self.health.state == "watching":
                self.capture.open()
        except OSError as error:
            self._lost(f"it cannot be opened: {os.strerror(error.errno or 0).lower()}")
        try:
            job()
        finally:
            self.capture.close()

    def capture_errors(self, function: Callable[[], T]) -> T | None:
        """Run a part of the loop; a failure is shown in `status`, and the tree is compared as a whole afterwards."""
        try:
            return function()
        except (MulliganError, OSError) as error:
            message = error.message if isinstance(error, MulliganError) else str(error)
            if message != self.health.last_error:
                log.warning("project %s: %s", os.fsdecode(self.root), message)
            self.health.last_error = message
            self._must_rescan = True
            self._next_rescan = self.now() + 5 * NANOSECONDS
            return None

    # beginning and ending

    def _begin(self) -> None:
        project = self.record()
        if project.state == "paused":
            self.health.state, self.health.reason = "paused", project.reason
        else:
            self.capture_errors(lambda: self._attach(project))
        self.recovered.set()

    def _attach(self, project: Project) -> None:
        """Watch the root as it is now; what happened since the last look is compared and recorded."""
        identity = root_identity(self.root)
        if identity is None:
            self._lost("the directory does not exist")
        if identity is None or self._stopping:
            return
        self._end_watch()
        self.health.state, self.health.reason = "baseline", ""
        self.capture.open()
        try:
            self.observer = self._make_observer(self.root, self.now)
            self.observer.start(self._wake)
            rules = self._make_rules(self.root)
            self.reconciler = Reconciler(self.capture, self.store.catalogue, self.observer, rules, self.now)
            self.reconciler.progress = self._progress
            self._take_in_named(rules)
            self.recover()
            self.recovered.set()
            if project.baseline_end == 0:
                self._baseline(project, identity)
            else:
                self._catch_up(project, identity)
            self.health.state = "watching"
            project = self.record()
            self._after_rescan(comparison_seconds(project.files + project.dirs))
            self.give_back_later(project.files)
        finally:
            self.capture.close()
        self.bus.publish("project", project=os.fsdecode(self.root), state="watching")

    def _take_in_named(self, rules: IgnoreRules) -> None:
        """Ignored paths that a tool named before this watch began stay in scope."""
        self.capture.named = {
            path for path in self.store.catalogue().with_flag(self.project_id, Flag.NAMED) if rules.force(RelPath(path))
        }

    def _progress(self, done: int) -> None:
        self.health.done = done

    def _baseline(self, project: Project, identity: tuple[int, int]) -> None:
        assert self.reconciler is not None
        self.reconciler.everything(Flag.FROM_UNKNOWN)
        point("baseline.done")
        end = self.now()
        fact = ProjectFact(
            project.id, project.path, "watching", *identity, project.generation, project.added, end, project.reason
        )
        self.commit_checkpoint(Request(trigger="baseline", description="as it was found"), [fact])

    def _catch_up(self, project: Project, identity: tuple[int, int]) -> None:
        """After a restart, a pause or another root: compare, and record the gap."""
        assert self.reconciler is not None
        start = max(project.last_capture, self.store.catalogue().meta("latest"), project.baseline_end)
        # an inode number is given to the next directory at once, but not with an older birth
        same_root = identity == (project.dev, project.ino) and birth_time(self.root) <= start
        facts: list[AnyFact] = [GapFact(project.id, start, self.now(), "away" if same_root else "another root")]
        if not same_root:
            self._forget_root()
        if not same_root or project.state != "watching":
            generation = project.generation + (0 if same_root else 1)
            facts.append(
                ProjectFact(
                    project.id, project.path, "watching", *identity, generation, project.added, project.baseline_end
                )
            )
        self.store.log.append(facts)
        # what is new to us may only have been hidden until now
        shown = self.reconciler.rules.changed_outside_since(start - self.store.clock.correction)
        self.reconciler.everything(Flag.AWAY | (Flag.FROM_UNKNOWN if shown else 0))

    def _forget_root(self) -> None:
        """Another directory stands in the root's place: what was known is unknown now, never deleted."""
        for live in list(self.store.catalogue().below(self.project_id, b"")):
            self.capture.unknown(live, ANOTHER_ROOT)
        self.capture.flush()

    def _end_watch(self) -> None:
        """Watch nothing; whoever goes on says what the state is instead."""
        if self.health.state in ("starting", "baseline", "watching"):
            self.health.state = "stopped"
        if self.observer is not None:
            self.observer.stop()
            self.observer = None

    def _lost(self, reason: str) -> None:
        self._end_watch()
        if self.health.state != "missing":
            log.warning("project %s: %s", os.fsdecode(self.root), reason)
            self.bus.publish("project", project=os.fsdecode(self.root), state="missing", reason=reason)
        self.health.state, self.health.reason = "missing", reason

    def _check_root(self) -> None:
        """The root must be the one that is watched; inode numbers are reused, so its removal is watched as well."""
        if self.health.state in ("paused", "stopped", "failed"):
            return
        project = self.record()
        identity = root_identity(self.root)
        gone = self.observer is not None and self.observer.root_gone
        if identity is None:
            self._lost("the directory does not exist")
        elif self.health.state != "watching":
            self._attach(project)
        elif gone or identity != (project.dev, project.ino):
            # a watched inode keeps its number, so the same identity is the same directory: moved away and back
            self.health.state = "missing"
            self._end_watch()
            self._attach(project)

    def pause(self, reason: str = "") -> None:
        """Stop watching until `resume`; remembered over restarts. Runs in the thread."""
        project = self.record()
        self._end_watch()
        self.health.state, self.health.reason = "paused", reason
        fact = ProjectFact(
            project.id, project.path, "paused", project.dev, project.ino, project.generation, project.added,
            project.baseline_end, reason,
        )  # fmt: skip
        self.store.log.append([fact])

    def resume(self) -> None:
        """Watch again; the time between is a recorded gap. Runs in the thread."""
        if self.health.state == "paused":
            self._attach(self.record())

    # looking

    def _look(self) -> int | None:
        """Take what the observer has, and capture what is due."""
        assert self.observer is not None and self.reconciler is not None
        self._woken.clear()
        changes = self.observer.drain()
        if self.observer.root_gone:
            self._check_root()  # what was drained tells of another directory; all is compared, or nothing is there
            return None
        self.capture.open()
        try:
            self.reconciler.take(changes)
            self._count_overflow()
            changed = self.reconciler.rules.changed_outside()
            if changed or self._must_rescan or self.now() >= self._next_rescan:
                self._rescan()
            due = self.reconciler.run(everything=False)
            self._count_overflow()
            self._note()
            return self.now() if self._must_rescan else due
        finally:
            self.capture.close()

    def _rescan(self) -> None:
        assert self.observer is not None and self.reconciler is not None
        while True:
            self._must_rescan = False
            started = self.now()
            self.health.rescans += 1
            self.reconciler.rules.hidden.begin()
            self.reconciler.everything()
            self.reconciler.take(self.observer.drain())
            self._count_overflow()
            if not self._must_rescan:
                break
        self.health.last_error = ""
        self._after_rescan((self.now() - started) / NANOSECONDS)
        self.give_back_later(self.record().files)

    def _count_overflow(self) -> None:
        """An overflow was taken, by whoever drained: the tree is to be compared as a whole."""
        assert self.reconciler is not None
        if self.reconciler.overflowed:
            self.reconciler.overflowed = False
            self.health.overflows += 1
            self._must_rescan = True

    def _after_rescan(self, took_seconds: float) -> None:
        self._note()
        unwatched = self.observer is not None and bool(self.observer.limit_reached)
        self._next_rescan = next_rescan(self.now(), took_seconds, unwatched=unwatched)

    def _on_rows(self, rows: list[Row]) -> None:
        now = self.now()
        self.health.last_capture = now
        for row in rows:
            if not row.flags & _NOT_TOLD:
                self.health.latencies.append(now - row.at)
        self.on_attribution(rows)
        self.bus.publish("capture", project=os.fsdecode(self.root), paths=len(rows))

    def require_watching(self) -> None:
        """Raise what stands in the way of a checkpoint or a restore, if anything does. Runs in the thread."""
        self.health.require_watching(os.fsdecode(self.root))

    def sync(self) -> None:
        """When this returns, every change that happened before it was called is captured. Runs in the thread."""
        self.capture_errors(self._check_root)
        self.require_watching()
        assert self.observer is not None and self.reconciler is not None
        self.store.require_writable()
        try:
            self._reconcile_all()
        except (MulliganError, OSError):
            self._must_rescan = True  # what was taken from the observer may be in no batch
            raise

    def _reconcile_all(self) -> None:
        assert self.observer is not None and self.reconciler is not None
        self.capture.open()
        whole = self.observer.barrier(_BARRIER_SECONDS)
        changes = self.observer.drain()
        if self.observer.root_gone:
            self.capture.close()
            self._check_root()
            self.require_watching()
            self.capture.open()
            changes, whole = self.observer.drain(), True
        self.reconciler.take(changes)
        self._count_overflow()
        changed = self.reconciler.rules.changed_outside()
        if changed or not whole or self._must_rescan or self.observer.limit_reached:
            self._rescan()
        self.reconciler.run(everything=True)
        self._count_overflow()  # later than the barrier: the next look's
        self._note()

    def _note(self) -> None:
        """What `status` shows of the parts."""
        if self.observer is not None and self.reconciler is not None:
            self.health.backlog, self.health.limit = self.reconciler.backlog, self.observer.limit_reached
            self.health.hidden = self.reconciler.rules.hidden.summary()

    def compare_soon(self) -> None:
        """Look at everything that may be other than the journal says. Runs in the thread."""
        self._must_rescan = True

    def set_limits(self, limits: Limits) -> None:
        """What is left out for its size from now on; what was left out until now is looked at again."""
        if limits.max_file_bytes != self._limits.max_file_bytes:
            self._limits.max_file_bytes = limits.max_file_bytes
            self._must_rescan = True

    def judge_anew(self, change: Callable[[IgnoreRules], object]) -> None:
        """What the rules were given is to be another: the tree is judged anew. Runs in the thread."""
        if self.reconciler is not None and self.health.state == "watching":
            self.reconciler.judge_anew(change)
        elif self.reconciler is not None:
            change(self.reconciler.rules)

    def settle(self, done: list[bytes]) -> None:
        """After an operation of our own: its events are not news, unless somebody wrote as well. Runs in the thread."""
        if self.observer is not None and self.reconciler is not None:
            self.observer.barrier(_BARRIER_SECONDS)
            self.reconciler.settled(self.observer.drain(), done)
            self._count_overflow()

    # checkpoints

    def checkpoint(self, request: Request) -> Checkpoint | None:
        """Take a checkpoint; None if its condition does not hold. Runs in the thread."""
        self.sync()
        return self.commit_checkpoint(request)

    def commit_checkpoint(self, request: Request, facts: Sequence[AnyFact] = ()) -> Checkpoint | None:
        """Place and commit a checkpoint, after `sync`, in one batch with `facts`. Runs in the thread."""
        catalogue = self.store.catalogue()
        project = self.record()
        if request.event_key and catalogue.event_taken(project.id, request.event_key):
            return None
        if request.parent is None:
            request = replace(request, parent=catalogue.current(project.id))
        cut = request.cut or Cut(project.last_seq, request.moment)
        made = make_checkpoint(catalogue, project, request, cut, self.now(), lambda: gitinfo.read_git(self.root))
        if made is None:
            return None
        point("checkpoint.before_commit")
        batch: list[AnyFact] = [*facts, CheckpointFact(made)]
        if request.make_current:
            batch.append(CurrentFact(project.id, "", made.id))
            if made.session:
                batch.append(CurrentFact(project.id, made.session, made.id))
        self.store.log.append(batch)
        point("checkpoint.committed")
        self.bus.publish(
            "checkpoint", project=os.fsdecode(self.root), id=made.id, ordinal=made.ordinal, trigger=made.trigger
        )
        return made
