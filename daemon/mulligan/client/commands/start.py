"""`mulligan start`: a daemon that answers."""

from __future__ import annotations

import argparse

from mulligan.client.context import Context
from mulligan.client.launch import start

SUMMARY = "Starts the daemon and waits until it answers; quiet if it runs already."
EXAMPLES = ("mulligan start", "mulligan start && mulligan status")


def configure(_parser: argparse.ArgumentParser) -> None:
    """There are no options."""


def run(_args: argparse.Namespace, context: Context) -> int:
    """Starts it if need be."""
    started = start(context)
    if context.options.json:
        context.json({"started": started})
    return 0
