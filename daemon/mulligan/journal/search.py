"""What to search for, and when it appeared and vanished. Pure: texts and rows in, places in time out.

An index of trigrams says which texts may hold something; whether they do is judged here, on the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from mulligan.errors import UsageError
from mulligan.model import Row

#: An index of trigrams knows nothing shorter.
LEAST = 3
_SPECIAL = frozenset("\\^$.|?*+()[]{}")
_OPTIONAL = frozenset("?*{")
#: A zero byte and halves of characters: what an index of text cannot be asked for.
_ODD = re.compile("[\0\ud800-\udfff]")
#: Characters of a line that are shown.
_SHOWN = 400


class Hit(msgspec.Struct, frozen=True):
    """The first line of a text that holds what was searched for; numbers begin at 1."""

    number: int
    line: str


class Query:
    """Something to search for: a text as it stands, or a regular expression in which ^ and $ are a line's ends.

    Raises UsageError for an empty text and for an expression that is none.
    """

    def __init__(self, text: str, *, regex: bool = False) -> None:
        if not text:
            raise UsageError("there is nothing to search for", hint="mulligan search TEXT")
        self.text, self.regex = text, regex
        self._raw = text.encode("utf-8", "surrogateescape")
        self._pattern: re.Pattern[str] | None = None
        if regex:
            try:
                self._pattern = re.compile(text, re.MULTILINE)
            except (re.error, RecursionError, OverflowError) as error:
                raise UsageError(
                    f"not a regular expression: {error}", hint="without --regex it is searched as it stands"
                ) from error

    @property
    def trigrams(self) -> list[str]:
        """What every text that fits has, in any case of letters; none says nothing about which texts fit."""
        runs = required(self.text) if self.regex else [self.text]
        found = {run[at : at + LEAST] for run in runs for at in range(len(run) - LEAST + 1)}
        return sorted(trigram for trigram in found if not _ODD.search(trigram))

    def find(self, data: bytes) -> Hit | None:
        """The first line in which it stands, or begins."""
        if self._pattern is None:
            at = data.find(self._raw)
            if at < 0:
                return None
            start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
            line = data[start : len(data) if end < 0 else end].decode("utf-8", "replace")
            return Hit(data.count(b"\n", 0, at) + 1, line[:_SHOWN])
        text = data.decode("utf-8", "replace")
        found = self._pattern.search(text)
        if found is None:
            return None
        start, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.start())
        return Hit(text.count("\n", 0, found.start()) + 1, text[start : len(text) if end < 0 else end][:_SHOWN])


def required(pattern: str) -> list[str]:
    """Texts that stand in everything that a regular expression matches, as far as a look at it can tell.

    Only what stands outside of groups and classes counts, and nothing of a pattern with alternatives or flags.
    """
    if "|" in pattern or "(?" in pattern:
        return []
    runs, run, depth, at = [], "", 0, 0
    while at < len(pattern):
        char = pattern[at]
        literal, size = ("", 1)
        if char == "\\":
            following = pattern[at + 1 : at + 2]
            literal, size = ("" if following.isalnum() else following), 2
        elif char == "[":
            size = _class_length(pattern, at)
        elif char == "{":
            size = max(1, pattern.find("}", at) - at + 1)
        elif char not in _SPECIAL:
            literal = char
        depth += (char == "(") - (char == ")")
        at += size
        if literal and not depth and pattern[at : at + 1] not in _OPTIONAL:
            run += literal
            continue
        if run:
            runs.append(run)
        run = ""
    return [*runs, run] if run else runs


def _class_length(pattern: str, at: int) -> int:
    """How long a class of characters is, from its bracket on; a bracket that comes first in it is one of them."""
    end = at + 1
    end += pattern[end : end + 1] == "^"
    end += pattern[end : end + 1] == "]"
    while end < len(pattern) and pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    return end + 1 - at


class Span(msgspec.Struct, frozen=True):
    """From the row with which something appeared at a path to the one with which it vanished, if it did.

    `last` is the last row with it; `hit` is of the first.
    """

    appeared: Row
    last: Row
    vanished: Row | None
    hit: Hit


def spans(rows: Sequence[Row], find: Callable[[Row], Hit | None]) -> list[Span]:
    """When something stood at a path; rows are of one path, oldest first."""
    found: list[Span] = []
    begun: tuple[Row, Hit] | None = None
    last: Row | None = None
    for row in rows:
        hit = find(row)
        if hit is not None:
            begun, last = begun or (row, hit), row
        elif begun is not None and last is not None:
            found.append(Span(begun[0], last, row, begun[1]))
            begun = None
    if begun is not None and last is not None:
        found.append(Span(begun[0], last, None, begun[1]))
    return found
