"""`mulligan cat`: the bytes of one version of a file."""

from __future__ import annotations

import argparse
import base64
import re

from mulligan.client.arguments import project_option, session_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.text import visible
from mulligan.errors import UsageError

SUMMARY = "Prints a file as it was at a checkpoint, byte for byte."
EXAMPLES = ("mulligan cat 14:src/auth.py", "mulligan cat @~2:logo.png > logo.png")
#: A position, then the path; positions may hold a colon themselves.
_NAME = re.compile(
    r"(prompt:-?\d+|row:\d+|\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)?)?|[^:]+):(.+)", re.DOTALL | re.ASCII
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("name", metavar="ID:PATH", help="a checkpoint or prompt:N or row:N, and a path")
    group = parser.add_argument_group("which")
    project_option(group)
    session_option(group)


def run(args: argparse.Namespace, context: Context) -> int:
    """Asks for the bytes, piece by piece, and prints them."""
    match = _NAME.fullmatch(args.name)
    if match is None:
        raise UsageError(f'"{args.name}" names no version', hint="ID:PATH, such as mulligan cat 14:src/auth.py")
    name, path = match.groups()
    where = {"session": args.session, **context.file(args, path)}
    result = context.call("file.cat", id=name, **where)
    pieces, following = [_bytes(result)], result.get("next_offset")
    # the name is resolved once: `latest` may be another one by the next piece
    fixed = str(result.get("checkpoint_id") or name)
    while following:
        piece = context.call("file.cat", id=fixed, offset=following, **where)
        pieces.append(_bytes(piece))
        following = piece.get("next_offset")
    data = b"".join(pieces)
    if context.options.json:
        return context.emit({**result, **_content(data), "next_offset": None}, lambda _: None)
    _print(data, context)
    return 0


def _bytes(result: JsonObject) -> bytes:
    if encoded := result.get("content_b64"):
        return base64.b64decode(encoded)
    return str(result.get("content") or "").encode()


def _content(data: bytes) -> JsonObject:
    try:
        return {"content": data.decode()}
    except UnicodeDecodeError:
        return {"content": None, "content_b64": base64.b64encode(data).decode()}


def _print(data: bytes, context: Context) -> None:
    """As it is into a pipe, harmless on a terminal."""
    raw = getattr(context.out, "buffer", None)
    if raw is None or context.out.isatty():
        context.out.write(visible(data.decode("utf-8", "surrogateescape"), keep="\n\t"))
        return
    context.out.flush()
    raw.write(data)
