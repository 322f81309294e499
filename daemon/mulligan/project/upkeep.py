"""Checkpoints that leave the timeline of a project: by a policy, or one by name. The journal keeps its rows.

Plans and commits run in the worker's thread, so no checkpoint is taken in between that would follow one that goes.
"""

from __future__ import annotations

import logging
import os

from mulligan.clock import NANOSECONDS
from mulligan.config import Config
from mulligan.errors import RefusedError
from mulligan.journal.retention import Forgotten, Policy, forget, without
from mulligan.model import Checkpoint
from mulligan.project.worker import ProjectWorker
from mulligan.store.records import AnyFact, CurrentFact, DeleteFact, MarkFact

log = logging.getLogger(__name__)


def configured(config: Config) -> Policy:
    """The policy of the configuration; it forgets nothing unless a key is set."""
    return Policy(
        keep_last=config.keep_last,
        keep_hourly=config.keep_hourly,
        keep_daily=config.keep_daily,
        keep_weekly=config.keep_weekly,
        max_age=(config.max_age or 0) * NANOSECONDS,
    )


def plan_cleanup(worker: ProjectWorker, policy: Policy) -> Forgotten:
    """What a policy takes out of the timeline."""
    return forget(_all(worker), _current(worker).values(), policy, worker.now())


def plan_delete(worker: ProjectWorker, made: Checkpoint) -> Forgotten:
    """One checkpoint taken out. Raises RefusedError for one that is pinned or where the project stands."""
    if made.pinned:
        raise RefusedError(f"checkpoint {made.ordinal} is pinned", hint=f"mulligan unpin {made.ordinal} first")
    if _current(worker).get("") == made.id:
        hint = "mulligan checkpoint or mulligan restore makes another one current"
        raise RefusedError(f"checkpoint {made.ordinal} is where the project stands", hint=hint)
    return without(_all(worker), [made.id])


def commit(worker: ProjectWorker, forgotten: Forgotten) -> None:
    """Take them out, in one batch: whoever reads the timeline sees it whole, before or after."""
    if not forgotten.removed:
        return
    gone, parents = set(forgotten.removed), {made.id: made.parent for made in _all(worker)}
    facts: list[AnyFact] = [MarkFact(made, parent=parent) for made, parent in forgotten.parents.items()]
    for session, current in _current(worker).items():
        if current in gone:
            while current in gone:
                current = parents.get(current, "")
            facts.append(CurrentFact(worker.project_id, session, current))
    worker.store.log.append([*facts, DeleteFact(worker.project_id, forgotten.removed)])
    for made in forgotten.removed:
        worker.bus.publish("checkpoint_changed", id=made, deleted=True)


def let_go(worker: ProjectWorker, names: list[str]) -> None:
    """Take some checkpoints out that may go, if they may still."""
    may_go = set(plan_cleanup(worker, Policy(keep_last=1)).removed)
    commit(worker, without(_all(worker), [name for name in names if name in may_go]))


def clean_up(worker: ProjectWorker, policy: Policy) -> None:
    """Plan and commit in one, as a timer asks for it."""
    forgotten = plan_cleanup(worker, policy)
    commit(worker, forgotten)
    if forgotten.removed:
        log.info("project %s: %d checkpoints forgotten", os.fsdecode(worker.root), len(forgotten.removed))


def _all(worker: ProjectWorker) -> list[Checkpoint]:
    return worker.store.catalogue().checkpoints("project = ?", (worker.project_id,))


def _current(worker: ProjectWorker) -> dict[str, str]:
    """Session ("" for the project) to its current checkpoint."""
    query = "select session, checkpoint from current where project = ?"
    return dict(worker.store.catalogue().db.execute(query, (worker.project_id,)))
