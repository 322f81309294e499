"""restore, revert, undo: a plan first, and done only with the plan's token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mulligan.agents.plan_tokens import LIFETIME_SECONDS, Planned
from mulligan.agents.seat import Seat
from mulligan.agents.tool import PROJECT_POSITION, JsonObject, Tool, cut, flag, shortened, text, texts, without_nothing
from mulligan.errors import ConflictError

_PARTS = ("write", "delete", "chmod", "mkdir", "rmdir")
_SHOWN = 30
TOKEN = text("the token of the plan that this tool gave for the same arguments; without it only the plan is made")
TWO_STEPS = (
    " Call it without a token first: it changes nothing, and gives the plan with a token. Then call it again with"
)
TWO_STEPS += " the same arguments and that token."


def plan_fields(found: JsonObject) -> JsonObject:
    """A plan, or what was done, in bounded size."""
    plan = found["plan"]
    reasons = {path: plan["reasons"].get(path, "") for path in plan["skipped"]}
    effects = [
        without_nothing({"kind": one["kind"], "command": cut(one["command"], 120)})
        for one in found.get("side_effects") or []
    ]
    return without_nothing({
        "to": found.get("position"),
        "of": found.get("target"),
        **{part: shortened(plan[part], _SHOWN) for part in _PARTS},
        "skipped": shortened([f"{path}: {reason}" for path, reason in reasons.items()], _SHOWN),
        "kept_because_unknown_then": len(set(plan["kept"]) - set(reasons)) or None,
        "whose": [_group(one) for one in plan.get("groups") or []],
        "conflicts": shortened([_conflict(one) for one in found.get("conflicts") or []], _SHOWN),
        "no_restore_undoes": shortened(effects, 10),
    })  # fmt: skip


def _group(group: JsonObject) -> JsonObject:
    paths = [path for part in _PARTS for path in group.get(part) or []]
    return without_nothing({
        "by": group["by"],
        "session_id": group["session_id"],
        "paths": shortened(paths, 10),
        "lines_that_would_go": group["lines"],
        "uncertain": shortened(group["uncertain"], 10),
    })  # fmt: skip


def _conflict(conflict: Any) -> Any:
    return without_nothing(conflict) if isinstance(conflict, dict) else str(conflict)


def two_steps(
    tool: str, method: str, wanted: Callable[[JsonObject], JsonObject], named: Callable[[JsonObject], JsonObject]
) -> Callable[[Seat, JsonObject], JsonObject]:
    """A tool that plans without a token and acts with one.

    `wanted` makes the method's parameters of the arguments; `named` gives those that the plan's answer knows better,
    because a name such as "latest" means something else later.
    """

    def run(seat: Seat, arguments: JsonObject) -> JsonObject:
        session = seat.known_session()
        if token := arguments.get("token"):
            planned = seat.tokens.redeem(token, tool, arguments, seat.project, session)
            return _act(seat, tool, method, planned)
        params = {"project": seat.project, "session": session or None, **wanted(arguments)}
        if method == "checkpoint.restore":
            params["caller"] = session or None
        found = seat.call(method, **params, dry_run=True)
        answer = {"done": False, "plan": plan_fields(found), "warnings": _other_warnings(found)}
        if any(not one.get("marked") for one in found.get("conflicts") or []) and not arguments.get("partial"):
            ways = "partial does the rest, write_conflicts puts both versions of texts between markers"
            return {**answer, "next_step": f"nothing is done while there is a conflict: {ways}"}
        if not any(found["plan"][part] for part in _PARTS):
            return {**answer, "next_step": "there is nothing to do"}
        token = seat.tokens.issue(
            tool, arguments, seat.project, session, {**params, **named(found)}, found["plan_digest"]
        )
        return {
            **answer,
            "token": token,
            "expires_in_seconds": LIFETIME_SECONDS,
            "next_step": f"nothing was changed yet: call {tool} with the same arguments and this token to do it",
        }

    return run


def _act(seat: Seat, tool: str, method: str, planned: Planned) -> JsonObject:
    try:
        done = seat.call(method, **planned.params, confirmed=True, plan_digest=planned.digest)
    except ConflictError as error:
        raise ConflictError(error.message, hint=f"call {tool} without a token for a plan and a new one") from error
    return {
        "done": True,
        "partly": bool(done.get("exit_status")),
        **plan_fields(done),
        "operation_id": done["operation_id"],
        "pre_restore_checkpoint_id": done["pre_restore_checkpoint_id"],
        "verified": done.get("verified", True),
        "warnings": _other_warnings(done),
        "next_step": "undo takes all of it back",
    }


def _other_warnings(found: JsonObject) -> list[str]:
    """Without those that the side effects tell already."""
    told = {str(one["command"]) for one in found.get("side_effects") or []}
    return shortened([cut(one) for one in found["warnings"] if not any(str(one).endswith(said) for said in told)])


def _as_given(*names: str) -> Callable[[JsonObject], JsonObject]:
    return lambda arguments: {name: arguments[name] for name in names if name in arguments}


def _target(found: JsonObject) -> JsonObject:
    return {"id": found["checkpoint"]["id"] if found["checkpoint"] else found["position"]}


TOOLS = (
    Tool(
        "restore",
        "Make the project's files, or some paths, what they were at a checkpoint. A checkpoint is taken first, so that"
        " undo brings everything back. Other people's and agents' changes go too, unless keep_others is given: look at"
        " `whose` in the plan." + TWO_STEPS,
        two_steps("restore", "checkpoint.restore", _as_given("id", "paths", "keep_others"), _target),
        {
            "id": text(PROJECT_POSITION),
            "paths": texts("only these files, directories or patterns"),
            "keep_others": flag("take back only what this session's calls changed since then"),
            "token": TOKEN,
        },
        required=("id",),
        read_only=False,
        destructive=True,
    ),
    Tool(
        "revert",
        "Take out what one prompt, tool call, session or checkpoint changed, by three-way merge, and leave everything"
        " else." + TWO_STEPS,
        two_steps(
            "revert",
            "operation.revert",
            _as_given("target", "partial", "write_conflicts"),
            lambda found: {"target": found["target"]} if found["target"].startswith("prompt:") else {},
        ),
        {
            "target": text("prompt:N (-1: the last), tool:ID, session:ID, or a checkpoint's number or id"),
            "partial": flag("do what is in no conflict, and leave the rest"),
            "write_conflicts": flag("write texts in conflict with both versions between markers"),
            "token": TOKEN,
        },
        required=("target",),
        read_only=False,
        destructive=True,
    ),
    Tool(
        "undo",
        "Take the project's last restore, revert or rescue back; what changed since then is kept and named."
        + TWO_STEPS,
        two_steps("undo", "operation.undo", lambda _: {}, lambda _: {}),
        {"token": TOKEN},
        read_only=False,
        destructive=True,
    ),
)
