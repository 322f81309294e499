"""`mulligan delete`: take one checkpoint out of the timeline."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import asking_options, project_option, session_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context

SUMMARY = "Takes one checkpoint out of the timeline; those that follow it follow the one before it."
EXAMPLES = ("mulligan delete 14", "mulligan delete 14 --dry-run")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("id", metavar="ID", help="the checkpoint")
    asking_options(parser.add_argument_group("how"))
    group = parser.add_argument_group("which")
    project_option(group)
    session_option(group)


def run(args: argparse.Namespace, context: Context) -> int:
    """Shows it, asks, deletes."""
    params = {"id": args.id, **context.where(args)}
    return take_out("checkpoint.delete", params, args, context, f"mulligan delete {args.id} --yes")


def take_out(method: str, params: JsonObject, args: argparse.Namespace, context: Context, again: str) -> int:
    """Checkpoints that leave the timeline: shown first, then taken out if that is confirmed."""

    def plan(result: JsonObject) -> None:
        _render(result, "to be deleted", context)

    result = context.confirmed(
        args,
        lambda: context.call(method, **params, dry_run=True),
        lambda: context.call(method, **params, confirmed=True),
        plan,
        again,
    )
    return 0 if result is None else context.emit(result, lambda done: _render(done, "deleted", context))


def _render(result: JsonObject, word: str, context: Context) -> None:
    from mulligan.client.render.amounts import size  # noqa: PLC0415 - as below
    from mulligan.client.render.checkpoints import listing  # noqa: PLC0415 - not for JSON

    checkpoints = result.get("checkpoints") or []
    if not checkpoints:
        context.note("nothing to delete: every checkpoint stays")
        return
    context.lines(listing(checkpoints, None, context.now(), context.width, context.palette))
    freed = result.get("freed_bytes") or 0
    frees = f"frees {size(freed)}" if freed else "versions of the last 24 h stay, so nothing is freed yet"
    context.line(f"{len(checkpoints)} {word}; {frees}", "look")
