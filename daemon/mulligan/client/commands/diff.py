"""`mulligan diff`: what differs between two checkpoints, or a checkpoint and the working tree."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import project_option, session_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.diffs import coloured, content, in_order, is_empty, name_status, stat

SUMMARY = "Shows what differs: the current checkpoint and the working tree, A and the working tree, or A and B."
EXAMPLES = ("mulligan diff 11 14 --stat", "mulligan diff 11 -- src/auth.py | git apply -R")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("names", metavar="A B PATH", nargs="*", help="checkpoints, then paths or patterns")
    group = parser.add_argument_group("how")
    shape = group.add_mutually_exclusive_group()
    shape.add_argument("--stat", action="store_true", help="lines added and deleted, file by file")
    shape.add_argument("--name-status", action="store_true", help="A M D R T and the path")
    group.add_argument("-w", "--ignore-whitespace", action="store_true", help="ignore white space, as git does")
    group.add_argument("--exit-code", action="store_true", help="exit 1 if anything differs")
    group = parser.add_argument_group("which")
    project_option(group)
    session_option(group)
    parser.usage = "mulligan diff [A] [B] [options] [--] [PATH ...]"


def run(args: argparse.Namespace, context: Context) -> int:
    """Asks for the differences and prints them; exit 0 either way, but for --exit-code."""
    behind = list(args.dashed or [])
    names = args.names[: len(args.names) - len(behind)]
    ids, paths = names[:2], names[2:] + behind
    result = context.call(
        "checkpoint.diff",
        from_=ids[0] if ids else None,
        to=ids[1] if len(ids) > 1 else None,
        ignore_whitespace=args.ignore_whitespace or None,
        **context.where(args),
        **context.paths(paths),
    )
    status = context.emit(result, lambda found: _render(found, args, context))
    return status or (1 if args.exit_code and not is_empty(result) else 0)


def _render(result: JsonObject, args: argparse.Namespace, context: Context) -> None:
    if args.stat:
        context.lines(stat(result, context.width, context.palette))
    elif args.name_status:
        context.lines(name_status(result))
    else:
        _patch(result, context)


def _patch(result: JsonObject, context: Context) -> None:
    """The unified diff: byte for byte into a pipe, harmless and coloured on a terminal."""
    parts = [content(file) for _, file in in_order(result)]
    if context.out.isatty() or context.palette.enabled:
        context.out.write(coloured(b"".join(parts), context.palette))
        return
    context.out.flush()
    raw = getattr(context.out, "buffer", None)
    for part in parts:
        if raw is None:
            context.out.write(part.decode("utf-8", "surrogateescape"))
        else:
            raw.write(part)
