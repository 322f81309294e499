"""`mulligan drill`: prove that checkpoints can be restored."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import project_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.text import shown_path, visible
from mulligan.errors import UsageError

SUMMARY = "Restores some checkpoints beside the store, reads every byte back, and compares; no project is touched."
EXAMPLES = ("mulligan drill", "mulligan drill 14")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("id", metavar="ID", nargs="?", help="this checkpoint of the project (default: by chance)")
    group = parser.add_argument_group("which")
    group.add_argument("--count", metavar="N", type=int, help="so many checkpoints, of all projects (default: 3)")
    project_option(group)


def run(args: argparse.Namespace, context: Context) -> int:
    """Asks the daemon for it; exit 9 if one cannot be restored as it was."""
    if args.id and args.count is not None:
        raise UsageError("--count is about checkpoints by chance", hint="mulligan drill --count 5")
    project = context.project(args) if args.id or args.project else None
    result = context.call("store.drill", id=args.id, count=args.count, project=project)
    return context.emit(result, lambda done: _render(done, context))


def _render(result: JsonObject, context: Context) -> None:
    from mulligan.client.render.amounts import size  # noqa: PLC0415 - not for JSON

    for tried in result.get("checkpoints") or []:
        reason = tried.get("reason")
        words = f"  {tried.get('ordinal')}  {size(tried.get('bytes') or 0)}  {shown_path(tried)}"
        context.line(words + (f": {visible(str(reason))}" if reason else ""), "loss" if reason else "")
    whole = result.get("restorable") == result.get("total")
    context.line(
        f"restorable: {result.get('restorable')} of {result.get('total')} ({result.get('seconds')} s)",
        "safe" if whole else "loss",
    )
