"""`mulligan restart`: the daemon, anew."""

from __future__ import annotations

import argparse

from mulligan.client.context import Context
from mulligan.client.launch import start, stop

SUMMARY = "Stops the daemon and starts it again; what changed in between is found by a comparison."
EXAMPLES = ("mulligan restart", "mulligan restart && mulligan status")


def configure(_parser: argparse.ArgumentParser) -> None:
    """There are no options."""


def run(_args: argparse.Namespace, context: Context) -> int:
    """Stops, then starts."""
    stopped, started = stop(context), start(context)
    if context.options.json:
        context.json({"stopped": stopped, "started": started})
    return 0
