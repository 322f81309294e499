"""The exact moment before something: what happened until now is captured, and where the journal stands is said.

Whoever waits for it waits only so long. What comes too late is done all the same, and is not exact: by then it may have
begun.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as TookTooLong

from mulligan.clock import NANOSECONDS
from mulligan.errors import MulliganError
from mulligan.project.execute import look_at
from mulligan.project.worker import ProjectWorker
from mulligan.session.events import Exact

#: (journal time, where the journal stood; None if the moment is not exact)
Told = Callable[[int, Exact | None], None]


def steady() -> int:
    """CLOCK_MONOTONIC in nanoseconds: the same for all processes, and no time of day."""
    return time.monotonic_ns()


def guard(worker: ProjectWorker, paths: Sequence[bytes], deadline: int, told: Told) -> None:
    """Capture what happened until now, of ignored files those named by `paths` too; returns by the deadline.

    `told` is called once, in the project's thread, and before this returns if all was done by the deadline.
    """

    def run() -> None:
        exact = _exact(worker, paths)
        told(worker.now(), exact if steady() <= deadline else None)

    done = worker.call(run)
    try:
        done.result(max(0.0, (deadline - steady()) / NANOSECONDS))
    except TookTooLong:
        return


def _exact(worker: ProjectWorker, paths: Sequence[bytes]) -> Exact | None:
    """Where the journal stands behind a barrier; None if the project is not watched, or cannot be captured."""
    if worker.health.state != "watching":
        return None
    try:
        look_at(worker, paths)
        worker.sync()
    except (MulliganError, OSError):
        return None
    return Exact(worker.project_id, worker.record().last_seq)
