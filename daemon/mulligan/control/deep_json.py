"""Writing JSON of any depth: a timeline is as deep as its history is long, and the library gives up at a thousand.

The fast way is tried first; only a RecursionError leads here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def dumps(value: Any) -> str:
    """The JSON text of a value: ASCII, without blanks."""
    try:
        return json.dumps(value, separators=(",", ":"))
    except RecursionError:
        return "".join(_pieces(value))


def _pieces(value: Any) -> Iterator[str]:
    """The text in pieces, with the way down kept in a list instead of the call stack."""
    way: list[tuple[Iterator[Any], str]] = []
    current, waiting = value, True
    first = True
    while True:
        if waiting:
            if not _is_flat(current):
                pairs = isinstance(current, dict)
                yield "{" if pairs else "["
                way.append(
                    (iter(current.items()) if isinstance(current, dict) else iter(current), "}" if pairs else "]")
                )
                first = True
            else:
                yield json.dumps(current, separators=(",", ":"))
                first = False
        if not way:
            return
        items, end = way[-1]
        try:
            item = next(items)
        except StopIteration:
            way.pop()
            yield end
            waiting, first = False, False
            continue
        if not first:
            yield ","
        if end == "}":
            key, current = item
            yield json.dumps(str(key)) + ":"
        else:
            current = item
        waiting = True


def _is_flat(value: Any, depth: int = 3) -> bool:
    """Whether a value is at most so deep; then the library does all of it, ten times as fast."""
    if not isinstance(value, dict | list | tuple):
        return True
    return depth > 0 and all(
        _is_flat(each, depth - 1) for each in (value.values() if isinstance(value, dict) else value)
    )
