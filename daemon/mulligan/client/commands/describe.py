"""`mulligan describe`: a text for a checkpoint."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import project_option, session_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.text import visible

SUMMARY = "Gives a checkpoint a text of your own."
EXAMPLES = ('mulligan describe 14 "login works"', "mulligan describe latest stable")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("id", metavar="ID", help="the checkpoint")
    parser.add_argument("text", metavar="TEXT", help="what to call it")
    group = parser.add_argument_group("which")
    project_option(group)
    session_option(group)


def run(args: argparse.Namespace, context: Context) -> int:
    """Sets the text."""
    result = context.call("checkpoint.describe", id=args.id, description=args.text, **context.where(args))
    return context.emit(result, lambda done: say(done, "described", args.id, context))


def say(result: JsonObject, word: str, given: str, context: Context) -> None:
    """One line about what was done with a checkpoint, unless quiet."""
    from mulligan.client.render.checkpoints import number, what  # noqa: PLC0415 - not for JSON

    if context.options.quiet:
        return
    checkpoint = result.get("checkpoint") or {}
    text = visible(what(checkpoint))
    context.line(f"{word} {number(checkpoint) if checkpoint else visible(given)}" + (f'  "{text}"' if text else ""))
