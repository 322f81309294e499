"""`mulligan checkpoint`: one checkpoint, now."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import project_option, session_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.text import shown_path, visible
from mulligan.errors import PartialError

SUMMARY = "Makes a checkpoint of the project now, even if nothing changed."
EXAMPLES = ('mulligan checkpoint -m "before the big refactor"', "mulligan checkpoint --pin")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    group = parser.add_argument_group("the checkpoint")
    group.add_argument("-m", "--message", metavar="TEXT", help="what it is for")
    group.add_argument("--pin", action="store_true", help="never let retention have it")
    project_option(group)
    session_option(group)


def run(args: argparse.Namespace, context: Context) -> int:
    """Makes it; exit 3 if not everything could be read, with every such path named."""
    result = context.call("checkpoint.create", **context.where(args), description=args.message, pin=args.pin or None)
    status = context.emit(result, lambda made: _render(made, context))
    context.warnings(result)
    incomplete = (result.get("checkpoint") or {}).get("complete") is False
    return status or (PartialError.exit_status if incomplete else 0)


def _render(result: JsonObject, context: Context) -> None:
    from mulligan.client.render.checkpoints import changes, number  # noqa: PLC0415 - not for JSON

    checkpoint = result.get("checkpoint") or {}
    text = visible(str(checkpoint.get("description") or ""))
    words = [f"checkpoint {number(checkpoint)}", visible(str(checkpoint.get("id", "")))]
    words += [changes(checkpoint).replace("·", "no change"), f'"{text}"' if text else ""]
    if checkpoint.get("pinned"):
        words.append("pin")
    context.line("  ".join(word for word in words if word))
    for entry in checkpoint.get("incomplete_paths") or []:
        reason = visible(str(entry.get("reason") or "not read")) if isinstance(entry, dict) else "not read"
        context.line(f"  incomplete: {shown_path(entry)}: {reason}", "look")
