"""Sizes and durations as people write them: `512 MiB`, `10GB`, `30m`, `1h30m`."""

from __future__ import annotations

import re
from fractions import Fraction

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
_UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}

#: Regular expressions that JSON Schema reads as well; a bare number is no duration, since nobody can see its unit.
SIZE_PATTERN = r"^[0-9]{1,12}(\.[0-9]{1,6})? ?(B|[KMGT]iB|[kMGT]B)$"
DURATION_PATTERN = r"^([0-9]{1,6}d)?([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}s)?$"


def parse_size(text: str) -> int:
    """Bytes of a size with its unit, rounded down. Raises ValueError."""
    if not re.fullmatch(SIZE_PATTERN[1:-1], text):
        raise ValueError(f"not a size: {text!r}")
    number, unit = re.fullmatch(r"([0-9.]+) ?([A-Za-z]+)", text).groups()  # type: ignore[union-attr]
    return int(Fraction(number) * _UNITS[unit])


def parse_duration(text: str) -> int:
    """Seconds of a duration, its units from the largest to the smallest, each once. Raises ValueError."""
    if not text or not re.fullmatch(DURATION_PATTERN[1:-1], text):
        raise ValueError(f"not a duration: {text!r}")
    return sum(int(number) * _SECONDS[unit] for number, unit in re.findall(r"([0-9]+)([dhms])", text))


def show_duration(seconds: int) -> str:
    """The shortest text that `parse_duration` reads as the same number of seconds."""
    parts = []
    for unit, length in _SECONDS.items():
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
