"""The edit script: shortest up to the bound, coarser beyond it, right always."""

from __future__ import annotations

import random

import pytest

from mulligan.journal.lines import edits, split_lines


def applied(old: list[int], new: list[int], steps: int) -> list[int]:
    """`old` with the script applied; what the script calls equal must be equal."""
    result: list[int] = []
    i = j = 0
    for i0, i1, j0, j1 in edits(old, new, steps=steps):
        assert old[i:i0] == new[j:j0]
        assert i1 > i0 or j1 > j0
        result += old[i:i0] + new[j0:j1]
        i, j = i1, j1
    return result + old[i:]


def shared(old: list[int], new: list[int]) -> int:
    """Length of the longest common subsequence, by the textbook's table."""
    row = [0] * (len(new) + 1)
    for x in old:
        below = [0]
        for j, y in enumerate(new):
            below.append(row[j] + 1 if x == y else max(row[j + 1], below[j]))
        row = below
    return row[-1]


@pytest.mark.parametrize("seed", range(200))
def test_the_script_is_right_and_shortest(seed: int) -> None:
    rng = random.Random(seed)
    letters = rng.randint(1, 8)
    old = [rng.randrange(letters) for _ in range(rng.randint(0, 20))]
    new = [rng.randrange(letters) for _ in range(rng.randint(0, 20))]
    assert applied(old, new, 10**6) == new
    assert len(old) - sum(i1 - i0 for i0, i1, _, _ in edits(old, new)) == shared(old, new)


@pytest.mark.parametrize("steps", [0, 50, 500])
def test_out_of_steps_the_script_is_coarser_and_still_right(steps: int) -> None:
    rng = random.Random(steps)
    old = [rng.randrange(200) for _ in range(1000)]
    new = [*old[:300], *(rng.randrange(200) for _ in range(400)), *old[500:]]
    rng.shuffle(new[250:350])
    assert applied(old, new, steps) == new


def test_out_of_steps_lines_that_stand_once_still_hold() -> None:
    old = list(range(1000))
    new = [-1, *range(1, 500), -2, *range(501, 1000), -3]
    # The equal ends are stripped, so both ends differ here.
    assert edits(old, new, steps=0) == [(0, 1, 0, 1), (500, 501, 500, 501), (1000, 1000, 1000, 1001)]


def test_an_insertion_is_moved_down_to_where_it_ends() -> None:
    old = ["f {", "}", "", "h {", "}"]
    new = ["f {", "}", "", "g {", "}", "", "h {", "}"]
    assert edits(old, new) == [(3, 3, 3, 6)]


@pytest.mark.parametrize(
    ("data", "lines"),
    [(b"", []), (b"a", [b"a"]), (b"a\n", [b"a\n"]), (b"\n\na", [b"\n", b"\n", b"a"]), (b"a\r\nb", [b"a\r\n", b"b"])],
)
def test_lines_are_split_at_newlines_alone(data: bytes, lines: list[bytes]) -> None:
    assert split_lines(data) == lines
