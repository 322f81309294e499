"""`mulligan list`: the checkpoints of a project."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import project_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.errors import UsageError

SUMMARY = "Lists the project's checkpoints, newest first."
EXAMPLES = ("mulligan list --limit 5", "mulligan list --json | jq '.checkpoints[0].id'")
#: What a person wants to see at once.
ON_TERMINAL = 50


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    group = parser.add_argument_group("which")
    group.add_argument("--limit", metavar="N", type=int, help=f"at most N (default on a terminal: {ON_TERMINAL})")
    group.add_argument("--all", action="store_true", help="no limit")
    project_option(group)
    group.add_argument("--session", metavar="ID", help="only those of one session (default: all sessions)")


def run(args: argparse.Namespace, context: Context) -> int:
    """Asks for them and prints them."""
    if args.limit is not None and args.limit < 1:
        raise UsageError(f"--limit {args.limit} is not a positive number", hint="mulligan list --limit 5")
    limit = None if args.all else args.limit
    if limit is None and not args.all and not context.options.json and context.out.isatty():
        limit = ON_TERMINAL
    result = context.call("checkpoint.list", **context.where(args), limit=limit)
    return context.emit(result, lambda found: _render(found, limit, context))


def _render(result: JsonObject, limit: int | None, context: Context) -> None:
    from mulligan.client.render.checkpoints import listing  # noqa: PLC0415 - not for JSON

    checkpoints = result.get("checkpoints") or []
    if not checkpoints:
        context.note("no checkpoints yet.    mulligan checkpoint -m TEXT")
        return
    current = result.get("current_checkpoint_id")
    context.lines(listing(checkpoints, current, context.now(), context.width, context.palette))
    if limit is not None and len(checkpoints) == limit and context.out.isatty():
        context.note(context.palette.paint("older ones: mulligan list --all", "dim"))
