"""`mulligan blame`: who brought each line of a file."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import project_option, session_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context

SUMMARY = "Shows for each line of a file the prompt and the tool that brought it, and how sure that is."
EXAMPLES = ("mulligan blame src/auth.py", "mulligan blame src/auth.py --at 14")
#: Cells that are left for the text of a line, however narrow the terminal.
_LEAST_TEXT = 24


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("path", metavar="PATH", help="a file")
    group = parser.add_argument_group("which")
    group.add_argument("--at", metavar="ID", help="as it was there (default: as it is now)")
    project_option(group)
    session_option(group)


def run(args: argparse.Namespace, context: Context) -> int:
    """Asks for the lines and prints them."""
    result = context.call("file.blame", id=args.at, session=args.session, **context.file(args, args.path))
    return context.emit(result, lambda found: _render(found, context))


def _render(result: JsonObject, context: Context) -> None:
    from mulligan.client.render.evidence import is_known, origin_of_line, place  # noqa: PLC0415 - not for JSON
    from mulligan.client.render.text import cells, cut, pad, visible  # noqa: PLC0415

    lines = result.get("lines") or []
    digits = max([2, *(len(place(line)) for line in lines)])
    last = len(str(len(lines)))
    origins = [origin_of_line(line, context.now()) for line in lines]
    room = min(max([0, *map(cells, origins)]), max(16, context.width - digits - last - _LEAST_TEXT))
    for line, text in zip(lines, origins, strict=True):
        head = f"{place(line):>{digits}}  {pad(cut(text, room), room)}"
        said = visible(str(line.get("text") or ""), keep="\t")
        number = context.palette.paint(f"{line.get('line'):>{last}}", "place")
        context.line(f"{context.palette.paint(head, '' if is_known(line) else 'dim')}  {number}  {said}".rstrip())
