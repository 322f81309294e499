"""`mulligan settings`: when checkpoints are taken and how much a project may take, for a session, a project or all."""

from __future__ import annotations

import argparse
from typing import Any

from mulligan.client.arguments import Command, project_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.table import Cell, Column, table
from mulligan.client.render.text import visible
from mulligan.errors import UsageError

SUMMARY = "Shows and changes when checkpoints are taken, and how much a project may take of the store."
KEYS = "strategy, auto_checkpoint, turn_end or project_budget_bytes"
SCOPES = ("session", "project", "global")


def _scope(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("for what")
    group.add_argument("--scope", choices=SCOPES, help="default: project; with --session: session")
    group.add_argument("--session", metavar="ID", help="one session")
    project_option(group)


def _params(args: argparse.Namespace, context: Context) -> JsonObject:
    scope = args.scope or ("session" if args.session else None)
    if args.session and scope != "session":
        raise UsageError(f"--session does not go with --scope {scope}", hint="leave one of them out")
    return {**context.where(args), "scope": scope}


def shown(value: Any) -> str:
    """A value as it would be typed."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _configure_get(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", nargs="?", help="only this one")
    _scope(parser)


def get(args: argparse.Namespace, context: Context) -> int:
    """Shows values and where they come from."""
    result = context.call("settings.get", key=args.key, **_params(args, context))

    def render(found: JsonObject) -> None:
        rows = []
        for key, item in (found.get("settings") or {}).items():
            value, source = (item.get("value"), item.get("source")) if isinstance(item, dict) else (item, "")
            rows.append([Cell(key), Cell(shown(value), "bold"), Cell(str(source or ""), "dim")])
        columns = [Column("setting"), Column("value", minimum=8), Column("from", minimum=8)]
        context.lines(table(columns, rows, context.width, context.palette))

    return context.emit(result, render)


def _configure_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", help=KEYS)
    words = "manual, per_prompt, per_tool_use, smart; true or false; a size such as 2GiB, or null"
    parser.add_argument("value", metavar="VALUE", help=words)
    _scope(parser)


def set_(args: argparse.Namespace, context: Context) -> int:
    """Changes a value; it holds from the next event on."""
    value: str | bool = {"true": True, "false": False}.get(args.value.lower(), args.value)
    result = context.call("settings.set", key=args.key, value=value, **_params(args, context))

    def render(found: JsonObject) -> None:
        scope = visible(str(found.get("scope") or args.scope or "project"))
        context.line(f"{visible(args.key)} = {visible(shown(found.get('value', value)))} ({scope})")

    return context.emit(result, render)


def _configure_unset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", help=KEYS)
    _scope(parser)


def unset(args: argparse.Namespace, context: Context) -> int:
    """Takes a value back; the next wider scope holds again."""
    result = context.call("settings.unset", key=args.key, **_params(args, context))

    def render(found: JsonObject) -> None:
        was = "unset" if found.get("removed", True) else "was not set"
        context.line(f"{visible(args.key)} {was} ({visible(str(found.get('scope') or 'project'))})")

    return context.emit(result, render)


ACTIONS = {
    "get": Command(
        "Shows what is in effect and where it comes from.",
        ("mulligan settings get", "mulligan settings get strategy --session s9f3"),
        _configure_get,
        get,
    ),
    "set": Command(
        "Changes a setting for this project, for a session or for everything.",
        ("mulligan settings set strategy per_prompt", "mulligan settings set turn_end false --scope global"),
        _configure_set,
        set_,
    ),
    "unset": Command(
        "Takes a setting back, so that the next wider one holds again.",
        ("mulligan settings unset strategy", "mulligan settings unset strategy --scope global"),
        _configure_unset,
        unset,
    ),
}
