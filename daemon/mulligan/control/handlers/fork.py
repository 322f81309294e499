"""checkpoint.fork: a branch of files, conversation and task state, in a directory of its own or in place."""

from __future__ import annotations

import os
from typing import Any

from mulligan.control.carried_state import brought_to_fork, carried, planned_for_fork
from mulligan.control.handlers.project import wait_until_watching
from mulligan.control.handlers.restore import copied
from mulligan.control.methods import Params, method
from mulligan.control.objects import checkpoint_object, conversation_object, resume_object, show_path
from mulligan.control.operations import outcome_fields, plan_object, refuse
from mulligan.control.services import Call
from mulligan.errors import UsageError
from mulligan.project.checkpoints import Request
from mulligan.project.conversation import Conversation, bring, prepare
from mulligan.project.forking import Layout, directory_for, lay_out, layout, record_branch
from mulligan.project.naming import Position
from mulligan.project.restoring import Restorer, Result
from mulligan.project.worker import ProjectWorker
from mulligan.restore.plan import Outcome
from mulligan.watch.derived import VCS_DIRECTORIES


class ForkParams(Params, frozen=True, kw_only=True):
    """`into` is an absolute path; without it the directory is made beside the project, and named by it and `name`.

    `in_place` restores the project itself instead, and needs `confirmed`; `force` is as in a restore.
    """

    project: str
    id: str
    session: str = ""
    into: str = ""
    in_place: bool = False
    name: str = ""
    dry_run: bool = False
    confirmed: bool = False
    force: bool = False


@method("checkpoint.fork", ForkParams)
def fork(call: Call, params: ForkParams) -> dict[str, Any]:
    """Branch off at a checkpoint: its files, and a conversation that goes on from there with the task state of then."""
    if params.into and params.in_place:
        raise UsageError("a fork goes into a directory or stays in place", hint="give --into or --in-place")
    if params.into and (not os.path.isabs(params.into) or "\0" in params.into):
        raise UsageError("the directory of a fork is not an absolute path", hint="give --into DIR")
    worker = call.worker(params.project)
    if worker.health.state == "watching":  # of a project that is gone the store has everything all the same
        worker.call(worker.sync).result()
    names = call.names(worker)
    session = names.session(params.session) if params.session else ""
    position = names.position(params.id, session)
    title = params.name or f"fork of {position.label}"
    if params.in_place:
        answer = _in_place(call, worker, position, params, session, copied(call, worker, position, session, title))
    else:
        answer = _into_directory(call, worker, position, params, session, title)
    if not params.dry_run:
        project, directory = show_path(worker.root), answer["directory"]
        call.services.bus.publish("fork", project=project, directory=directory, session=answer["session_id"])
    return answer


def _into_directory(
    call: Call, worker: ProjectWorker, position: Position, params: ForkParams, session: str, title: str
) -> dict[str, Any]:
    store = call.services.store
    place = directory_for(worker.root, position, params.into, params.name)
    call.services.registry.require_allowed(place)
    root, directory = show_path(worker.root), show_path(place)
    conversation = prepare(store, position, session, title, directory=directory, moved_from=root)
    state_then = carried(call, worker, position, session)
    made = layout(store, worker.project_id, position.cut)
    if params.dry_run:
        warnings = [*_missing(made, None), *_absent(worker, made, conversation)]
        answer = _answer(worker, position, params, conversation, place, made, warnings)
        return answer | planned_for_fork(state_then, conversation)
    outcome = lay_out(store, made, place, worker.root)
    forked = call.services.registry.add(os.fsdecode(place))
    wait_until_watching(call, forked)
    conversation = bring(conversation, store, forked.project_id, store.catalogue().current(forked.project_id))
    description = params.name or f"fork into {show_path(place)}"
    branch = worker.call(lambda: record_branch(worker, position, _new_session(conversation), description)).result()
    missing = _missing(made, outcome)
    warnings = [*missing, *_absent(worker, made, conversation)]
    answer = _answer(worker, position, params, conversation, place, made, warnings)
    answer |= {"checkpoint": checkpoint_object(branch, worker.root)}
    answer |= {"exit_status": 3} if missing or conversation.refused else {}
    return answer | brought_to_fork(call, state_then, conversation, forked.root, warnings)


