"""`mulligan fork`: another way on from a checkpoint, with its files, conversation and task state."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import asking_options, project_option, session_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.amounts import counted
from mulligan.client.render.conversation import conversation_lines, resume_lines
from mulligan.client.render.plan import done_words, not_done, plan_lines, target_line
from mulligan.client.render.state import brought_lines, carried_lines
from mulligan.client.render.text import visible

SUMMARY = "Branches off at a checkpoint: its files in a directory of their own, and a conversation that goes on there."
EXAMPLES = ("mulligan fork 11", 'mulligan fork prompt:-1 -m "with a token bucket"')


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("id", metavar="ID", help="number, id or its beginning, @, @~2, latest, 10m, prompt:-1, a time")
    group = parser.add_argument_group("where")
    place = group.add_mutually_exclusive_group()
    place.add_argument("--into", metavar="DIR", help="absent or empty (default: ../<project>-<name or short id>)")
    place.add_argument("--in-place", action="store_true", help="in the project itself, which is restored; asks")
    group.add_argument("-m", "--name", metavar="NAME", help="what it is for: names directory, branch and conversation")
    group = parser.add_argument_group("how")
    asking_options(group)
    group.add_argument("--force", action="store_true", help="with --in-place, as for restore")
    group = parser.add_argument_group("which")
    project_option(group)
    session_option(group)


def run(args: argparse.Namespace, context: Context) -> int:
    """Forks; exit 3 if a part is not there, the conversation too, with every such part named."""
    params = {
        "id": args.id,
        "into": context.absolute(args.into) if args.into else None,
        "in_place": args.in_place or None,
        "name": args.name,
        "force": args.force or None,
        **context.where(args),
    }
    if not args.in_place:
        args.yes = True  # nothing is changed that anybody has
    result = context.confirmed(
        args,
        lambda: context.call("checkpoint.fork", **params, dry_run=True),
        lambda: context.call("checkpoint.fork", **params, confirmed=True),
        lambda planned: _plan(planned, context),
        f"mulligan fork {visible(args.id)} --in-place --yes",
    )
    if result is None:
        return 0
    status = context.emit(result, lambda done: _done(done, context))
    context.warnings(result)
    return status


def _plan(result: JsonObject, context: Context) -> None:
    if result.get("plan"):
        context.line(target_line(result, context.now()), "bold")
        context.line()
        context.lines(plan_lines(result["plan"], context.width, context.palette))
    else:
        context.line(f"Into {context.short(str(result.get('directory')))}", "bold")
        context.line()
        context.line(f"  files         {result.get('files_processed') or 0:,}")
    context.lines(conversation_lines(result))
    context.lines(carried_lines(result))
    context.lines([f"  {visible(str(warning))}" for warning in result.get("warnings") or []])


def _done(result: JsonObject, context: Context) -> None:
    from mulligan.client.render.checkpoints import number  # noqa: PLC0415 - not for JSON

    branch = number(result.get("checkpoint") or {})
    style = "look" if result.get("exit_status") else "safe"
    if result.get("plan"):
        context.line(f"forked in place, branch {branch}: {done_words(result['plan'])}", style)
        context.lines(not_done(result["plan"]))
    else:
        files = counted(result.get("files_processed") or 0, "file")
        context.line(f"forked into {context.short(str(result.get('directory')))}, branch {branch}: {files}", style)
    context.lines(brought_lines(result))
    context.lines(resume_lines(result, context.short))
