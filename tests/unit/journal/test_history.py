"""The versions of a file: which count, over which renames, who made them, which checkpoint holds them first."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from mulligan.clock import FOREVER, MILLISECOND
from mulligan.journal.history import Mark, Source, grade, holders, lineage, settled, steps
from mulligan.model import ABSENT, Cut, Entry, Flag, Kind, RelPath, Row

LIVE = Cut(FOREVER)


def version(
    path: str, seq: int, text: str | None, *, at: int | None = None, flags: int = 0, call: str = "", grade: str = ""
) -> Row:
    """A row a second after the last one, unless `at` (milliseconds) says otherwise; None is a deletion."""
    data = b"" if text is None else text.encode()
    entry = ABSENT if text is None else Entry(Kind.FILE, 0o644, len(data), hashlib.sha256(data).digest())
    moment = (seq * 1000 if at is None else at) * MILLISECOND
    return Row(path.encode(), entry, moment, moment, flags, seq, call, grade)


def rows_of(*rows: Row) -> Callable[[RelPath], list[Row]]:
    return lambda path: [row for row in rows if row.path == path]


def nowhere(_row: Row) -> Source | None:
    return None


def seqs(rows: list[Row]) -> list[int]:
    return [row.seq for row in rows]


def test_a_life_is_every_row_up_to_the_cut() -> None:
    known = rows_of(version("a", 1, "1"), version("b", 2, "x"), version("a", 3, "3"), version("a", 4, None))
    assert seqs(lineage(RelPath(b"a"), LIVE, known, nowhere).rows) == [1, 3, 4]
    assert seqs(lineage(RelPath(b"a"), Cut(3), known, nowhere).rows) == [1, 3]
    assert seqs(lineage(RelPath(b"a"), Cut(9, 2000 * MILLISECOND), known, nowhere).rows) == [1]
    assert lineage(RelPath(b"nope"), LIVE, known, nowhere).rows == []


def test_renames_are_followed_back_to_the_first_name() -> None:
    known = rows_of(
        version("c", 1, "another life of this name"), version("c", 2, None),
        version("a", 3, "1"), version("a", 4, "2"), version("b", 5, "2"), version("a", 6, None),
        version("b", 7, "3"), version("b", 8, None), version("c", 9, "3"), version("a", 10, "new"),
    )  # fmt: skip
    sources = {5: Source(RelPath(b"a"), 6), 9: Source(RelPath(b"b"), 8)}
    life = lineage(RelPath(b"c"), LIVE, known, lambda row: sources.get(row.seq))
    assert seqs(life.rows) == [3, 4, 5, 7, 9]
    assert {path: seqs(rows) for path, rows in life.all.items()} == {
        b"a": [3, 4, 6, 10], b"b": [5, 7, 8], b"c": [1, 2, 9],
    }  # fmt: skip


def test_a_name_that_went_and_came_back_is_followed_over_both() -> None:
    known = rows_of(
        version("a", 1, "1"), version("a", 2, None), version("b", 3, "1"), version("b", 4, None), version("a", 5, "1")
    )
    sources = {3: Source(RelPath(b"a"), 2), 5: Source(RelPath(b"b"), 4)}
    assert seqs(lineage(RelPath(b"a"), LIVE, known, lambda row: sources.get(row.seq)).rows) == [1, 3, 5]


@pytest.mark.parametrize("seq", [1, 2, 9])
def test_sources_that_lead_in_a_circle_end(seq: int) -> None:
    known = rows_of(version("a", 1, "1"), version("b", 2, "1"))
    life = lineage(RelPath(b"a"), LIVE, known, lambda row: Source(RelPath(b"b" if row.path == b"a" else b"a"), seq))
    assert len(life.rows) <= 2


def test_what_was_found_or_restored_came_from_nowhere() -> None:
    asked: list[int] = []

    def origin(row: Row) -> Source | None:
        asked.append(row.seq)
        return None

    known = rows_of(
        version("a", 1, "1", flags=Flag.FROM_UNKNOWN), version("a", 2, None), version("a", 3, "1", flags=Flag.RESTORED),
        version("a", 4, None), version("a", 5, ""), version("a", 6, None), version("a", 7, "7"), version("a", 8, "8"),
    )  # fmt: skip
    assert seqs(lineage(RelPath(b"a"), LIVE, known, origin).rows) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert asked == [7]


def test_states_of_being_written_are_no_versions() -> None:
    rows = [
        version("a", 1, "old", at=0),
        version("a", 2, "", at=5000),
        version("a", 3, "torn", at=5010, flags=Flag.TORN),
        version("a", 4, None, at=5020),
        version("a", 5, "new", at=5030),
    ]
    assert seqs(settled(rows)) == [1, 5]


def test_what_stays_empty_or_absent_is_a_version() -> None:
    rows = [
        version("a", 1, "old", at=0), version("a", 2, "", at=1000), version("a", 3, "new", at=4000),
        version("a", 4, None, at=5000), version("a", 5, "again", at=8000), version("a", 6, "", at=9000),
    ]  # fmt: skip
    assert settled(rows) == rows


def test_no_state_of_another_owner_is_left_out() -> None:
    rows = [
        version("a", 1, "", at=0, call="one"), version("a", 2, "x", at=10, call="two"),
        version("a", 3, "", at=20), version("a", 4, "y", at=30, flags=Flag.RESTORED),
        version("a", 5, "", at=40, flags=Flag.FROM_UNKNOWN), version("a", 6, "z", at=50),
    ]  # fmt: skip
    assert settled(rows) == steps(rows) == rows


def test_W11_edits_of_one_file_by_two_calls_within_250_ms_are_two_steps() -> None:
    rows = [version("a", 1, "1", at=0, call="one"), version("a", 2, "2", at=100, call="two")]
    assert steps(rows) == rows


def test_a_file_that_is_written_in_pieces_is_one_step() -> None:
    rows = [version("a", 1, "old", at=0)] + [version("a", 2 + n, "new" * (1 + n), at=5000 + 250 * n) for n in range(4)]
    assert seqs(steps(rows)) == [1, 5]
    assert settled(rows) == rows


@pytest.mark.parametrize(
    ("row", "first", "said"),
    [
        (version("a", 1, "x", call="t", grade="named"), True, "named"),
        (version("a", 1, "x", call="t", grade="one of 2", flags=Flag.AWAY), False, "one of 2"),
        (version("a", 1, "x", flags=Flag.FROM_UNKNOWN), True, "before mulligan"),
        (version("a", 1, "x", flags=Flag.FROM_UNKNOWN), False, "gap"),
        (version("a", 1, "x", flags=Flag.AWAY), False, "gap"),
        (version("a", 1, "x", flags=Flag.RESTORED), False, "restored"),
        (version("a", 1, "x", flags=Flag.SCANNED), False, "nobody"),
        (version("a", 1, "x"), True, "nobody"),
    ],
)
def test_the_grade_says_what_is_known(row: Row, first: bool, said: str) -> None:
    assert grade(row, first=first) == said


def test_the_first_checkpoint_that_holds_a_version_is_named() -> None:
    rows = [version("a", 2, "1"), version("a", 4, "2"), version("a", 5, "3"), version("a", 9, "4")]

    def mark(name: str, seq: int, moment: int = FOREVER) -> Mark:
        return Mark(name, 0, 0, Cut(seq, moment))

    marks = [
        mark("before", 1), mark("first", 2), mark("same", 3), mark("past", 8, 4500 * MILLISECOND),
        mark("third", 8), mark("again", 8, 4999 * MILLISECOND),
    ]  # fmt: skip
    found = holders(rows, marks)
    assert {seq: held.id for seq, held in found.items()} == {2: "first", 4: "past", 5: "third"}
