"""`mulligan history`: the versions of a file."""

from __future__ import annotations

import argparse
from typing import Any

from mulligan.client.arguments import project_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.text import visible

SUMMARY = "Lists the versions of a file, newest first, with who made each and how sure that is."
EXAMPLES = ("mulligan history src/auth.py", "mulligan history src/auth.py --json | jq '.versions[0].id'")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("path", metavar="PATH", help="a file, also one that is gone; renames are followed")
    group = parser.add_argument_group("which")
    group.add_argument("--all", action="store_true", help="also the states in which it was being written")
    project_option(group)


def run(args: argparse.Namespace, context: Context) -> int:
    """Asks for them and prints them."""
    result = context.call("file.history", all=args.all or None, **context.file(args, args.path))
    return context.emit(result, lambda found: _render(found, context))


def _render(result: JsonObject, context: Context) -> None:
    from mulligan.client.render.amounts import age, size  # noqa: PLC0415 - not for JSON
    from mulligan.client.render.evidence import doubt, is_known, prompt, who  # noqa: PLC0415
    from mulligan.client.render.table import Cell, Column, table  # noqa: PLC0415
    from mulligan.client.render.text import shown_path  # noqa: PLC0415

    def what(version: dict[str, Any]) -> str:
        if version.get("kind") == "absent":
            return "deleted"
        if version.get("kind") == "file":
            return size(int(version.get("size") or 0))
        return visible(str(version.get("reason") or version.get("kind")))

    columns = [
        Column("#", right=True), Column("when"), Column("by", minimum=8), Column("prompt", minimum=8),
        Column("size", right=True), Column("", minimum=8),
    ]  # fmt: skip
    rows = []
    for version in result.get("versions") or []:
        number = version.get("ordinal")
        name = str(number) if number is not None else str(version.get("id"))
        notes = [doubt(version)]
        if version.get("renamed_from"):
            notes.append(f"was {shown_path(version, 'renamed_from')}")
        rows.append([
            Cell(name),
            Cell(age(version.get("timestamp"), context.now()), "dim"),
            Cell(who(version), "" if is_known(version) else "dim"),
            Cell(prompt(version)),
            Cell(what(version), "loss" if version.get("kind") == "absent" else "dim"),
            Cell("  ".join(note for note in notes if note), "look"),
        ])  # fmt: skip
    if not any(row[-1].text for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    context.lines(table(columns, rows, context.width, context.palette))
