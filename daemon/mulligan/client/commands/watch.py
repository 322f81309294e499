"""`mulligan watch`: what happens, live, one line an event."""

from __future__ import annotations

import argparse
from typing import Any

from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.text import cut, pad, visible
from mulligan.errors import DaemonNotRunningError

SUMMARY = "Shows what happens, live, newest last; ends with Ctrl-C."
EXAMPLES = ("mulligan watch", "mulligan watch --json --topic checkpoint")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    group = parser.add_argument_group("which")
    group.add_argument("--topic", metavar="NAME", action="append", help="only events of this kind (may be repeated)")
    group.add_argument("--since", metavar="CURSOR", type=int, help="also the events after this cursor")


def run(args: argparse.Namespace, context: Context) -> int:
    """Subscribes and prints until interrupted; comes back with its cursor after it fell behind."""
    since: int | None = args.since
    while True:
        context.call("events.subscribe", topics=args.topic, since=since)
        behind = False
        for method, params in context.connection().notifications():
            since = params.get("cursor", since)
            if method == "lost":
                behind = True
                context.note("mulligan: too slow, some events may be missing")
                break
            if method == "event":
                _show(params, context)
        context.close()
        if not behind:
            raise DaemonNotRunningError("the daemon has gone", hint="run: mulligan start")


def _show(params: JsonObject, context: Context) -> None:
    if context.options.json:
        context.json(params)
    else:
        line = describe(params, context)
        context.line(cut(line, context.width) if context.out.isatty() else line)
    context.out.flush()


def describe(event: JsonObject, context: Context) -> str:
    """`14:03:09  checkpoint  14 prompt  ~/src/shop`: local time, topic, what is in it."""
    import time  # noqa: PLC0415

    from mulligan.client.render.amounts import seconds_of  # noqa: PLC0415

    moment = seconds_of(event.get("time") or event.get("timestamp"))
    clock = time.strftime("%H:%M:%S", time.localtime(moment)) if moment is not None else "--:--:--"
    rest = {
        key: value for key, value in event.items() if key not in {"cursor", "topic", "time", "timestamp", "project"}
    }
    words = [_word(key, value) for key, value in rest.items() if value not in (None, "", [], {})]
    if project := event.get("project"):
        words.append(context.short(str(project)))
    return f"{clock}  {pad(visible(str(event.get('topic', '?'))), 10)}  {'  '.join(words)}"


def _word(key: str, value: Any) -> str:
    if key in {"state", "trigger", "message", "reason", "description", "path", "id"}:
        return visible(str(value))
    if isinstance(value, bool):
        value = str(value).lower()
    if isinstance(value, list):
        value = " ".join(str(each) for each in value)
    return f"{visible(key)} {visible(str(value))}"
