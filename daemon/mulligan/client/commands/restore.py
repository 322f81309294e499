"""`mulligan restore`: files back to what they were at a checkpoint."""

from __future__ import annotations

import argparse
import time

from mulligan.client.arguments import PATHS_HELP, asking_options, project_option, session_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.conversation import conversation_lines, resume_lines
from mulligan.client.render.plan import (
    done_words,
    grouped_lines,
    not_done,
    other_warnings,
    side_effect_lines,
    target_line,
)
from mulligan.client.render.state import brought_lines, carried_lines
from mulligan.client.render.text import visible, word
from mulligan.errors import PartialError

SUMMARY = "Makes the project's files exactly what they were at a checkpoint; what was unknown then is left alone."
EXAMPLES = ("mulligan restore 11 --conversation", "mulligan restore 10m src/auth.py 'docs/*.md' --dry-run")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("id", metavar="ID", help="number, id or its beginning, @, @~2, latest, 10m, prompt:-1, a time")
    parser.add_argument("paths", metavar="PATH", nargs="*", help=PATHS_HELP)
    group = parser.add_argument_group("how")
    asking_options(group)
    group.add_argument(
        "--keep-others", action="store_true", help="take back only what the session's calls have changed since"
    )
    group.add_argument(
        "--force",
        action="store_true",
        help="also what the daemon would rather leave alone, and while an agent is at work",
    )
    talk = parser.add_argument_group("the conversation").add_mutually_exclusive_group()
    talk.add_argument("--conversation", action="store_true", help="also a copy of it up to there, to be resumed")
    talk.add_argument("--conversation-only", action="store_true", help="only that copy; no file is touched")
    group = parser.add_argument_group("the task state")
    group.add_argument("--state", action="store_true", help="also what the session was doing then (see mulligan state)")
    group = parser.add_argument_group("which")
    project_option(group)
    session_option(group)


def run(args: argparse.Namespace, context: Context) -> int:
    """Shows the plan, asks, restores; exit 3 if something was left out, with every such path named."""
    params = {
        "id": args.id,
        "force": args.force or None,
        "keep_others": args.keep_others or None,
        "conversation": args.conversation or None,
        "conversation_only": args.conversation_only or None,
        "state": args.state or None,
        "caller": context.agent_session,
        **context.where(args),
        **context.paths(args.paths),
    }
    started = 0.0

    def act() -> JsonObject:
        nonlocal started
        started = time.monotonic()
        return context.call("checkpoint.restore", **params, confirmed=True)

    result = context.confirmed(
        args,
        lambda: context.call("checkpoint.restore", **params, dry_run=True),
        act,
        lambda planned: _plan(planned, args, context),
        " ".join(["mulligan restore", *map(word, [args.id, *args.paths]), "--yes"]),
    )
    if result is None:
        return 0
    elapsed = time.monotonic() - started
    status = context.emit(result, lambda done: _done(done, elapsed, args, context))
    context.warnings({"warnings": other_warnings(result)})
    skipped = (result.get("plan") or {}).get("skipped")
    return status or (PartialError.exit_status if skipped else 0)


def _plan(result: JsonObject, args: argparse.Namespace, context: Context) -> None:
    context.line(target_line(result, context.now()), "bold")
    context.line()
    if not args.conversation_only:
        context.lines(grouped_lines(result.get("plan") or {}, context.width, context.palette, context.now()))
    context.lines(conversation_lines(result))
    context.lines(carried_lines(result))
    context.lines([f"  {visible(str(warning))}" for warning in other_warnings(result)])
    if effects := side_effect_lines(result, context.now(), context.width):
        context.lines(["", *effects])
    if not args.conversation_only:
        context.line()
        context.line("A checkpoint is taken first: `mulligan undo` brings all of it back.")


def _done(result: JsonObject, elapsed: float, args: argparse.Namespace, context: Context) -> None:
    from mulligan.client.render.checkpoints import number  # noqa: PLC0415 - not for JSON

    plan, checkpoint = result.get("plan") or {}, result.get("checkpoint") or {}
    if not args.conversation_only:
        proven = "" if plan.get("skipped") or result.get("exit_status") else ", read back and equal"
        context.line(
            f"restored {number(checkpoint)}: {done_words(plan)}{proven} ({elapsed:.2f} s)",
            "look" if plan.get("skipped") else "safe",
        )
        context.lines(not_done(plan))
        context.lines(side_effect_lines(result, context.now(), context.width))
    context.lines(brought_lines(result))
    context.lines(resume_lines(result, context.short))
    if not (args.conversation or args.conversation_only) and checkpoint.get("session_id", "manual") != "manual":
        context.line(f"conversation too: mulligan restore {visible(args.id)} --conversation", "dim")
