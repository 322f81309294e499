"""`mulligan verify`: every stored byte against its hash."""

from __future__ import annotations

import argparse

from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.text import shown_path, visible

SUMMARY = "Reads everything that is stored and compares it with its hash; changes nothing."
EXAMPLES = ("mulligan verify", "mulligan verify --json")


def configure(_parser: argparse.ArgumentParser) -> None:
    """There are no options."""


def run(_args: argparse.Namespace, context: Context) -> int:
    """Asks the daemon for it; exit 9 if something is damaged, with every such path named."""
    return context.emit(context.call("store.verify"), lambda report: _render(report, context))


def _render(report: JsonObject, context: Context) -> None:
    from mulligan.client.render.amounts import counted, size  # noqa: PLC0415 - not for JSON

    read = f"{counted(int(report.get('contents') or 0), 'content')}, {size(report.get('bytes') or 0)}"
    damaged, paths, store = (report.get(key) or [] for key in ("damaged", "paths", "store"))
    if not damaged and not paths and not store:
        context.line(f"verified {read}: all equal to their hashes", "safe")
        return
    context.line(f"verified {read}: {counted(len(damaged), 'content')} damaged", "loss")
    for entry in [store] if isinstance(store, str) else store:
        context.line(f"  the store: {visible(str(entry))}")
    for entry in damaged:
        context.line(f"  {visible(str(entry.get('hash', '?')))[:16]}: {visible(str(entry.get('reason', '?')))}")
    for entry in paths:
        context.line(f"  {shown_path(entry)}")
