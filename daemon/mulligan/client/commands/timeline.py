"""`mulligan timeline`: the checkpoints of a session as a tree."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import project_option, session_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.control.nesting import nested_fields

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
    result |= nested_fields(result.pop("checkpoints", None) or [])
    return context.emit(result, lambda found: _render(found, context))


def _render(result: JsonObject, context: Context) -> None:
    from mulligan.client.render.checkpoints import tree  # noqa: PLC0415 - not for JSON

    current = result.get("current_checkpoint_id")
    lines = tree(result["roots"], current, context.now(), context.width, context.palette)
    if not lines:
        context.note("no checkpoints yet.    mulligan checkpoint -m TEXT")
    context.lines(lines)
