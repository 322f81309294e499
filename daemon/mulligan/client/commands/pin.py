"""`mulligan pin`: keep a checkpoint for good."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import project_option, session_option
from mulligan.client.commands.describe import say
from mulligan.client.context import Context

SUMMARY = "Keeps a checkpoint for good: retention never takes it."
EXAMPLES = ("mulligan pin 14", "mulligan pin latest")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("id", metavar="ID", help="the checkpoint")
    group = parser.add_argument_group("which")
    project_option(group)
    session_option(group)


def run(args: argparse.Namespace, context: Context) -> int:
    """Does it."""
    result = context.call("checkpoint.pin", id=args.id, **context.where(args))
    return context.emit(result, lambda done: say(done, "pinned", args.id, context))
