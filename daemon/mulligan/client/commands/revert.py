"""`mulligan revert`: one prompt's, call's, session's or checkpoint's changes taken out, everybody else's kept."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import asking_options, project_option, session_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.amounts import counted
from mulligan.client.render.plan import conflict_lines, done_words, not_done, plan_lines, size_of
from mulligan.client.render.text import visible
from mulligan.errors import ConflictError, PartialError

SUMMARY = "Takes out what a prompt, a tool call, a session or a checkpoint changed, and leaves everything else."
_WAYS = "--partial does the rest, --write-conflicts puts both versions between markers"
EXAMPLES = ("mulligan revert prompt:-1", "mulligan revert session:9f3c --dry-run")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "target", metavar="TARGET", help="prompt:N (-1: the last), tool:ID, session:ID, or a checkpoint"
    )
    group = parser.add_argument_group("how")
    asking_options(group)
    group.add_argument("--partial", action="store_true", help="do the rest if some files are in conflict")
    group.add_argument(
        "--write-conflicts", action="store_true", help="put both versions into texts in conflict, between markers"
    )
    group.add_argument("--force", action="store_true", help="also what is not sure to be of the target")
    group = parser.add_argument_group("which")
    project_option(group)
    session_option(group)


def run(args: argparse.Namespace, context: Context) -> int:
    """Shows the plan, asks, reverts; exit 6 with every file in conflict if nothing was done for them."""
    params = {
        "target": args.target,
        "partial": args.partial or None,
        "write_conflicts": args.write_conflicts or None,
        "force": args.force or None,
        **context.where(args),
    }

    def act() -> JsonObject:
        try:
            return context.call("operation.revert", **params, confirmed=True)
        except ConflictError as conflict:
            found = {"operation_id": None, "warnings": [], **conflict.data}
            context.emit(found, lambda result: context.lines(conflict_lines(result)))
            raise

    def show(planned: JsonObject) -> None:
        _plan(planned, context)
        stuck = [one for one in planned.get("conflicts") or [] if not one.get("marked")]
        if stuck and not args.partial:
            context.lines(["Nothing is done while there is a conflict.", f"  {_WAYS}"])
            if context.may_ask() and not args.dry_run:
                raise ConflictError(f"{counted(len(stuck), 'path')} in conflict; nothing was changed", hint=_WAYS)
        elif size_of(planned.get("plan") or {}):
            context.line("A checkpoint is taken first: `mulligan undo` brings all of it back.")

    result = context.confirmed(
        args,
        lambda: context.call("operation.revert", **params, dry_run=True),
        act,
        show,
        f"mulligan revert {visible(args.target)} --yes",
    )
    if result is None:
        return 0
    status = context.emit(result, lambda done: _done(done, context))
    context.warnings(result)
    return status or (PartialError.exit_status if result.get("conflicts") else 0)


def _plan(result: JsonObject, context: Context) -> None:
    plan = result.get("plan") or {}
    context.line(f"Without the changes of {visible(str(result.get('target') or 'it'))}", "bold")
    context.line()
    context.lines(plan_lines(plan, context.width, context.palette))
    context.line()
    if result.get("conflicts"):
        context.lines([*conflict_lines(result), ""])


def _done(result: JsonObject, context: Context) -> None:
    plan = result.get("plan") or {}
    left = plan.get("skipped") or result.get("conflicts")
    what = visible(str(result.get("target") or ""))
    context.line(f"reverted {what}: {done_words(plan)}", "look" if left else "safe")
    known = {str(conflict.get("path")) for conflict in result.get("conflicts") or []}
    context.lines(not_done({**plan, "skipped": [path for path in plan.get("skipped") or [] if path not in known]}))
    context.lines(conflict_lines(result))
