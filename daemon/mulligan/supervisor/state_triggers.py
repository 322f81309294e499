"""What makes sure of task states without being asked: each Nth prompt, each compaction; old versions are forgotten."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from mulligan.clock import NANOSECONDS
from mulligan.errors import MulliganError
from mulligan.project.worker import ProjectWorker
from mulligan.session.events import Compaction, RecordPrompt, SessionCommand
from mulligan.store.store import Store
from mulligan.taskstate.store import TaskStates

log = logging.getLogger(__name__)
#: Lines come late, by seconds while the daemon runs, and while it does not run nothing is saved: a checkpoint of a
#: moment that is not longer ago than this may still be made.
_LATE = 900 * NANOSECONDS


class StateTriggers:
    """Told of what sessions' lines led to. A state that cannot be written keeps nothing else from going on."""

    def __init__(self, states: TaskStates, store: Store) -> None:
        self._states, self._store = states, store
        self._told = ""

    def observe(self, worker: ProjectWorker, commands: Sequence[SessionCommand]) -> None:
        """Commands were executed, perhaps for the second time, which changes nothing."""
        try:
            for command in commands:
                if isinstance(command, RecordPrompt):
                    self._states.prompted(command.session, worker.root, command.ordinal)
                elif isinstance(command, Compaction):
                    self._states.compacted(command.session, worker.root, self._checkpoint(worker, command))
            self._told = ""
        except MulliganError as error:
            if self._told != error.message:
                self._told = error.message
                log.warning("project %s: the task state is not kept: %s", os.fsdecode(worker.root), error.message)

    def _checkpoint(self, worker: ProjectWorker, command: Compaction) -> str:
        """The one that the compaction led to, else where the session stands; "" if there is none."""
        catalogue, project = self._store.catalogue(), worker.project_id
        taken = catalogue.checkpoints("project = ? and event_key = ?", (project, command.key), 1)
        return taken[0].id if taken else catalogue.current(project, command.session) or catalogue.current(project)

    def drop_versions(self) -> None:
        """Forget what a state was when no checkpoint of its project and no prompt of its session lies there.

        A store that does not know all of its checkpoints, or not of the project, is no reason to forget anything.
        """
        if self._store.damage:
            return
        try:
            dropped = self._states.drop_versions(self._referring, self._store.clock.now() - _LATE)
        except MulliganError as error:
            log.warning("old versions of task states stay: %s", error.message)
        else:
            log.debug("%d old versions of task states were dropped", dropped)

    def _referring(self, session: str, project: bytes) -> list[int] | None:
        db = self._store.catalogue().db
        if db.execute("select 1 from project where path = ?", (project,)).fetchone() is None:
            return None
        cursor = db.execute(
            "select timestamp from checkpoint where project in (select id from project where path = ?)"
            " union select moment from prompt where session = ? order by 1",
            (project, session),
        )
        return [int(moment) for (moment,) in cursor]
