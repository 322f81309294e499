"""`mulligan hook`: what an agent's hook runs."""

from __future__ import annotations

import argparse

from mulligan.client.context import Context

SUMMARY = "Tells the daemon what an agent gave its hook on stdin; silent, always exit 0, 200 ms at the most."
EXAMPLES = ("mulligan hook PreToolUse < input.json", "mulligan integrate claude    (installs a faster way to this)")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    # an agent takes a usage error (2) for a refusal: whatever is typed, there is none
    parser.add_argument("event", metavar="EVENT", nargs="?", default="", help="the agent's name of the event")
    parser.add_argument("others", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(args: argparse.Namespace, context: Context) -> int:
    """The hook program in this process, which it ends."""
    from posix import environ  # noqa: PLC0415 - what the program reads; os.environ is another

    from mulligan.agents import hook  # noqa: PLC0415 - the command alone

    if context.options.socket:
        environ[b"MULLIGAN_SOCKET"] = context.options.socket.encode("utf-8", "surrogateescape")
    hook.run([args.event])
    return 0
