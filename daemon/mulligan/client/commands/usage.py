"""`mulligan usage`: disk space of the store, and how long the budget lasts."""

from __future__ import annotations

import argparse

from mulligan.client.connection import JsonObject
from mulligan.client.context import Context

SUMMARY = "Says what takes the store's disk space, how it grows, and when the budget is reached at this rate."
EXAMPLES = ("mulligan usage", "mulligan usage --project . --limit 30")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    group = parser.add_argument_group("which")
    group.add_argument("--limit", metavar="N", type=int, help="the N largest directories and files (default: 10)")
    group.add_argument("--project", metavar="PATH", help="projects, directories and files of this one (default: all)")


def run(args: argparse.Namespace, context: Context) -> int:
    """Asks the daemon and prints the answer."""
    project = context.project(args) if args.project else None
    result = context.call("store.usage", project=project, limit=args.limit)
    return context.emit(result, lambda found: _render(found, context))


def _render(result: JsonObject, context: Context) -> None:
    from mulligan.client.render.usage import usage_lines  # noqa: PLC0415 - not for JSON

    context.lines(usage_lines(result, context.now(), context.width, context.palette, context.short))
