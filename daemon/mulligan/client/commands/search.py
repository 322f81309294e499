"""`mulligan search`: when a text appeared and vanished, over all versions and prompts."""

from __future__ import annotations

import argparse
from typing import Any

from mulligan.client.arguments import project_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.errors import UsageError
from mulligan.session_ids import short_session

SUMMARY = "Finds a text in every version of every file and in the prompts: when it appeared, and when it vanished."
EXAMPLES = ("mulligan search 'def login'", "mulligan search --regex 'TODO|FIXME' --path '*.py' --since 2d")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("text", metavar="TEXT", help="what to look for, as it stands")
    group = parser.add_argument_group("how")
    group.add_argument("--regex", action="store_true", help="TEXT is a regular expression; ^ and $ are a line's ends")
    group.add_argument("--path", metavar="GLOB", action="append", help="only in such paths; may be given again")
    group.add_argument("--since", metavar="AGE", help="only what appeared or vanished since then: 5m, 2h, 3d, a time")
    group.add_argument("--limit", metavar="N", type=int, help="at most N places (default: 100)")
    group = parser.add_argument_group("which")
    project_option(group)


def run(args: argparse.Namespace, context: Context) -> int:
    """Asks for the places and prints them."""
    try:
        args.text.encode()
    except UnicodeEncodeError:
        raise UsageError("the text is not UTF-8", hint="search for a part of it that is") from None
    result = context.call(
        "file.search",
        project=context.project(args),
        text=args.text,
        regex=args.regex or None,
        paths=args.path or None,
        since=args.since,
        limit=args.limit,
    )
    return context.emit(result, lambda found: _render(found, context))


def _render(result: JsonObject, context: Context) -> None:
    from mulligan.client.render.amounts import ago, counted  # noqa: PLC0415 - not for JSON
    from mulligan.client.render.evidence import moment, origin  # noqa: PLC0415
    from mulligan.client.render.text import cut, shown_path, visible  # noqa: PLC0415

    def event(word: str, item: dict[str, Any], style: str, renamed: str = "") -> None:
        said = f"{moment(item, context.now())}  {renamed}{origin(item)}"
        context.line(f"  {context.palette.paint(f'{word:<8}', style)}  {cut(said, max(20, context.width - 12))}")

    matches, prompts = result.get("matches") or [], result.get("prompts") or []
    for match in matches:
        head = f"{shown_path(match)}:{match.get('line_number')}"
        text = visible(str(match.get("line") or "").strip())
        context.line(context.palette.paint(head, "bold") + "  " + cut(text, max(20, context.width - len(head) - 2)))
        renamed = f"was {shown_path(match, 'renamed_from')}  " if match.get("renamed_from") else ""
        event("appeared", match.get("appeared") or {}, "safe", renamed)
        if match.get("vanished"):
            event("vanished", match["vanished"], "loss")
            last = match.get("last") or {}
            name = last["ordinal"] if last.get("ordinal") is not None else visible(str(last.get("id")))
            context.line(f"  last in   {name}:{shown_path(match)}")
    for found in prompts:
        text = " ".join(str(found.get("prompt") or "").split())
        head = f"prompt:{found.get('prompt_number')}  {short_session(str(found.get('session_id')))}"
        said = f'{head}  {ago(found.get("timestamp"), context.now())}  "{visible(text)}"'
        context.line(cut(said, context.width))
    index = result.get("index") or {}
    if not matches and not prompts:
        context.note(f'"{visible(str(result.get("text")))}" was never here, as far as was looked')
    if not index.get("available", True):
        context.note(f"mulligan: there is no index: {visible(str(index.get('reason')))}")
    if result.get("cut"):
        context.note("mulligan: there is more: --limit, --path or --since")
    if unsearched := result.get("unsearched_paths"):
        behind = int(index.get("pending") or 0)
        why = f"; the index has {counted(behind, 'version')} to take in" if behind else ""
        context.note(f"mulligan: {counted(unsearched, 'path')} were not looked at for want of time{why}")
