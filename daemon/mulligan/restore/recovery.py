"""Finishing an operation that a crash interrupted.

Before "staged" was logged nothing was touched: the stage is thrown away. After it the plan is carried out from the
store: a path that has its target is done, one that is as before is changed, anything else is kept and listed. What lies
in the old stage is never a source, but a version in it that nobody knows is stored and given back. All of it may be
interrupted and repeated.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from mulligan.errors import MulliganError
from mulligan.model import Entry, Kind
from mulligan.restore import exchange
from mulligan.restore.plan import Outcome, Plan, Step, same
from mulligan.restore.run import Run, never
from mulligan.restore.stage import LEFT, NEW, Contents, Stage, discard, existing, open_stage, step_number
from mulligan.restore.swap import Capture, drop, store
from mulligan.restore.tree import Tree, look, split, status, why


def recover(
    root: bytes,
    plan: Plan,
    contents: Contents,
    *,
    operation: str,
    staging: bytes | None,
    staged: bool,
    capture: Capture,
    identity: tuple[int, int] | None = None,
    now: Callable[[], int] = never,
) -> Outcome:
    """Finish or roll back an operation by its logged plan; `staged` says whether that record was found.

    The caller writes "done" with the outcome's rows, or "rolled back". Raises MulliganError, with the operation still
    to be recovered, if there is no room to prepare the files or the root is not there.
    """
    with Tree(root, identity) as tree:
        captured: list[tuple[bytes, Entry]] = []
        steps = list(plan.steps())
        for step in steps:
            split(step.path)
        for stage in existing(tree, staging, operation):
            try:
                if staged:
                    for name in stage.names():
                        _settle(tree, stage, name, steps, plan, capture, captured)
                else:
                    stage.clear()
            finally:
                stage.remove()
        if not staged:
            return Outcome(rolled_back=True)
        run = Run(tree, open_stage(tree, staging, operation, again=True), plan, contents, capture, resumed=True)
        run.swapper.captured += captured
        try:
            run.prepare()
        except OSError as error:
            run.stage.remove()
            raise MulliganError(
                f"an interrupted restore cannot be finished: {error.strerror}", hint="make room and restart the daemon"
            ) from error
        return run.finish(now)


def _settle(
    tree: Tree,
    stage: Stage,
    mine: bytes,
    steps: list[Step],
    plan: Plan,
    capture: Capture,
    captured: list[tuple[bytes, Entry]],
) -> None:
    """Clear one file away that the interrupted run left; a version that cannot be stored gets a name of its own."""
    number = step_number(mine)
    if number is None or number >= len(steps) or mine.endswith(NEW):
        discard(stage.fd, mine)
        return
    step, entry = steps[number], look(stage.fd, mine)
    known = [step.expected, step.target]
    foreign = entry.there and entry.kind != Kind.DIR and not any(same(entry, other) for other in known)
    if foreign and not plan.force and step.expected.kind != Kind.UNKNOWN and not mine.endswith(LEFT):
        stored = store(stage.fd, mine, step.path, entry, capture)
        if stored.kind != Kind.UNKNOWN:
            captured.append((step.path, stored))
            known.append(stored)
        if _give_back(tree, stage, mine, step):
            return
    try:
        reason = drop(stage.fd, mine, step.path, known, capture, captured)
    except OSError as error:
        reason = why(error)
    if reason and not mine.endswith(LEFT):
        os.rename(mine, mine + LEFT, src_dir_fd=stage.fd, dst_dir_fd=stage.fd)


def _give_back(tree: Tree, stage: Stage, mine: bytes, step: Step) -> bool:
    """Undo a swap that took out a version which the plan did not expect; whether nothing is left in the stage."""
    try:
        directory, name = tree.parent(step.path)
    except OSError:
        return False
    try:
        if not same(look(directory, name), step.target):
            return False
        if status(directory, name) is None:
            exchange.move(stage.fd, mine, directory, name)
            return True
        stage.swap(mine, directory, name)
    except OSError:
        return False
    finally:
        tree.release(directory)
    return False
