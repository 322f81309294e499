"""`mulligan integrate`: what an agent needs to know of mulligan, put into its settings and taken out again."""

from __future__ import annotations

import argparse
from typing import Any

from mulligan.client.arguments import Command
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.text import visible
from mulligan.errors import MulliganError

SUMMARY = "Gives an agent hooks, commands and a status line; everything works without, less exactly."


def _configure(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where")
    scope = group.add_mutually_exclusive_group()
    scope.add_argument(
        "--user", action="store_const", dest="scope", const="user", help="in your own settings (default)"
    )
    scope.add_argument(
        "--project", action="store_const", dest="scope", const="project", help="in the settings of this project"
    )
    how = parser.add_argument_group("how")
    how.add_argument("--remove", action="store_true", help="take it out again, and nothing else")
    how.add_argument("--dry-run", action="store_true", help="show what would change and change nothing")
    parser.set_defaults(scope="user")


def claude(args: argparse.Namespace, context: Context) -> int:
    """Installs the plugin for Claude Code, or takes it out; exit 4 for settings that are broken."""
    from mulligan.agents import claude_integration as integration  # noqa: PLC0415 - this agent alone

    what = "hooks, /mulligan:checkpoint, /mulligan:undo, /mulligan:timeline, a skill, MCP"
    return _integrate("claude", integration, what, args, context)


def opencode(args: argparse.Namespace, context: Context) -> int:
    """Installs the plugin for OpenCode and the MCP server, or takes them out; exit 4 for what is not to be touched."""
    from mulligan.agents import opencode_integration as integration  # noqa: PLC0415 - this agent alone

    return _integrate("opencode", integration, "a plugin beside it, and the MCP server", args, context)


def _integrate(agent: str, integration: Any, what: str, args: argparse.Namespace, context: Context) -> int:
    """Plan with the agent's module, carry it out unless it is only looked at, and say what there is now."""
    make = integration.remove if args.remove else integration.integrate
    try:
        made = make(args.scope, context.directory(), context.environ)
        if not args.dry_run:
            integration.carry_out(made, context.environ)
    except OSError as error:
        hint = f"mulligan integrate {agent} --dry-run"
        raise MulliganError(f"{error.filename}: {error.strerror}", hint=hint) from None
    result: JsonObject = {
        "agent": agent,
        "scope": args.scope,
        "settings": made.settings,
        "plugin": made.plugin,
        "removed": bool(args.remove),
        "changed": made.changed,
        "dry_run": bool(args.dry_run),
        "files": [*(file.path for file in made.plan.files), *made.plan.removals],
        "warnings": list(made.plan.notes),
    }

    def show(_: JsonObject) -> None:
        if args.dry_run:
            _show_difference(made.before or "", made.after or "", made.settings, context)
            for path in result["files"]:
                context.line(f"# {'write' if path not in made.plan.removals else 'remove'} {context.short(path)}")
            if made.forsaken:
                context.line(f"# remove {context.short(made.plugin)}")
            return
        place = context.short(made.settings)
        if not made.changed:
            context.line(f"{place}: nothing to do")
        elif args.remove:
            context.line(f"{place}: as it was without mulligan")
        else:
            context.line(f"{place}: {what}")
            context.line("A client that runs takes it up when it is started again.", "dim")

    status = context.emit(result, show)
    context.warnings(result)
    return status


def _show_difference(before: str, after: str, name: str, context: Context) -> None:
    import difflib  # noqa: PLC0415 - for people who look first

    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="")
    context.lines([visible(line, keep="\t") for line in lines])


ACTIONS = {
    "claude": Command(
        "Installs a plugin for Claude Code: hooks for exact moments, commands, a skill, the MCP server, a status line.",
        ("mulligan integrate claude", "mulligan integrate claude --remove --dry-run"),
        _configure,
        claude,
    ),
    "opencode": Command(
        "Installs a plugin for OpenCode, which tells what its sessions do, and the MCP server.",
        ("mulligan integrate opencode --project", "mulligan integrate opencode --remove --dry-run"),
        _configure,
        opencode,
    ),
}
