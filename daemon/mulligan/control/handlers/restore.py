"""checkpoint.restore."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from mulligan.control.carried_state import restored_state
from mulligan.control.methods import Params, method
from mulligan.control.objects import checkpoint_object, conversation_object, resume_object, show_path
from mulligan.control.operations import group_object, outcome_fields, plan_object, refuse, side_effect_object
from mulligan.control.scope import chosen_paths
from mulligan.control.services import Call
from mulligan.errors import NotFoundError, RefusedError, UsageError
from mulligan.project.authors import group
from mulligan.project.checkpoints import Request
from mulligan.project.conversation import Conversation, bring, prepare
from mulligan.project.naming import Position
from mulligan.project.quiet import sessions_at_work, wait_for_quiet
from mulligan.project.restoring import Restorer, Result
from mulligan.project.reverting import Reverter
from mulligan.project.selection import of_session
from mulligan.project.side_effects import side_effects_since, stood_at
from mulligan.project.worker import ProjectWorker
from mulligan.restore.plan import Plan
from mulligan.session_ids import short_session

#: How a warning of the ledger begins.
NOT_UNDONE = "no restore undoes: "


class RestoreParams(Params, frozen=True, kw_only=True):
    """`dry_run` gives the plan alone; anything else needs `confirmed`. No `paths` means the whole tree.

    `keep_others`: take back only what the session's calls have changed since then.
    `conversation` also copies the conversation up to there, `conversation_only` leaves the files alone. `state` brings
    the task state of then too: to the copied conversation's session if there is one, else to the one it was of.
    `wait_seconds`: how long to wait for sessions that are at work; with `force` nobody is waited for, and nobody ever
    waits for `caller`, the session that asks by a call of its own.
    `plan_digest`: of a dry run; if what is to be done is not what that told of, nothing is.
    """

    project: str
    id: str
    session: str = ""
    paths: tuple[str, ...] = ()
    paths_b64: tuple[str, ...] = ()
    dry_run: bool = False
    confirmed: bool = False
    force: bool = False
    keep_others: bool = False
    conversation: bool = False
    conversation_only: bool = False
    state: bool = False
    wait_seconds: Annotated[float, Meta(ge=0, le=86400)] = 10.0
    caller: str = ""
    plan_digest: str = ""


def copied(call: Call, worker: ProjectWorker, position: Position, session: str, title: str = "") -> Conversation:
    """The conversation of a position, copied in memory for the project's own directory."""
    root, title = show_path(worker.root), title or f"back to {position.label}"
    return prepare(call.services.store, position, session, title, directory=root, moved_from=root)


def _conversation_only(call: Call, worker: ProjectWorker, position: Position, params: RestoreParams) -> dict[str, Any]:
    """The files stay as they are; a checkpoint says where the project was left."""
    if params.paths or params.paths_b64 or params.conversation:
        raise UsageError("a conversation alone has no paths", hint="--conversation brings files and conversation")
    names = call.names(worker)
    conversation = copied(call, worker, position, params.session and names.session(params.session))
    _require(conversation)
    if not params.dry_run and not params.confirmed:
        raise refuse(plan_object(Plan()), "the restore")
    target, before = position.checkpoint, None
    if not params.dry_run:
        description = f"before the conversation of {position.label}"
        request = Request("pre_restore", conversation.source, description, make_current=False)
        before = worker.call(lambda: worker.checkpoint(request)).result()
        assert before is not None
        conversation = bring(conversation, call.services.store, worker.project_id, (target or before).id)
        _require(conversation)
    answer: dict[str, Any] = {
        "checkpoint": checkpoint_object(target, worker.root) if target else None,
        "position": position.label,
        "files_processed": 0,
        "plan": plan_object(Plan()),
        "operation_id": None,
        "pre_restore_checkpoint_id": before.id if before else None,
        "conversation": conversation_object(conversation),
        "resume": None if params.dry_run else resume_object(conversation),
        "warnings": [],
    }
    if params.state:
        answer |= restored_state(
            call, worker, position, conversation.source, conversation, answer["warnings"], done=before is not None
        )
    return answer


def _require(conversation: Conversation) -> None:
    if conversation.refused:
        raise RefusedError(conversation.without(), hint="mulligan restore without it brings the files")
    if not conversation.there:
        raise NotFoundError(conversation.without(), hint="mulligan list")


