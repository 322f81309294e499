"""What restores, reverts, rescues, undos and redos tell of themselves: plans, outcomes, whose changes go."""

from __future__ import annotations

from typing import Any

from mulligan.clock import to_rfc3339
from mulligan.control.objects import path_fields, show_path
from mulligan.errors import RefusedError
from mulligan.project.authors import Group
from mulligan.project.restoring import Result
from mulligan.project.side_effects import SideEffect
from mulligan.restore.plan import Outcome, Plan, Step


def _shown(steps: list[Step]) -> list[str]:
    return [show_path(step.path) for step in steps]


def plan_object(plan: Plan, outcome: Outcome | None = None) -> dict[str, Any]:
    """The `plan` object; after the operation `kept` and `skipped` are what really was."""
    kept = [(step.path, step.reason) for step in plan.kept] if outcome is None else outcome.kept
    skipped = [(step.path, step.reason) for step in plan.skipped] if outcome is None else outcome.skipped
    return {
        "write": _shown(plan.write),
        "delete": _shown(plan.delete),
        "chmod": _shown(plan.chmod),
        "mkdir": _shown(plan.mkdir),
        "rmdir": _shown(plan.rmdir),
        "kept": sorted({show_path(path) for path, _ in kept}),
        "skipped": sorted({show_path(path) for path, _ in skipped}),
        "reasons": {show_path(path): reason for path, reason in [*kept, *skipped]},
        "exchange": plan.exchange if outcome is None else outcome.exchange,
    }


def outcome_fields(result: Result) -> dict[str, Any]:
    """What every operation tells of itself."""
    outcome = result.outcome
    plan = plan_object(result.plan, outcome)
    if outcome is None:
        return {
            "plan": plan,
            "plan_digest": result.plan.digest(),
            "operation_id": None,
            "warnings": [],
            "pre_restore_checkpoint_id": None,
        }
    failed = [*outcome.skipped, *((path, "it is not what was written") for path in outcome.differs)]
    return {
        "plan": plan,
        "operation_id": result.operation,
        "pre_restore_checkpoint_id": result.before.id if result.before else None,
        "post_restore_checkpoint_id": result.after.id if result.after else None,
        "files_processed": len(outcome.done),
        "verified": outcome.verified,
        "warnings": [f"{show_path(path)}: {reason}" for path, reason in failed],
        **({"exit_status": 3} if failed else {}),
    }


def refuse(plan: dict[str, Any], what: str, **more: Any) -> RefusedError:
    """An operation that asks was not confirmed."""
    return RefusedError(f"{what} was not confirmed; nothing was changed", hint="look at the plan, then give --yes",
                        plan=plan, **more)  # fmt: skip


def group_object(group: Group) -> dict[str, Any]:
    """One part of `groups`: the changes of one author that a plan takes away."""
    lines = [lost.lines for lost in group.lost if lost.lines is not None]
    return {
        "by": group.by,
        "session_id": group.session or None,
        **{part: _shown(steps) for part, steps in group.parts.items()},
        "bytes": sum(lost.size for lost in group.lost),
        "lines": sum(lines) if len(lines) == len(group.lost) else None,
        "uncertain": [show_path(path) for path in group.uncertain],
        "files": [
            {
                **path_fields(lost.path),
                "bytes": lost.size,
                "lines": lost.lines,
                "timestamp": to_rfc3339(lost.at) if lost.at else None,
            }
            for lost in group.lost
        ],
    }


def side_effect_object(effect: SideEffect) -> dict[str, Any]:
    """One entry of `side_effects`; without a call it was a person's own command."""
    return {
        "kind": effect.kind,
        "command": effect.command,
        "timestamp": to_rfc3339(effect.moment),
        "session_id": effect.session,
        "call_id": effect.call or None,
        "is_error": effect.is_error,
    }
