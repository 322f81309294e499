"""`mulligan redo`: the last undo taken back."""

from __future__ import annotations

import argparse

from mulligan.client.commands.undo import configure, run_operation
from mulligan.client.context import Context

__all__ = ["EXAMPLES", "SUMMARY", "configure", "run"]

SUMMARY = "Does again what the last undo took back."
EXAMPLES = ("mulligan redo", "mulligan redo --yes")


def run(args: argparse.Namespace, context: Context) -> int:
    """Shows the plan, asks, does it again."""
    return run_operation("redo", "What the last undo took back, again", "done again", args, context)
