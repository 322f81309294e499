"""What handlers work with: the parts of the running daemon, and the call that is being answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mulligan.config import Config
from mulligan.control.library import Library
from mulligan.errors import NotFoundError, RefusedError
from mulligan.events import Bus
from mulligan.paths import Places
from mulligan.project.integrity import Integrity
from mulligan.project.naming import Names
from mulligan.project.registry import Registry
from mulligan.project.settings import Settings
from mulligan.project.space import Space
from mulligan.project.worker import ProjectWorker
from mulligan.store.search_index import budget_of
from mulligan.store.state import StateDatabase
from mulligan.store.store import Store
from mulligan.taskstate.store import TaskStates


@dataclass(slots=True)
class Services:
    """The parts of one daemon. `stop` and `reload` may be called from any thread."""

    store: Store
    registry: Registry
    settings: Settings
    state: StateDatabase
    states: TaskStates
    integrity: Integrity
    bus: Bus
    places: Places
    config: Callable[[], Config]
    claude_config_dirs: list[str]
    started: int
    space: Space
    default_budget: int
    stop: Callable[[], None]
    reload: Callable[[], None]
    track: Callable[[str, str, str], dict[str, Any]] = lambda _session, _project, _line: {}
    forget: Callable[[str], bool] = lambda _session: False
    deliver_hook: Callable[[str, str, str | None, int], str] = lambda _agent, _event, _input, _sent: ""
    hook_counts: Callable[[], dict[str, Any]] = dict
    transcript_counts: Callable[[], dict[str, Any]] = dict
    found_projects: Callable[[], list[dict[str, Any]]] = list
    #: Bytes a day, as `store.usage` found them last; None if it was never asked, or there is too little history.
    growth: int | None = None

    @property
    def budget(self) -> int:
        """What the store may take (bytes)."""
        return self.config().budget_bytes or self.default_budget

    @property
    def index_budget(self) -> int:
        """What the search index may take of the store's budget (bytes)."""
        return budget_of(self.budget)

    def library(self, project: int) -> Library:
        """What questions about a project's past are answered from, in the calling thread; 0: those about the store."""
        store = self.store
        return Library(store.directory, store.catalogue(), store.contents, project, self.index_budget)


@dataclass(slots=True)
class Call:
    """One request: the services, and how to tell the caller how far it is."""

    services: Services
    progress: Callable[..., None]

    def worker(self, project: str) -> ProjectWorker:
        """The worker of the project that holds a path. Raises NotFoundError."""
        return self.services.registry.find(project)

    def names(self, worker: ProjectWorker) -> Names:
        """The names of a project's positions, as of now."""
        return Names(self.services.store.catalogue(), worker.record(), self.services.store.clock.now())

    def library(self, worker: ProjectWorker) -> Library:
        """What questions about a project's past are answered from."""
        return self.services.library(worker.project_id)

    def look(self, worker: ProjectWorker) -> None:
        """Capture what happened until now; a project that is not watched (yet) is asked about as it is stored."""
        if worker.health.state != "watching":
            return
        try:
            worker.call(worker.sync).result()
        except (NotFoundError, RefusedError):
            if worker.health.state == "watching":
                raise