def _in_place(
    call: Call,
    worker: ProjectWorker,
    position: Position,
    params: ForkParams,
    session: str,
    conversation: Conversation,
) -> dict[str, Any]:
    restorer = Restorer(worker)

    def run() -> Result:
        if params.dry_run or not params.confirmed:
            return Result(restorer.plan_for(position, force=params.force))
        return restorer.restore(position, (), conversation.source, force=params.force)

    result = worker.call(run).result()
    if not params.dry_run and not params.confirmed:
        raise refuse(plan_object(result.plan), "the fork")
    fields = outcome_fields(result)
    if params.dry_run:
        warnings = fields["warnings"] + _why_none(conversation)
        answer = _answer(worker, position, params, conversation, worker.root, None, warnings)
        state_then = carried(call, worker, position, session)
        return answer | {"plan": fields["plan"]} | planned_for_fork(state_then, conversation)
    parent = result.after or position.checkpoint
    assert parent is not None  # what is no checkpoint of its own becomes one
    conversation = bring(conversation, call.services.store, worker.project_id, parent.id)
    description = params.name or f"fork of {position.label}"
    request = Request("fork", _new_session(conversation), description, parent=parent.id)
    branch = worker.call(lambda: worker.checkpoint(request)).result()
    assert branch is not None  # no condition was given
    warnings = fields["warnings"] + _why_none(conversation)
    answer = _answer(worker, position, params, conversation, worker.root, None, warnings)
    status = {"exit_status": 3} if conversation.refused else {}
    answer |= {"checkpoint": checkpoint_object(branch, worker.root), **status}
    state_then = carried(call, worker, position, session)
    return fields | answer | brought_to_fork(call, state_then, conversation, worker.root, warnings)


def _answer(
    worker: ProjectWorker,
    position: Position,
    params: ForkParams,
    conversation: Conversation,
    directory: bytes,
    made: Layout | None,
    warnings: list[str],
) -> dict[str, Any]:
    target = position.checkpoint
    return {
        "checkpoint": checkpoint_object(target, worker.root) if target else None,
        "position": position.label,
        "session_id": None if params.dry_run else _new_session(conversation) or None,
        "directory": show_path(directory),
        "resume": None if params.dry_run else resume_object(conversation),
        "conversation": conversation_object(conversation),
        "warnings": warnings,
        **({"files_processed": made.files} if made else {}),
    }


def _new_session(conversation: Conversation) -> str:
    return conversation.session if conversation.there else ""


def _why_none(conversation: Conversation) -> list[str]:
    return [conversation.without()] if conversation.without() else []


def _missing(made: Layout, outcome: Outcome | None) -> list[str]:
    """What should be in the directory and is not, each with its reason."""
    failed = [*made.missing]
    if outcome is not None:
        failed += [*outcome.skipped, *outcome.kept, *((path, "it is not what was written") for path in outcome.differs)]
    return [f"{show_path(path)}: {reason}" for path, reason in failed]


def _absent(worker: ProjectWorker, made: Layout, conversation: Conversation) -> list[str]:
    """What a fork does not have by its nature, and what the agent does not know."""
    ignored = worker.health.hidden.ignored
    names = [os.fsdecode(name) for name in sorted(VCS_DIRECTORIES) if os.path.lexists(os.path.join(worker.root, name))]
    said = _why_none(conversation) + [f"{show_path(path)}: a special file is not copied" for path in made.special]
    if names or ignored:
        left = [*names, *([f"{ignored:,} ignored entries"] if ignored else [])]
        said.append(f"not in it, because it is not captured: {', '.join(left)}")
    if conversation.there:
        said.append(f"the conversation speaks of files in {show_path(worker.root)}: tell the agent where it works now")
    return said
