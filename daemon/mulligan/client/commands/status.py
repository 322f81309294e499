"""`mulligan status`: whether this directory is protected, and how everything is."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import project_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context

SUMMARY = "Says whether this directory is protected, then how sessions, store and daemon are."
EXAMPLES = ("mulligan status", "mulligan status --json --project ~/src/shop")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    project_option(parser)


def run(args: argparse.Namespace, context: Context) -> int:
    """Asks the daemon and prints the answer."""
    directory = context.project(args)

    def render(status: JsonObject) -> None:
        from mulligan.client.render.status import status_lines  # noqa: PLC0415 - not for JSON

        context.lines(status_lines(status, directory, context.now(), context.width, context.palette, context.short))

    return context.emit(context.call("daemon.status", project=directory), render)
