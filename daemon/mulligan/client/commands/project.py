"""`mulligan project`: which directories are protected."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import Command, project_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.amounts import age, counted
from mulligan.client.render.table import Cell, Column, table
from mulligan.client.render.text import shown_path, visible

SUMMARY = "Says which directories are protected, and changes that."


def _path(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", nargs="?", help="the project (default: the one of this directory)")


def _project(args: argparse.Namespace, context: Context) -> str:
    return context.absolute(args.path) if args.path else context.directory()


def _configure_add(parser: argparse.ArgumentParser) -> None:
    _path(parser)
    parser.add_argument_group("how").add_argument(
        "--no-wait", action="store_true", help="do not wait until everything was read for the first time"
    )


def add(args: argparse.Namespace, context: Context) -> int:
    """Protects a directory; returns when its first state is in the store."""
    path = _project(args, context)
    result = context.call("project.add", project=path, wait=not args.no_wait)

    def render(added: JsonObject) -> None:
        project = added.get("project") or {}
        shown = context.short(str(project.get("path") or path))
        if args.no_wait:
            context.line(f"added {shown}; its files are being read: mulligan status")
        else:
            context.line(f"protected {shown}  {counted(int(project.get('files') or 0), 'file')}", "safe")

    status = context.emit(result, render)
    context.warnings(result)
    return status


def _configure_remove(parser: argparse.ArgumentParser) -> None:
    _path(parser)
    group = parser.add_argument_group("how")
    group.add_argument("--purge", action="store_true", help="erase what was captured, too")
    group.add_argument("--dry-run", action="store_true", help="say what would happen and change nothing")
    group.add_argument("-y", "--yes", action="store_true", help="do it without asking")


def remove(args: argparse.Namespace, context: Context) -> int:
    """Protects a directory no longer, for good; asks only if its history is to be erased."""
    path = _project(args, context)

    def render(removed: JsonObject) -> None:
        shown = context.short(str(removed.get("removed") or path))
        if removed.get("dry_run"):
            context.line(f"{shown} would be watched no longer" + (", its history erased" if args.purge else ""))
        else:
            kept = "its history is erased" if args.purge else "what was captured stays"
            context.line(f"removed {shown}; {kept}, its files are untouched")

    if args.purge:
        result = context.confirmed(
            args,
            lambda: context.call("project.remove", project=path, purge=True, dry_run=True),
            lambda: context.call("project.remove", project=path, purge=True, confirmed=True),
            render,
            "mulligan project remove --purge --yes",
        )
        return 0 if result is None else context.emit(result, render)
    return context.emit(context.call("project.remove", project=path, dry_run=args.dry_run or None), render)


def _configure_exclude(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="PATH|GLOB", help="a directory, or a pattern of directories")


def exclude(args: argparse.Namespace, context: Context) -> int:
    """Keeps a directory from ever being protected on its own."""
    pattern = any(char in args.target for char in "*?[")
    target = args.target if pattern else context.absolute(args.target)
    result = context.call("project.exclude", target=target)
    return context.emit(result, lambda _: context.line(f"excluded {context.short(target)}"))


def _configure_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument_group("which").add_argument(
        "--found", action="store_true", help="also projects that old transcripts name and nobody protects"
    )


def list_(args: argparse.Namespace, context: Context) -> int:
    """Lists the projects."""
    result = context.call("project.list", found=args.found)
    return context.emit(result, lambda found: _render_list(found, context))


def _render_list(result: JsonObject, context: Context) -> None:
    now = context.now()
    columns = [Column("project", minimum=16), Column("state"), Column("files", True), Column("checkpoints", True)]
    columns.append(Column("captured"))
    rows = []
    known = [*(result.get("projects") or []), *({"state": "found", **item} for item in result.get("found") or [])]
    for project in known:
        state = str(project.get("state", "?"))
        files, checkpoints = project.get("files"), project.get("checkpoints")
        style = {"watching": "safe", "baseline": "look", "found": "dim", "excluded": "dim"}.get(state, "loss")
        rows.append(
            [
                Cell(context.short(shown_path(project))),
                Cell(state, style),
                Cell(f"{files:,}" if isinstance(files, int) else ""),
                Cell(f"{checkpoints:,}" if isinstance(checkpoints, int) else ""),
                Cell(age(project["last_capture"], now) if project.get("last_capture") else ""),
            ]
        )
    if not rows:
        context.note("no projects yet.    mulligan project add PATH")
        return
    context.lines(table(columns, rows, context.width, context.palette))


def _change(word: str, args: argparse.Namespace, context: Context) -> int:
    path = _project(args, context)
    result = context.call(f"project.{word}", project=path)

    def render(changed: JsonObject) -> None:
        project = changed.get("project") or {}
        state = visible(str(project.get("state") or f"{word}d"))
        context.line(f"{context.short(str(project.get('path') or path))} is {state}")

    return context.emit(result, render)


def pause(args: argparse.Namespace, context: Context) -> int:
    """Stops watching for a while."""
    return _change("pause", args, context)


def resume(args: argparse.Namespace, context: Context) -> int:
    """Watches again."""
    return _change("resume", args, context)


def _configure_import_opcode(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", metavar="DIR", nargs="?", help="a .timelines directory, or one in it (default: this project's)"
    )
    group = parser.add_argument_group("how")
    project_option(group)
    group.add_argument("--dry-run", action="store_true", help="say what would be imported and change nothing")


def import_opcode(args: argparse.Namespace, context: Context) -> int:
    """Imports opcode's checkpoints; exit 3 if one of them is not whole."""
    from mulligan.client.render.opcode import render_import  # noqa: PLC0415 - of this command alone

    where = {"path": context.absolute(args.path) if args.path else None}
    if args.project or not args.path:
        where["project"] = context.project(args)
    result = context.call("project.import_opcode", dry_run=args.dry_run or None, **where)
    return context.emit(result, lambda found: render_import(found, context))


ACTIONS = {
    "add": Command(
        "Protects a directory, and waits until its first state is in the store.",
        ("mulligan project add ~/src/shop", "mulligan project add --no-wait"),
        _configure_add,
        add,
    ),
    "remove": Command(
        "Stops protecting a directory, for good; its files are not touched.",
        ("mulligan project remove ~/src/shop", "mulligan project remove ~/src/shop --purge"),
        _configure_remove,
        remove,
    ),
    "exclude": Command(
        "Keeps a directory from ever being protected on its own.",
        ("mulligan project exclude ~/src/huge", "mulligan project exclude '~/tmp/*'"),
        _configure_exclude,
        exclude,
    ),
    "list": Command(
        "Lists the projects with their state.",
        ("mulligan project list", "mulligan project list --found"),
        _configure_list,
        list_,
    ),
    "pause": Command(
        "Stops watching a project until `resume`; the gap is recorded.",
        ("mulligan project pause", "mulligan project pause ~/src/shop"),
        _path,
        pause,
    ),
    "resume": Command(
        "Watches a paused project again.",
        ("mulligan project resume", "mulligan project resume ~/src/shop"),
        _path,
        resume,
    ),
    "import-opcode": Command(
        "Imports the checkpoints that opcode has kept of a project, into an archive beside it.",
        ("mulligan project import-opcode", "mulligan project import-opcode ~/.claude/projects/-src-shop/.timelines"),
        _configure_import_opcode,
        import_opcode,
    ),
}
