"""`mulligan undo`: the last restore or revert taken back."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import asking_options, project_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.plan import done_words, not_done, plan_lines
from mulligan.client.render.text import shown_path
from mulligan.errors import PartialError

SUMMARY = "Takes the project's last restore or revert back; what was changed since then is kept and named."
EXAMPLES = ("mulligan undo", "mulligan undo --dry-run")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    group = parser.add_argument_group("how")
    asking_options(group)
    group.add_argument("--force", action="store_true", help="also paths that were changed since")
    project_option(parser.add_argument_group("which"))


def run(args: argparse.Namespace, context: Context) -> int:
    """Shows the plan, asks, undoes."""
    return run_operation("undo", "Back to before the last restore or revert", "undone", args, context)


def run_operation(name: str, heading: str, word: str, args: argparse.Namespace, context: Context) -> int:
    """`undo` and `redo` are one thing in two directions; exit 3 if paths that changed since were kept."""
    params = {"project": context.project(args), "force": args.force or None}
    method = f"operation.{name}"

    def plan(result: JsonObject) -> None:
        context.line(heading, "bold")
        context.line()
        context.lines(plan_lines(result.get("plan") or {}, context.width, context.palette))
        context.lines(_conflicts(result))

    def done(result: JsonObject) -> None:
        whole = result.get("plan") or {}
        context.line(f"{word}: {done_words(whole)}", "look" if whole.get("skipped") else "safe")
        context.lines(not_done(whole))
        context.lines(_conflicts(result))

    result = context.confirmed(
        args,
        lambda: context.call(method, **params, dry_run=True),
        lambda: context.call(method, **params, confirmed=True),
        plan,
        f"mulligan {name} --yes",
    )
    if result is None:
        return 0
    status = context.emit(result, done)
    context.warnings(result)
    left = (result.get("plan") or {}).get("skipped") or result.get("conflicts")
    return status or (PartialError.exit_status if left else 0)


def _conflicts(result: JsonObject) -> list[str]:
    lines = [f"  changed since, kept: {shown_path(entry)}" for entry in result.get("conflicts") or []]
    return [*lines, "  --force takes them too"] if lines else []
