"""Making the disk equal to a plan: everything is prepared and checked first, then each path changes in one rename.

The order is: begin logged, everything staged and durable, staged logged, steps taken, result durable and read back.
Until "staged" is logged the tree is untouched; from then on the plan is finished, after a crash by `recovery`. The
caller writes "done" with the rows of the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from mulligan import faults
from mulligan.errors import MulliganError
from mulligan.restore.plan import Outcome, Plan
from mulligan.restore.run import VERY_MANY, Booked, Run, Stager, never
from mulligan.restore.stage import Contents, open_stage
from mulligan.restore.swap import Capture
from mulligan.restore.tree import Tree, split


class OperationLog(Protocol):
    """The operation's records; each call returns when its record is durable."""

    def begin(self, plan: Plan) -> None:
        """The plan is about to be prepared: nothing was touched."""

    def staged(self) -> None:
        """Everything is prepared: from here on the plan is carried out, whatever happens."""


def apply(
    root: bytes,
    plan: Plan,
    contents: Contents,
    *,
    operation: str,
    staging: bytes | None,
    log: OperationLog,
    capture: Capture,
    force: bool = False,
    identity: tuple[int, int] | None = None,
    now: Callable[[], int] = never,
    stager: Stager | None = None,
    booked: Booked | None = None,
    origin: bytes = b"",
) -> Outcome:
    """Carry out a plan below `root` (absolute); `staging` is the directory in the store for stages.

    `stager` stages thousands of files elsewhere than in this process; `booked` gets most of what is done as it goes;
    `origin` is a tree whose files may share their blocks with those that are made.

    Raises IntegrityError if the store cannot give a content (`data["paths"]`), and MulliganError if there is no room or
    no place to prepare: then nothing was touched. With `force` damaged paths are left out, and versions that nobody
    expected are captured and replaced. After "staged" nothing is raised: what could not be done is listed.
    """
    plan = msgspec.structs.replace(plan, force=force)
    for step in plan.steps():
        split(step.path)
    with Tree(root, identity) as tree, _started(stager, plan) as ready:
        log.begin(plan)
        faults.point("restore.begin")
        stage = open_stage(tree, staging, operation)
        run = Run(tree, stage, plan, contents, capture, resumed=False)
        run.stager = ready
        run.booked = booked or run.booked
        run.origin = origin
        try:
            run.prepare()
            log.staged()
        except (MulliganError, OSError) as error:
            stage.clear()
            stage.remove()
            if isinstance(error, MulliganError):
                raise
            raise MulliganError(
                f"cannot prepare the files: {error.strerror}; nothing was changed", hint="make room and try again"
            ) from error
        faults.point("restore.staged")
        return run.finish(now)


@contextmanager
def _started(stager: Stager | None, plan: Plan) -> Iterator[Stager | None]:
    """The stager while a plan is applied that is big enough for it: it gets ready while the plan is logged."""
    if stager is None or len(plan.write) < VERY_MANY:
        yield None
        return
    stager.start()
    try:
        yield stager
    finally:
        stager.stop()


__all__ = ["Capture", "Contents", "OperationLog", "apply", "never"]
