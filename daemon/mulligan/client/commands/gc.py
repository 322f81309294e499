"""`mulligan gc`: free what nothing needs any more."""

from __future__ import annotations

import argparse

from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.text import visible

SUMMARY = "Drops versions older than a day that no checkpoint needs, and frees what nothing names; daily by itself."
EXAMPLES = ("mulligan gc", "mulligan gc --json")


def configure(_parser: argparse.ArgumentParser) -> None:
    """Declares no options."""


def run(_args: argparse.Namespace, context: Context) -> int:
    """Asks the daemon for it; exit 9 if something damaged could not be collected."""
    return context.emit(context.call("store.gc"), lambda done: _render(done, context))


def _render(done: JsonObject, context: Context) -> None:
    from mulligan.client.render.amounts import counted, size  # noqa: PLC0415 - not for JSON

    if not any(done.get(what) for what in ("versions", "contents", "segments", "damaged")):
        context.note("nothing to free: every version is young, or needed")
        return
    parts = [
        counted(done.get("versions") or 0, "version"),
        counted(done.get("contents") or 0, "content"),
        counted(done.get("segments") or 0, "segment"),
    ]
    context.line(f"freed {size(done.get('freed_bytes') or 0)}: {', '.join(parts)}", "safe")
    context.line(f"store {size(done.get('bytes') or 0)} of {size(done.get('budget_bytes') or 0)}")
    for reason in done.get("damaged") or []:
        context.line(f"not collected: {visible(str(reason))}", "loss")
