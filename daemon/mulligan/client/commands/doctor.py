"""`mulligan doctor`: everything tried out, one line a check."""

from __future__ import annotations

import argparse

from mulligan.client.context import Context
from mulligan.client.render.text import pad, visible
from mulligan.client.trial import Check, checks

SUMMARY = "Tries everything out in a scratch project, compares environments, and says what to do about what is wrong."
EXAMPLES = ("mulligan doctor", "mulligan doctor --json")


def configure(_parser: argparse.ArgumentParser) -> None:
    """There are no options."""


def run(_args: argparse.Namespace, context: Context) -> int:
    """Runs the checks, showing each as it ends; exit 1 if one of them fails."""
    found: list[Check] = []
    for check in checks(context):
        found.append(check)
        if not context.options.json:
            _show(check, context)
            context.out.flush()
    well = all(check.ok for check in found)
    if context.options.json:
        names = ("name", "ok", "found", "step")
        context.json({"ok": well, "checks": [dict(zip(names, check, strict=True)) for check in found]})
    return 0 if well else 1


def _show(check: Check, context: Context) -> None:
    word = context.palette.paint("ok  ", "safe") if check.ok else context.palette.paint("fail", "loss")
    context.line(f"{word}  {pad(check.name, 11)}  {visible(check.found)}")
    if check.step:
        context.line(f"{'':19}{visible(check.step)}")
