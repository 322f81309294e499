"""`mulligan timeline`: the checkpoints of a session as a tree."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import project_option, session_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.control.nesting import nest, nested_texts

SUMMARY = "Draws the checkpoints of a session as a tree, newest first: @ is where you are, branches are indented."
EXAMPLES = ("mulligan timeline", "mulligan timeline --session s9f3")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    group = parser.add_argument_group("which")
    project_option(group)
    session_option(group)


def run(args: argparse.Namespace, context: Context) -> int:
    """Asks for the checkpoints and draws their tree: a list comes many times faster than a tree of thousands."""
    result = context.call("timeline.get", **context.where(args), flat=True)
    checkpoints = result.pop("checkpoints", None) or []
    if context.options.json:
        context.json(result, nested_texts(checkpoints))
    else:
        _render(result, nest(checkpoints), context)
    return 0


def _render(result: JsonObject, roots: list[JsonObject], context: Context) -> None:
    from mulligan.client.render.checkpoints import tree  # noqa: PLC0415 - not for JSON

    lines = tree(roots, result.get("current_checkpoint_id"), context.now(), context.width, context.palette)
    if not lines:
        context.note("no checkpoints yet.    mulligan checkpoint -m TEXT")
    context.lines(lines)
