"""`mulligan rescue`: what vanished, was emptied or replaced, back where it was."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import PATHS_HELP, asking_options, project_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.losses import loss_lines
from mulligan.client.render.plan import done_words, not_done
from mulligan.client.render.text import word
from mulligan.errors import PartialError

SUMMARY = "Shows what vanished, was emptied or shrank, or was put back or moved over, and brings it back."
EXAMPLES = ("mulligan rescue --since 5m", "mulligan rescue notes.md 'src/*.py' --dry-run")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("paths", metavar="PATH", nargs="*", help=PATHS_HELP)
    group = parser.add_argument_group("which")
    group.add_argument("--since", metavar="AGE", default="1h", help="lost since then: 5m, 2d, a time (default: 1h)")
    group.add_argument("--all", action="store_true", help="also what git still holds, and what is no loss as a rule")
    project_option(group)
    group = parser.add_argument_group("how")
    asking_options(group)
    group.add_argument("--force", action="store_true", help="also over something newer")


def run(args: argparse.Namespace, context: Context) -> int:
    """Lists the losses, asks, brings them back; exit 3 if something newer was left in its place."""
    params = {
        "project": context.project(args),
        "since": args.since,
        "all": args.all or None,
        "force": args.force or None,
        **context.paths(args.paths),
    }
    planned = context.call("operation.rescue", **params, dry_run=True)
    if not planned.get("entries"):
        return context.emit(planned, lambda found: _show(found, context))
    result = context.confirmed(
        args,
        lambda: planned,
        lambda: context.call("operation.rescue", **params, confirmed=True),
        lambda found: _show(found, context),
        " ".join(["mulligan rescue --since", *map(word, [args.since, *args.paths]), "--yes"]),
    )
    if result is None:
        return 0
    status = context.emit(result, lambda done: _done(done, context))
    context.warnings(result)
    return status or (PartialError.exit_status if result.get("conflicts") else 0)


def _show(result: JsonObject, context: Context) -> None:
    context.lines(loss_lines(result, context.now(), context.width, context.palette))


def _done(result: JsonObject, context: Context) -> None:
    plan = result.get("plan") or {}
    context.line(f"rescued: {done_words(plan)}", "look" if plan.get("skipped") else "safe")
    context.lines(not_done(plan))
