"""`mulligan session`: the agents' sessions in a project."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import Command, project_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.amounts import age, ago, tokens
from mulligan.client.render.table import Cell, Column, table
from mulligan.client.render.text import pad, shown_path, visible
from mulligan.session_ids import short_session

SUMMARY = "Shows the agents' sessions that were seen in a project."


def _configure_list(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which")
    project_option(group)
    group.add_argument("--all", action="store_true", help="of all projects")


def list_(args: argparse.Namespace, context: Context) -> int:
    """Lists sessions, the most recently active first."""
    result = context.call("session.list", project=context.project(args), all=args.all or None)
    return context.emit(result, lambda found: _render_list(found, args.all, context))


def _render_list(result: JsonObject, everywhere: bool, context: Context) -> None:
    sessions = result.get("sessions") or []
    if not sessions:
        context.note("no sessions yet: they appear when an agent works in a project")
        return
    columns = [Column("session"), Column("active"), Column("strategy"), Column("prompts", True), Column("calls", True)]
    columns += [Column("tokens", True), Column("project" if everywhere else "last prompt", minimum=12)]
    rows = []
    for session in sessions:
        metadata = session.get("metadata") or {}
        last = context.short(str(session.get("project_path") or "")) if everywhere else metadata.get("user_prompt")
        rows.append(
            [
                Cell(short_session(str(session.get("id", "?"))), "safe" if session.get("at_work") else ""),
                Cell(age(session.get("last_activity"), context.now()), "dim"),
                Cell(str(session.get("strategy") or "")),
                Cell(f"{int(session.get('prompts') or 0):,}"),
                Cell(f"{int(session.get('calls') or 0):,}"),
                Cell(tokens(int(metadata.get("total_tokens") or 0))),
                Cell(str(last or "").strip()),
            ]
        )
    context.lines(table(columns, rows, context.width, context.palette))


def _configure_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID", nargs="?", help="the session (default: the latest one)")
    project_option(parser.add_argument_group("which"))


def show(args: argparse.Namespace, context: Context) -> int:
    """Shows one session."""
    result = context.call("session.show", **context.where(args))
    return context.emit(result, lambda found: _render(found, context))


def _render(result: JsonObject, context: Context) -> None:
    session = result.get("session") or {}
    metadata = session.get("metadata") or {}
    last = session.get("last_activity")
    facts = [
        ("session", str(session.get("id", ""))),
        ("project", context.short(str(session.get("project_path") or ""))),
        ("active", (ago(last, context.now()) if last else "") + (", at work" if session.get("at_work") else "")),
        ("strategy", str(session.get("strategy") or "")),
        ("prompts", f"{int(session.get('prompts') or 0):,}"),
        ("calls", f"{int(session.get('calls') or 0):,}"),
        ("tokens", f"{int(metadata.get('total_tokens') or 0):,}"),
        ("model", str(metadata.get("model_used") or "")),
        ("last prompt", str(metadata.get("user_prompt") or "")),
        ("current", str(session.get("current_checkpoint_id") or "")),
        ("transcript", context.short(str(session.get("transcript") or ""))),
    ]
    context.lines([context.palette.paint(pad(label, 13), "dim") + visible(text) for label, text in facts if text])
    for number, shared in enumerate(session.get("shared_files") or []):
        label = "shared files" if number == 0 else ""
        name = short_session(visible(str(shared.get("session_id") or "")))
        other = f"with {name}, {ago(shared.get('timestamp'), context.now())}"
        context.line(context.palette.paint(pad(label, 13), "look") + f"{shown_path(shared)}  {other}")


def _configure_forget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID", help="the session, or a unique prefix")
    project_option(parser.add_argument_group("which"))


def forget(args: argparse.Namespace, context: Context) -> int:
    """Takes a session for ended."""
    result = context.call("session.forget", **context.where(args))
    return context.emit(result, lambda found: _forgotten(found, context))


def _forgotten(result: JsonObject, context: Context) -> None:
    session = short_session(visible(str((result.get("session") or {}).get("id", ""))))
    context.line(f"forgot {session}: its calls are closed; what it did stays recorded", "safe")


ACTIONS = {
    "list": Command(
        "Lists the sessions of a project, the most recently active first.",
        ("mulligan session list", "mulligan session list --all"),
        _configure_list,
        list_,
    ),
    "show": Command(
        "Shows one session: strategy, prompts, calls, tokens, model, where it is.",
        ("mulligan session show", "mulligan session show s9f3 --json"),
        _configure_show,
        show,
    ),
    "forget": Command(
        "Takes a session for ended, as after its client was killed; what was recorded of it stays.",
        ("mulligan session forget s9f3", "mulligan session forget s9f3 --json"),
        _configure_forget,
        forget,
    ),
}
