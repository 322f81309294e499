"""`mulligan stop`: no daemon any more."""

from __future__ import annotations

import argparse

from mulligan.client.context import Context
from mulligan.client.launch import stop

SUMMARY = "Stops the daemon after the write in hand; nothing is captured until the next start."
EXAMPLES = ("mulligan stop", "mulligan stop --json")


def configure(_parser: argparse.ArgumentParser) -> None:
    """There are no options."""


def run(_args: argparse.Namespace, context: Context) -> int:
    """Stops it if it runs; exit 0 if it did not."""
    stopped = stop(context)
    if context.options.json:
        context.json({"stopped": stopped})
    return 0
