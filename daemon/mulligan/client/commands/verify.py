"""`mulligan verify`: every stored byte against its hash."""

from __future__ import annotations

import argparse
import contextlib

from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.text import shown_path, visible
from mulligan.errors import UsageError

SUMMARY = "Reads what is stored and compares it with its hashes; on request heals what is damaged."
EXAMPLES = ("mulligan verify --sample 5", "mulligan verify --repair")
#: Lines of one kind that are shown; --json has them all.
_SHOWN = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    group = parser.add_argument_group("how")
    group.add_argument("--sample", metavar="PERCENT", help="so much of the contents, by chance (default: all)")
    group.add_argument(
        "--repair",
        action="store_true",
        help="store damaged contents again, from files, other copies in the store, or git",
    )


def run(args: argparse.Namespace, context: Context) -> int:
    """Asks the daemon for it; exit 9 if something is left damaged, with every such path named."""
    sample = None if args.sample is None else _percent(args.sample)
    report = context.call("store.verify", sample=sample, repair=args.repair or None)
    return context.emit(report, lambda found: _render(found, context))


def _percent(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (percent := float(text.removesuffix("%"))) <= 100:
            return percent
    raise UsageError(f'--sample: "{text}" is no percentage', hint="a number above 0, and at most 100")


def _render(report: JsonObject, context: Context) -> None:
    from mulligan.client.render.amounts import counted  # noqa: PLC0415 - not for JSON

    damaged, digests, healed, store = (report.get(key) or [] for key in ("damaged", "digests", "healed", "store"))
    words = _looked_at(report)
    if healed:
        words += f"; {_contents(len(healed))} healed"
    if not damaged and not digests and not store:
        context.line(f"{words}; " + ("no damage is left" if healed else "all as it was stored"), "safe")
    else:
        context.line(f"{words}; {_contents(len(damaged))} damaged", "loss")
    lines = [f"the store: {visible(str(store))}"] if store else []
    lines += [visible(str(entry.get("reason", "?"))) for entry in digests]
    _list(context, lines)
    _list(context, [f"healed {_hash(entry)} from {visible(str(entry.get('from', '?')))}" for entry in healed])
    _list(context, [f"{_hash(entry)}: {visible(str(entry.get('reason', '?')))}" for entry in damaged])
    paths = report.get("paths") or []
    _list(context, sorted({f"{shown_path(entry)}  ({_root(entry, context)})" for entry in paths}))
    for entry in report.get("checkpoints") or []:
        count = counted(int(entry.get("damaged_files") or 0), "file")
        context.line(f"  checkpoint {entry.get('ordinal', '?')} of {_root(entry, context)}: {count} damaged", "loss")
    if damaged and not report.get("repair") and not store:
        context.note(
            "mulligan verify --repair looks for the same bytes: in files, in other copies in the store, in git"
        )


def _looked_at(report: JsonObject) -> str:
    from mulligan.client.render.amounts import counted, size  # noqa: PLC0415 - not for JSON

    seen, total = int(report.get("contents") or 0), int(report.get("total_contents") or 0)
    text = f"verified {_contents(seen)}, {size(report.get('bytes') or 0)}"
    if report.get("sample") is not None:
        share = f"{100 * seen / total:.1f} %" if total else "all"
        text = f"verified {seen:,} of {_contents(total)} ({share}), {size(report.get('bytes') or 0)}"
        text += f" of {size(report.get('total_bytes') or 0)}"
    looked, all_ = (int(report.get(f"checkpoints_{key}") or 0) for key in ("looked_at", "total"))
    return f"{text}, the log, " + (f"{looked:,} of " if looked < all_ else "") + counted(all_, "checkpoint")


def _contents(count: int) -> str:
    from mulligan.client.render.amounts import counted  # noqa: PLC0415 - not for JSON

    return counted(count, "content")


def _hash(entry: JsonObject) -> str:
    return visible(str(entry.get("hash") or "the log"))[:16]


def _root(entry: JsonObject, context: Context) -> str:
    return visible(context.short(str(entry.get("project_path") or "?")))


def _list(context: Context, lines: list[str]) -> None:
    for line in lines[:_SHOWN]:
        context.line(f"  {line}")
    if len(lines) > _SHOWN:
        context.line(f"  … and {len(lines) - _SHOWN:,} more (--json has them all)", "dim")
