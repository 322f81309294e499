"""`mulligan show`: everything about one checkpoint, with its files."""

from __future__ import annotations

import argparse
from typing import Any

from mulligan.client.arguments import project_option, session_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.text import pad, shown_path, visible

SUMMARY = "Shows everything about one checkpoint, with its changes and its files."
EXAMPLES = ("mulligan show 14", "mulligan show prompt:-1 --json")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("id", metavar="ID", help="number, id or its beginning, @, @~2, latest, 10m, prompt:-1, a time")
    group = parser.add_argument_group("how")
    group.add_argument("-p", "--patch", action="store_true", help="the changes as a patch, instead of the files")
    group = parser.add_argument_group("which")
    project_option(group)
    session_option(group)


def run(args: argparse.Namespace, context: Context) -> int:
    """Asks for it and prints it."""
    result = context.call("checkpoint.show", id=args.id, patch=args.patch or None, **context.where(args))
    return context.emit(result, lambda found: _render(found, args, context))


def _render(result: JsonObject, args: argparse.Namespace, context: Context) -> None:
    from mulligan.client.render.amounts import counted, size  # noqa: PLC0415 - not for JSON

    checkpoint, files = result.get("checkpoint") or {}, result.get("files") or []
    for label, text in _facts(checkpoint, context):
        context.line(context.palette.paint(pad(label, 12), "dim") + text)
    if state := _state(result):
        context.line(context.palette.paint(pad("state", 12), "dim") + state)
    for entry in checkpoint.get("incomplete_paths") or []:
        reason = visible(str(entry.get("reason") or "")) if isinstance(entry, dict) else ""
        context.line(f"incomplete  {shown_path(entry)}: {reason}", "look")
    for entry in checkpoint.get("special") or []:
        context.line(f"special     {shown_path(entry)}", "dim")
    for file in files:
        if file.get("damaged"):
            context.line(f"damaged     {shown_path(file, 'file_path')}: {visible(str(file['damaged']))}", "loss")
    for warning in result.get("warnings") or []:
        context.line(f"warning     {visible(str(warning))}", "look")
    _changes(result.get("changes") or {}, args, context)
    if args.patch:
        return
    total = sum(int(file.get("size") or 0) for file in files)
    context.line()
    context.line(
        context.palette.paint(f"{counted(len(files), 'entry').replace('entrys', 'entries')}, {size(total)}", "dim")
    )
    widest = max([0, *(len(_amount(file)) for file in files)])
    context.lines([_file_line(file, widest) for file in files])


def _state(result: JsonObject) -> str:
    """What the session was doing, in a line."""
    from mulligan.client.render.state import summary_line  # noqa: PLC0415 - not for JSON

    return summary_line(result) if result.get("state") else ""


def _changes(changes: dict[str, Any], args: argparse.Namespace, context: Context) -> None:
    from mulligan.client.render.diffs import coloured, content, in_order, stat  # noqa: PLC0415

    files = [file for _, file in in_order(changes)]
    if files:
        context.line()
        context.lines(stat(changes, context.width, context.palette))
    if files and args.patch:
        context.line()
        context.out.write(coloured(b"".join(map(content, files)), context.palette))


def _facts(checkpoint: dict[str, Any], context: Context) -> list[tuple[str, str]]:
    """(label, text) of the lines at the top; only what is known."""
    from mulligan.client.render.amounts import ago  # noqa: PLC0415
    from mulligan.client.render.checkpoints import by, changes, marks, number  # noqa: PLC0415

    metadata, tool, git = (checkpoint.get(key) or {} for key in ("metadata", "tool", "git"))
    when = str(checkpoint.get("timestamp") or "")
    facts = [
        ("checkpoint", f"{number(checkpoint)}  {checkpoint.get('id', '')}  {marks(checkpoint)}".rstrip()),
        ("when", f"{when} ({ago(when, context.now())})"),
        ("by", f"{by(checkpoint)} ({checkpoint.get('trigger', '')}, placed by {checkpoint.get('placement') or '?'})"),
        ("text", str(checkpoint.get("description") or "")),
        ("prompt", str(metadata.get("user_prompt") or "")),
        ("tool", " ".join(str(tool[key]) for key in ("name", "id") if tool.get(key)) + _of_call(tool)),
        ("model", str(metadata.get("model_used") or "")),
        ("tokens", _tokens(metadata)),
        ("changes", changes(checkpoint)),
        ("parent", str(checkpoint.get("parent_checkpoint_id") or "")),
        ("session", str(checkpoint.get("session_id") or "")),
        ("project", context.short(str(checkpoint.get("project_path") or ""))),
        ("git", " ".join(str(git[key]) for key in ("branch", "head") if git.get(key))),
        ("tree", str(checkpoint.get("tree") or "")),
    ]
    return [(label, visible(text)) for label, text in facts if text]


def _of_call(tool: dict[str, Any]) -> str:
    words = [word for key, word in (("is_error", "failed"), ("unguarded", "unguarded")) if tool.get(key)]
    return f" ({', '.join(words)})" if words else ""


def _tokens(metadata: dict[str, Any]) -> str:
    if not metadata.get("total_tokens"):
        return ""
    names = {
        "input": "input_tokens",
        "output": "output_tokens",
        "cache write": "cache_creation_tokens",
        "cache read": "cache_read_tokens",
    }
    parts = [f"{name} {int(metadata[key]):,}" for name, key in names.items() if metadata.get(key)]
    return f"{int(metadata['total_tokens']):,}" + (f" ({', '.join(parts)})" if parts else "")


def _file_line(file: dict[str, Any], widest: int) -> str:
    path = shown_path(file, "file_path")
    if file.get("is_deleted"):
        return f"deleted  {'':>{widest}}  {path}"
    mode = file.get("permissions")
    shown = f"{mode & 0o7777:04o}" if isinstance(mode, int) else visible(str(mode or "----"))
    return f"{shown:<7}  {_amount(file):>{widest}}  {path}"


def _amount(file: dict[str, Any]) -> str:
    from mulligan.client.render.amounts import size  # noqa: PLC0415

    kind = visible(str(file.get("kind") or "file"))
    return size(int(file.get("size") or 0)) if kind == "file" else kind
