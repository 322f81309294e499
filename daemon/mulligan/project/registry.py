"""All projects of one daemon: which directory belongs to which, who watches it, what may not be watched."""

from __future__ import annotations

import fnmatch
import glob
import logging
import os
import threading
from collections.abc import Callable
from functools import partial

from mulligan.config import Config
from mulligan.errors import MulliganError, NotFoundError, RefusedError
from mulligan.events import Bus
from mulligan.journal.capture import Limits
from mulligan.paths import Places
from mulligan.project.restoring import Restorer
from mulligan.project.worker import ProjectWorker
from mulligan.store.catalogue import Project
from mulligan.store.records import ProjectFact
from mulligan.store.store import Store
from mulligan.watch.ignore import IgnoreRules
from mulligan.watch.observer import ObserverFactory
from mulligan.watch.scan import root_identity

log = logging.getLogger(__name__)
REMOVED, EXCLUDED = "removed", "excluded"
_RECOVERY_SECONDS = 300.0


def is_inside(path: bytes, directory: bytes) -> bool:
    """Whether a path is a directory or lies below it; both absolute and normal."""
    return path == directory or path.startswith(directory.rstrip(b"/") + b"/")


class Registry:
    """The projects and their workers; any thread. `budget` gives the bytes that a project may take, 0: any."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        config: Callable[[], Config],
        places: Places,
        make_observer: ObserverFactory,
        budget: Callable[[bytes], int] = lambda _root: 0,
    ) -> None:
        self._store, self._bus, self._config, self._make_observer = store, bus, config, make_observer
        self._budget = budget
        self._home = os.fsencode(os.path.realpath(places.home))
        # a restore would write over them, and what the daemon writes in a tree it captures it writes again
        self._own = [
            (os.fsencode(os.path.realpath(place)), what)
            for place, what in (
                (store.directory, "store"),
                (places.state_dir, "state directory"),
                (places.state_db, "settings"),
                (places.runtime_dir, "runtime directory"),
                (places.socket, "socket"),
            )
        ]
        self._workers: dict[bytes, ProjectWorker] = {}
        self._lock = threading.RLock()

    def start(self) -> None:
        """Watch every project that was watched before; returns when interrupted operations were finished."""
        for worker in self._begin_known():
            worker.recovered.wait(_RECOVERY_SECONDS)
        self.include()

    def _begin_known(self) -> list[ProjectWorker]:
        """Begin to watch what the journal knows and nobody says no to."""
        with self._lock:
            wanted = [
                project
                for project in self._store.catalogue().projects()
                if project.state not in (REMOVED, EXCLUDED)
                and project.path not in self._workers
                and not self._configured_out(project.path)
            ]
            for project in [project for project in wanted if self.refuse(project.path)]:
                log.warning("%s is not watched: %s", os.fsdecode(project.path), self.refuse(project.path))
                wanted.remove(project)
            # all are known before the first looks at its tree: the roots of the others are its boundaries
            workers = [self._make_worker(project) for project in wanted]
        for worker in workers:
            worker.start()
        return workers

    def reconfigure(self) -> None:
        """Do what another configuration says: its limits, and what it excludes and includes. May wait for workers."""
        limits = Limits(self._config().max_file_bytes)
        for worker in self.workers():
            if self._configured_out(worker.root):
                log.info("project %s is excluded by the configuration", os.fsdecode(worker.root))
                self._drop(worker)
                self._bus.publish("project", project=os.fsdecode(worker.root), state=EXCLUDED)
            else:
                worker.call(partial(worker.set_limits, limits))
                worker.call(partial(worker.judge_anew, self._leave_out_own))
        for worker in self._begin_known():
            self._tell_outer(worker.root)
        self.include()

    def set_budgets(self) -> None:
        """Let each project's budget be what configuration and settings say now."""
        for worker in self.workers():
            worker.capture.allowance.set_budget(self._budget(worker.root))

    def include(self) -> None:
        """Watch what the configuration names; a directory that cannot be watched is said in the log."""
        for path in self._config().directories("include", os.fsdecode(self._home)):
            for found in sorted(glob.glob(path)) if "*" in path else [path]:
                try:
                    if not self.excluded(os.fsencode(os.path.realpath(found))):
                        self.add(found)
                except MulliganError as error:
                    log.warning("include: %s", error.message)

    def stop(self) -> None:
        """End all workers."""
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            worker.stop()

    def workers(self) -> list[ProjectWorker]:
        """The workers, by path."""
        with self._lock:
            return [self._workers[path] for path in sorted(self._workers)]

    def _make_worker(self, project: Project) -> ProjectWorker:
        with self._lock:
            limits = Limits(self._config().max_file_bytes)
            worker = ProjectWorker(self._store, project, self._bus, limits, self._rules, self._make_observer)
            worker.capture.allowance.set_budget(self._budget(project.path))
            worker.recover = Restorer(worker).recover
            worker.nested = partial(self._nested, project.path)
            self._workers[project.path] = worker
        return worker

    def _rules(self, root: bytes) -> IgnoreRules:
        return IgnoreRules(root, boundaries=self._nested(root), exclude=self._config().own_files(), environ=os.environ)

    def _leave_out_own(self, rules: IgnoreRules) -> bool:
        return rules.set_excluded(self._config().own_files())

    def _nested(self, root: bytes) -> list[bytes]:
        """The roots of other projects below a root: they are theirs to capture."""
        with self._lock:
            return [path for path in self._workers if path != root and is_inside(path, root)]

    def _tell_outer(self, root: bytes) -> None:
        """The project around a root that came or went has to judge what lies there anew."""
        outer = self.holding(os.path.dirname(root))
        if outer is not None:
            outer.call(lambda: outer.judge_anew(lambda rules: rules.set_boundaries(self._nested(outer.root))))

    def holding(self, path: bytes) -> ProjectWorker | None:
        """The project that a path belongs to: the innermost root above it."""
        with self._lock:
            found = [root for root in self._workers if is_inside(path, root)]
            return self._workers[max(found, key=len)] if found else None

    def find(self, path: str) -> ProjectWorker:
        """The project that holds a directory. Raises NotFoundError with the command that adds one."""
        raw = os.fsencode(os.path.realpath(path))
        worker = self.holding(raw) or self.holding(os.fsencode(os.path.abspath(path)))
        if worker is None:
            raise NotFoundError(f"{path} is nobody's project", hint=f"mulligan project add {path}")
        return worker

    def by_id(self, project: int) -> ProjectWorker | None:
        """The worker of a project."""
        with self._lock:
            return next((worker for worker in self._workers.values() if worker.project_id == project), None)

    def refuse(self, root: bytes) -> str:
        """Why a directory may not be watched; "" if it may."""
        if root == b"/" or is_inside(self._home, root):
            return "it holds the home directory"
        for own, what in self._own:
            if is_inside(root, own):
                return f"it lies in mulligan's own {what}"
        return next((f"it holds mulligan's own {what}" for own, what in self._own if is_inside(own, root)), "")

    def excluded(self, root: bytes) -> bool:
        """Whether the configuration or an earlier `exclude` or `remove` says no to a directory, for ever."""
        text = os.fsdecode(root)
        if self._configured_out(root):
            return True
        return any(
            project.path == root or fnmatch.fnmatch(text, os.fsdecode(project.path))
            for project in self._store.catalogue().projects()
            if project.state in (REMOVED, EXCLUDED)
        )

    def _configured_out(self, root: bytes) -> bool:
        text = os.fsdecode(root)
        patterns = self._config().directories("exclude", os.fsdecode(self._home))
        return any(text == pattern or fnmatch.fnmatch(text, pattern) for pattern in patterns)

    def require_allowed(self, root: bytes) -> None:
        """Raise RefusedError if a directory may not be watched, whether it exists or not."""
        path = os.fsdecode(root)
        if reason := self.refuse(root):
            raise RefusedError(f"{path} is not watched: {reason}", hint="add a project's own directory")
        if self._configured_out(root):
            raise RefusedError(
                f"{path} is not watched: the configuration excludes it", hint="see exclude: in mulligan config path"
            )
        self._store.require_writable()

    def add(self, path: str) -> ProjectWorker:
        """Watch a directory; one that is watched already is returned. Raises NotFoundError, RefusedError."""
        root = os.fsencode(os.path.realpath(path))
        identity = root_identity(root)
        if identity is None:
            raise NotFoundError(f"{path} is not a directory", hint="give an existing directory")
        self.require_allowed(root)
        with self._lock:
            if root in self._workers:
                return self._workers[root]
            known = {project.path: project for project in self._store.catalogue().projects()}
            old = known.get(root)
            number = old.id if old else max((project.id for project in known.values()), default=0) + 1
            now = self._store.clock.now()
            fact = ProjectFact(
                number, root, "watching", *identity, old.generation if old else 1, old.added if old else now,
                old.baseline_end if old else 0,
            )  # fmt: skip
            self._store.log.append([fact])
            log.info("project %s added", os.fsdecode(root))
            worker = self._make_worker(self._store.catalogue().project(number))
            worker.start()
        self._tell_outer(root)
        return worker

    def archive(self, root: bytes, reason: str) -> ProjectWorker:
        """A project that is not watched and only holds what is put into it; one that is there already is returned."""
        self._store.require_writable()
        with self._lock:
            if root in self._workers:
                return self._workers[root]
            known = {project.path: project.id for project in self._store.catalogue().projects()}
            number = known.get(root, max(known.values(), default=0) + 1)
            now = self._store.clock.now()
            self._store.log.append([ProjectFact(number, root, "paused", 0, 0, 1, now, now, reason)])
            worker = self._make_worker(self._store.catalogue().project(number))
            worker.start()
        return worker

    def end(self, worker: ProjectWorker, state: str) -> None:
        """Stop watching a project for good (`removed`, `excluded`); what was captured stays."""
        project = worker.record()
        fact = ProjectFact(
            project.id, project.path, state, project.dev, project.ino, project.generation, project.added,
            project.baseline_end,
        )  # fmt: skip
        self._store.log.append([fact])
        self._drop(worker)
        self._bus.publish("project", project=os.fsdecode(project.path), state=state)

    def _drop(self, worker: ProjectWorker) -> None:
        with self._lock:
            self._workers.pop(worker.root, None)
        worker.stop()
        self._tell_outer(worker.root)

    def exclude(self, target: str) -> None:
        """Never watch a directory or what fits a glob."""
        root = os.fsencode(os.path.realpath(target) if os.path.isdir(target) else target)
        with self._lock:
            matching = [w for path, w in self._workers.items() if fnmatch.fnmatch(os.fsdecode(path), os.fsdecode(root))]
        for worker in matching:
            self.end(worker, EXCLUDED)
        known = self._store.catalogue().projects()
        if not any(project.path == root and project.state == EXCLUDED for project in known):
            number = max((project.id for project in known), default=0) + 1
            self._store.log.append([ProjectFact(number, root, EXCLUDED, 0, 0, 0, self._store.clock.now())])
