"""Which lines two texts share: Myers' shortest edit script in linear space, with a bound on the work.

Pure. Lines are compared by keys (any hashable); the caller keeps the lines. Up to the bound the script is the
shortest one; beyond it the rest is aligned by the lines that stand once on either side, which is coarser, never wrong.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

#: Inner steps of the exact search before it gives way to anchors: about one second of a slow core.
STEPS = 3_000_000

#: (start, end) in the old lines, (start, end) in the new lines; at least one of them is not empty.
Edit = tuple[int, int, int, int]
_Box = tuple[int, int, int, int]


def split_lines(data: bytes) -> list[bytes]:
    """Lines with their newline, split at ``\\n`` alone: a carriage return is part of its line."""
    lines = data.split(b"\n")
    last = lines.pop()
    whole = [line + b"\n" for line in lines]
    if last:
        whole.append(last)
    return whole


def edits(old: Sequence[Hashable], new: Sequence[Hashable], *, steps: int = STEPS) -> list[Edit]:
    """The regions in which `new` differs from `old`, in order and never adjacent; what lies between them is equal."""
    numbers: dict[Hashable, int] = {}
    a = [numbers.setdefault(key, len(numbers)) for key in old]
    b = [numbers.setdefault(key, len(numbers)) for key in new]
    head, tail = _common_ends(a, b, (0, len(a), 0, len(b)))
    # A line that the other side has nowhere is an edit in every script: the search need not meet it.
    in_a, in_b = set(a[head : len(a) - tail]), set(b[head : len(b) - tail])
    places_a = [i for i in range(head, len(a) - tail) if a[i] in in_b]
    places_b = [j for j in range(head, len(b) - tail) if b[j] in in_a]
    search = _Search([a[i] for i in places_a], [b[j] for j in places_b], steps)
    search.run()
    kept_a = bytearray(len(a))
    kept_b = bytearray(len(b))
    kept_a[:head] = kept_b[:head] = b"\1" * head
    kept_a[len(a) - tail :] = kept_b[len(b) - tail :] = b"\1" * tail
    for i, j, length in search.matches:
        for step in range(length):
            kept_a[places_a[i + step]] = kept_b[places_b[j + step]] = 1
    return _slid(_regions(kept_a, kept_b), a, b)


def _common_ends(a: list[int], b: list[int], box: _Box) -> tuple[int, int]:
    """How many lines at the start and at the end of the box are equal; they do not overlap."""
    a0, a1, b0, b1 = box
    most = min(a1 - a0, b1 - b0)
    head = 0
    while head < most and a[a0 + head] == b[b0 + head]:
        head += 1
    tail = 0
    while tail < most - head and a[a1 - tail - 1] == b[b1 - tail - 1]:
        tail += 1
    return head, tail


class _Search:
    """One comparison: boxes to solve on a stack, matches found, steps left."""

    def __init__(self, a: list[int], b: list[int], steps: int) -> None:
        self.a, self.b, self.left = a, b, steps
        self.matches: list[tuple[int, int, int]] = []

    def run(self) -> None:
        stack: list[_Box] = [(0, len(self.a), 0, len(self.b))]
        while stack:
            a0, a1, b0, b1 = box = stack.pop()
            head, tail = _common_ends(self.a, self.b, box)
            if head:
                self.matches.append((a0, b0, head))
            if tail:
                self.matches.append((a1 - tail, b1 - tail, tail))
            a0, a1, b0, b1 = box = (a0 + head, a1 - tail, b0 + head, b1 - tail)
            if a0 == a1 or b0 == b1:
                continue
            split = self._middle(box) if self.left > 0 else None
            if split is not None:
                x, y = split
                stack += [(a0, x, b0, y), (x, a1, y, b1)]
            else:
                stack += self._anchored(box)

    def _middle(self, box: _Box) -> tuple[int, int] | None:
        """A point on a shortest path, inside the box and at neither of its corners; None if the steps ran out.

        The box's first lines differ and its last lines differ, so the shortest path has at least two edits: where the
        forward and the backward search meet, both have made one.
        """
        a, b = self.a, self.b
        a0, a1, b0, b1 = box
        n, m = a1 - a0, b1 - b0
        delta = n - m
        offset = n + m + 2
        forward = [-1] * (2 * offset + 1)
        backward = [-1] * (2 * offset + 1)
        forward[offset + 1] = backward[offset + 1] = 0
        for d in range((n + m + 1) // 2 + 1):
            low, high = -(d - 2 * max(0, d - m)), d - 2 * max(0, d - n)
            self.left -= high - low + 2
            if self.left <= 0:
                return None
            for k in range(low, high + 1, 2):
                down, right = forward[offset + k + 1], forward[offset + k - 1] + 1
                x = down if k == -d or (k != d and down >= right) else right
                y = x - k
                while x < n and y < m and a[a0 + x] == b[b0 + y]:
                    x += 1
                    y += 1
                forward[offset + k] = x
                c = delta - k
                if delta & 1 and 1 - d <= c <= d - 1 and x + backward[offset + c] >= n:
                    return a0 + x, b0 + y
            for k in range(low, high + 1, 2):
                down, right = backward[offset + k + 1], backward[offset + k - 1] + 1
                x = down if k == -d or (k != d and down >= right) else right
                y = x - k
                while x < n and y < m and a[a1 - x - 1] == b[b1 - y - 1]:
                    x += 1
                    y += 1
                backward[offset + k] = x
                c = delta - k
                if not delta & 1 and -d <= c <= d and x + forward[offset + c] >= n:
                    return a1 - x, b1 - y
        raise AssertionError("the two searches meet within (n + m + 1) / 2 edits")

    def _anchored(self, box: _Box) -> list[_Box]:
        """Cut the box at the longest rising run of lines that stand once on either side (Bram Cohen's patience diff).

        Without such a line nothing in the box is matched.
        """
        a0, a1, b0, b1 = box
        count_a, count_b = Counter(self.a[a0:a1]), Counter(self.b[b0:b1])
        place_b = {self.b[j]: j for j in range(b0, b1) if count_b[self.b[j]] == 1}
        pairs = [(i, place_b[self.a[i]]) for i in range(a0, a1) if count_a[self.a[i]] == 1 and self.a[i] in place_b]
        boxes: list[_Box] = []
        last_i, last_j = a0, b0
        for i, j in _longest_rising(pairs):
            self.matches.append((i, j, 1))
            boxes.append((last_i, i, last_j, j))
            last_i, last_j = i + 1, j + 1
        if not boxes:
            return []
        boxes.append((last_i, a1, last_j, b1))
        return boxes


def _longest_rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence that rises in its second part, too (the first rises already)."""
    ends: list[int] = []
    at_end: list[int] = []
    before: list[int] = []
    for index, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        before.append(at_end[length - 1] if length else -1)
        if length == len(ends):
            ends.append(j)
            at_end.append(index)
        else:
            ends[length], at_end[length] = j, index
    chain: list[tuple[int, int]] = []
    index = at_end[-1] if at_end else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]


def _slid(regions: list[Edit], a: list[int], b: list[int]) -> list[Edit]:
    """Move pure insertions and deletions down as far as they go, as git does: a new function then ends with its end.

    A region stops before the next one, so regions stay apart.
    """
    slid = []
    for index, (i0, i1, j0, j1) in enumerate(regions):
        room = (regions[index + 1][0] if index + 1 < len(regions) else len(a) + 1) - i1 - 1
        lines, start, end = (b, j0, j1) if i0 == i1 else (a, i0, i1)
        moved = 0
        if i0 == i1 or j0 == j1:
            while moved < room and lines[start + moved] == lines[end + moved]:
                moved += 1
        slid.append((i0 + moved, i1 + moved, j0 + moved, j1 + moved))
    return slid


def _regions(kept_a: bytearray, kept_b: bytearray) -> list[Edit]:
    found: list[Edit] = []
    i = j = 0
    while i < len(kept_a) or j < len(kept_b):
        start_i, start_j = i, j
        while i < len(kept_a) and not kept_a[i]:
            i += 1
        while j < len(kept_b) and not kept_b[j]:
            j += 1
        if (i, j) != (start_i, start_j):
            found.append((start_i, i, start_j, j))
        else:
            i += 1
            j += 1
    return found
