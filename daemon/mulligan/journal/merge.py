"""Merging three versions of a text, line by line. Pure: bytes in, bytes out.

What `theirs` made of `base` is done to `ours` as well. Changes that touch the same lines, or lines side by side, are a
conflict: nothing is guessed. Lines are compared with their ends, so a carriage return and a missing last newline are
kept as they are, or are changes like others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from merge3 import Merge3

from mulligan.journal.lines import edits, split_lines

#: Texts with more bytes than this on a side are not merged; the result is not longer either.
SIZE_LIMIT = 4 << 20
_WIDTH = 7


class Labels(msgspec.Struct, frozen=True):
    """What stands behind the markers of a conflict."""

    ours: str = "now"
    base: str = "after"
    theirs: str = "before"


class Merged(msgspec.Struct, frozen=True):
    """The merged text; with `conflicts`, each of these stands in it between diff3 markers."""

    text: bytes
    conflicts: int = 0


class _Matcher:
    """Our own comparison, whose work is bounded, in the shape that merge3 asks for."""

    def __init__(
        self,
        isjunk: Callable[[bytes], bool] | None = None,
        a: Sequence[bytes] = (),
        b: Sequence[bytes] = (),
        autojunk: bool = True,
    ) -> None:
        del isjunk, autojunk
        self._a, self._b = a, b

    def get_matching_blocks(self) -> list[tuple[int, int, int]]:
        """(start, start, length) of what is equal; an empty block at the end closes the list."""
        blocks, i, j = [], 0, 0
        for start, end, _, other_end in edits(self._a, self._b):
            blocks.append((i, j, start - i))
            i, j = end, other_end
        blocks.append((i, j, len(self._a) - i))
        return [*(block for block in blocks if block[2]), (len(self._a), len(self._b), 0)]


def is_text(data: bytes) -> bool:
    """Whether lines mean anything in these bytes."""
    return b"\0" not in data


def merge_texts(base: bytes, ours: bytes, theirs: bytes, labels: Labels | None = None) -> Merged:
    """Merge texts of at most `SIZE_LIMIT` bytes."""
    labels = labels or Labels()
    end = b"\r\n" if ours.partition(b"\n")[0].endswith(b"\r") else b"\n"
    found = Merge3(split_lines(base), split_lines(ours), split_lines(theirs), sequence_matcher=_Matcher)
    merged: list[bytes] = []
    conflicts = 0
    for group in found.merge_groups():
        if group[0] == "conflict":
            _, before, mine, other = group
            conflicts += 1
            merged += _marked(b"<", labels.ours, mine, end)
            merged += _marked(b"|", labels.base, before, end)
            merged += _marked(b"=", "", other, end)
            merged += _marked(b">", labels.theirs, (), end)
        else:
            merged += group[1]
    return Merged(b"".join(merged), conflicts)


def _marked(sign: bytes, label: str, lines: Sequence[bytes], end: bytes) -> list[bytes]:
    """A marker and the lines behind it, of which the last one is ended for the next marker."""
    words = b" " + label.encode() if label else b""
    found = [sign * _WIDTH + words + end, *lines]
    if not found[-1].endswith(b"\n"):
        found[-1] += end
    return found
