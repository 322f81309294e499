"""`mulligan store`: upkeep of what is stored."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import Command
from mulligan.client.connection import JsonObject
from mulligan.client.context import SHOWN, Context
from mulligan.client.render.text import shown_path, visible

SUMMARY = "Makes the store's catalogue anew when it is damaged, or when the store is read-only."


def _configure(_parser: argparse.ArgumentParser) -> None:
    """There are no options."""


def rebuild(_args: argparse.Namespace, context: Context) -> int:
    """Asks the daemon for it; exit 9 if something could not be recovered, which is named."""
    return context.emit(context.call("store.rebuild"), lambda built: _render(built, context))


def _render(built: JsonObject, context: Context) -> None:
    from mulligan.client.render.amounts import counted  # noqa: PLC0415 - not for JSON

    snapshot = built.get("snapshot")
    begun = f"the snapshot behind batch {int(snapshot):,}" if snapshot else "the first batch"
    whole = not (built.get("exit_status") or 0)
    batches = int(built.get("batches_replayed") or 0)
    read = f"{batches:,} {'batch' if batches == 1 else 'batches'}"
    contents = counted(int(built.get("contents") or 0), "content")
    context.line(f"rebuilt from {begun} and {read}: {contents}", "safe" if whole else "loss")
    for words in [*(built.get("lost") or []), built.get("store") or ""]:
        if words:
            context.line(f"  {visible(str(words))}", "loss")
    if missing := int(built.get("missing_contents") or 0):
        context.line(f"  {counted(missing, 'content')} without a record in any segment", "loss")
    paths = built.get("paths") or []
    for entry in paths[:SHOWN]:
        context.line(f"    {shown_path(entry)}")
    if len(paths) > SHOWN:
        context.line(f"    and {len(paths) - SHOWN} more; mulligan verify names all")


ACTIONS = {
    "rebuild": Command(
        "Makes the catalogue anew from its newest snapshot and the segments; nothing in them is changed.",
        ("mulligan store rebuild", "mulligan store rebuild --json"),
        _configure,
        rebuild,
    ),
}
