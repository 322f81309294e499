"""Times, sizes and counts in a few characters."""

from __future__ import annotations

import time

MINUTE, HOUR, DAY, WEEK = 60, 3600, 86400, 7 * 86400


def wall_seconds() -> float:
    """The wall clock, only to say how long ago something was; nothing is ordered or stored by it."""
    return time.time()  # noqa: TID251 - the client has no journal


def seconds_of(timestamp: str | None) -> float | None:
    """Seconds since the epoch of an RFC 3339 time of a reply; None if there is none or it cannot be read."""
    if not timestamp:
        return None
    from datetime import datetime  # noqa: PLC0415 - only text output needs it

    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def age(timestamp: str | None, now: float) -> str:
    """`now`, `5 s`, `4 min`, `1 h`, `3 d`, and after a week the local date; `-` without a time."""
    moment = seconds_of(timestamp)
    if moment is None:
        return "-"
    passed = now - moment
    if passed < 1:
        return "now"
    if passed >= WEEK:
        return time.strftime("%Y-%m-%d", time.localtime(moment))
    return coarse(passed)


def ago(timestamp: str | None, now: float) -> str:
    """The age in a sentence: `4 min ago`, `just now`, `on 2026-01-02`, `never`."""
    short = age(timestamp, now)
    if short == "-":
        return "never"
    if short == "now":
        return "just now"
    return f"on {short}" if short[:4].isdigit() and "-" in short else f"{short} ago"


def coarse(seconds: float) -> str:
    """A duration in its largest unit."""
    if seconds < MINUTE:
        return f"{int(seconds)} s"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} min"
    if seconds < DAY:
        return f"{int(seconds // HOUR)} h"
    return f"{int(seconds // DAY)} d"


def duration(seconds: float) -> str:
    """A duration in its two largest units: `3 d 4 h`."""
    parts: list[str] = []
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (1, "s")):
        count, seconds = divmod(seconds, unit)
        if count or (unit == 1 and not parts):
            parts.append(f"{int(count)} {name}")
        elif parts:
            break
    return " ".join(parts[:2])


def size(count: float) -> str:
    """Bytes in binary units, one decimal: `512 B`, `41.2 MiB`."""
    if count < 1024:
        return f"{int(count)} B"
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        count /= 1024
        if count < 1023.95 or unit == "PiB":
            break
    return f"{count:.1f} {unit}"


def tokens(count: int) -> str:
    """A count of tokens: `950`, `184k`, `1.2M`."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.0f}k" if count < 999_500 else f"{count / 1e6:.1f}M"


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 file`, `3,210 files`, `2 batches`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