@method("checkpoint.restore", RestoreParams)
def restore(call: Call, params: RestoreParams) -> dict[str, Any]:
    """Make the working tree, or some paths of it, equal to a checkpoint; on request bring the conversation too."""
    worker = call.worker(params.project)
    names = call.names(worker)
    session = names.session(params.session)
    position = names.position(params.id, params.session and session)
    if params.conversation_only:
        return _conversation_only(call, worker, position, params)
    paths = chosen_paths(call, worker, params.paths, params.paths_b64).paths
    effects = side_effects_since(call.services.store.catalogue(), worker.project_id, stood_at(position))
    if params.confirmed and not params.dry_run and not params.force:
        wait_for_quiet(worker, params.wait_seconds, params.caller)
    conversation = copied(call, worker, position, params.session and session) if params.conversation else None
    made: dict[bytes, bytes] = {}
    if params.keep_others:
        session = (params.session and session) or (position.checkpoint and position.checkpoint.session) or session
        result, made = _without_others(call, worker, position, paths, session, params)
    else:
        restorer = Restorer(worker, params.plan_digest)

        def run() -> Result:
            if params.dry_run or not params.confirmed:
                return Result(restorer.plan_for(position, paths, force=params.force))
            return restorer.restore(position, paths, session, force=params.force)

        result = worker.call(run).result()
    fields = outcome_fields(result)
    if result.outcome is None:
        fields["warnings"] = fields["warnings"] + _damaged(call, result.plan)
        fields["plan"]["groups"] = _groups(call, worker, position, result.plan, session, made, alone=params.keep_others)
    if not params.dry_run and not params.confirmed:
        raise refuse(fields["plan"], "the restore")
    target = position.checkpoint or result.after
    if result.operation:
        worker.health.alarms.settle()
        call.services.bus.publish("restore", project=show_path(worker.root), operation=result.operation)
    answer = {
        "checkpoint": checkpoint_object(target, worker.root) if target else None,
        "position": position.label,
        "files_processed": 0,
        "resume": None,
        "conversation": None,
        **fields,
        "warnings": fields["warnings"] + [f"{NOT_UNDONE}{effect.command}" for effect in effects],
        "side_effects": [side_effect_object(effect) for effect in effects],
    }
    if params.dry_run and not params.force:
        busy = [short_session(session) for session in sessions_at_work(worker, caller=params.caller)]
        answer["warnings"] += [f"session {name} is at work: the restore waits for a pause" for name in busy]
    if conversation is not None:
        current = result.after or position.checkpoint
        if current is not None and result.operation:
            conversation = bring(conversation, call.services.store, worker.project_id, current.id)
        answer |= _conversation_fields(conversation, answer["warnings"], done=bool(result.operation))
    if params.state:
        named = params.session and names.session(params.session)
        operation, warnings = result.operation, answer["warnings"]
        answer |= restored_state(call, worker, position, named, conversation, warnings, operation, done=bool(operation))
    return answer


def _damaged(call: Call, plan: Plan) -> list[str]:
    """What a plan cannot bring back, as far as it is known; a restore that needs one of these paths refuses."""
    marks = call.services.integrity.damage.marks()
    steps = plan.steps() if marks else ()
    return [
        f"{show_path(step.path)}: its stored content is damaged; mulligan verify --repair may heal it"
        for step in steps
        if step.target.hash in marks
    ]


def _conversation_fields(conversation: Conversation, warnings: list[str], *, done: bool) -> dict[str, Any]:
    """What a conversation adds to the answer: the files are restored, so that a refusal is only the exit status."""
    why = conversation.without()
    return {
        "conversation": conversation_object(conversation),
        "resume": resume_object(conversation) if done else None,
        "warnings": [*warnings, *([why] if why else [])],
        **({"exit_status": 3} if done and conversation.refused else {}),
    }


def _without_others(
    call: Call, worker: ProjectWorker, position: Position, paths: frozenset[bytes], session: str, params: RestoreParams
) -> tuple[Result, dict[bytes, bytes]]:
    """Take back what a session's calls have changed since a position; what cannot be merged is skipped.

    Besides the contents that merging made.
    """
    if not session:
        raise NotFoundError("no agent's session has worked in this project", hint="mulligan session list")
    catalogue = call.services.store.catalogue()
    selection = of_session(catalogue, worker.project_id, session, position.cut, paths)
    reverter = Reverter(worker, params.plan_digest)
    if params.dry_run or not params.confirmed:
        worker.call(worker.sync).result()
        prepared = reverter.prepare(selection, partial=True, force=params.force)
        return Result(prepared.plan), prepared.made
    prepared, result = reverter.revert(selection, "restore", position, session, partial=True, force=params.force)
    assert result is not None
    return result, prepared.made


def _groups(
    call: Call,
    worker: ProjectWorker,
    position: Position,
    plan: Plan,
    session: str,
    made: dict[bytes, bytes],
    *,
    alone: bool,
) -> list[dict[str, Any]]:
    """The parts of a plan by who made the changes that it takes away."""
    store = call.services.store

    def read(digest: bytes) -> bytes:
        return made[digest] if digest in made else store.contents.read(digest)

    found = group(store.catalogue(), worker.project_id, position.cut, plan, session, read, alone=alone)
    return [group_object(each) for each in found]
