"""`mulligan purge`: erase every captured version of a file."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import asking_options, project_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.text import shown_path, visible

SUMMARY = "Erases every captured version of a file, wherever the same bytes stand; the file itself is not touched."
EXAMPLES = ("mulligan purge .env --dry-run", "mulligan purge secrets/ --yes")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("paths", metavar="PATH", nargs="+", help="a file, or a directory with all below it")
    asking_options(parser.add_argument_group("how"))
    project_option(parser.add_argument_group("which"))


def run(args: argparse.Namespace, context: Context) -> int:
    """Shows what goes, asks, erases; exit 3 if a part of the store still has some of it."""
    params = {"project": context.project(args), **context.paths(args.paths)}
    result = context.confirmed(
        args,
        lambda: context.call("store.purge", **params, dry_run=True),
        lambda: context.call("store.purge", **params, confirmed=True),
        lambda plan: _render(plan, "to be erased", context),
        " ".join(["mulligan purge", *map(visible, args.paths), "--yes"]),
    )
    if result is None:
        return 0
    status = context.emit(result, lambda done: _render(done, "erased", context))
    context.warnings(result)
    return status


def _render(result: JsonObject, word: str, context: Context) -> None:
    from mulligan.client.render.amounts import counted, size  # noqa: PLC0415 - not for JSON

    for entry in result.get("paths") or []:
        context.line(f"  {shown_path(entry)}")
    if (more := int(result.get("paths_total") or 0) - len(result.get("paths") or [])) > 0:
        context.line(f"  and {more:,} more")
    for entry in result.get("elsewhere") or []:
        context.line(f"  {shown_path(entry)} in {visible(str(entry.get('project')))}: the same bytes", "look")
    freed = f"; freed {size(result.get('freed_bytes') or 0)}" if "freed_bytes" in result else ""
    versions = counted(int(result.get("versions") or 0), "version")
    context.line(f"{versions} {word}{freed}", "loss" if word == "to be erased" else "safe")
    for place in result.get("left") or []:
        context.line(f"still in {visible(str(place))}", "loss")
    if word != "erased":
        context.warnings(result)
