"""Which version of a path was lost, from its rows alone."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.journal.losses import How, Known, Loss, find_loss, is_passing, lost
from mulligan.model import Entry, Flag, Kind, Row

SECOND = 1_000_000_000
NOW = 1000 * SECOND
GONE = Entry(Kind.ABSENT)
UNKNOWN = Entry(Kind.UNKNOWN, reason="ignored")


def file(data: bytes, mode: int = 0o644) -> Entry:
    return Entry(Kind.FILE, mode, len(data), hashlib.sha256(data).digest())


BIG, OTHER, HALF, LITTLE, EMPTY = file(b"a" * 1000), file(b"b" * 900), file(b"c" * 300), file(b"d" * 40), file(b"")


def rows(*entries: Entry, start: int = NOW, flags: int = Flag.FROM_UNKNOWN, step: int = SECOND) -> list[Row]:
    """The entries of a path, a second apart."""
    return [
        Row(b"f", entry, start + number * step, start + number * step, 0 if number else flags, number + 1)
        for number, entry in enumerate(entries)
    ]


def known(vanished: dict[bytes, list[Row]] | None = None, git: dict[bytes, int] | None = None) -> Known:
    held = git or {}
    return Known(
        vanished=lambda digest: (vanished or {}).get(digest, ()),
        in_git=lambda entry: held.get(entry.hash, 0),
    )


def found(history: list[Row], since: int = 0, **more: Any) -> tuple[How, Entry, bool] | None:
    loss = find_loss(history, since, known(**more))
    return (loss.how, loss.version.entry, loss.newer) if loss else None


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([BIG], None),
        ([BIG, OTHER], None),
        ([BIG, HALF], None),
        ([BIG, GONE], (How.VANISHED, BIG, False)),
        ([BIG, EMPTY], (How.EMPTIED, BIG, False)),
        ([BIG, LITTLE], (How.SHRANK, BIG, False)),
        ([HALF, LITTLE], None),
        ([EMPTY, GONE], (How.VANISHED, EMPTY, False)),
        # the newest version, not the largest
        ([BIG, HALF, GONE], (How.VANISHED, HALF, False)),
        # destruction in steps
        ([BIG, EMPTY, GONE], (How.VANISHED, BIG, False)),
        ([BIG, GONE, EMPTY], (How.EMPTIED, BIG, False)),
        ([BIG, LITTLE, EMPTY, GONE], (How.VANISHED, BIG, False)),
        # a save by way of nothing
        ([BIG, GONE, OTHER], None),
        ([BIG, EMPTY, OTHER], None),
        # something newer after the loss
        ([BIG, GONE, LITTLE], (How.SHRANK, BIG, True)),
        ([BIG, EMPTY, LITTLE], (How.SHRANK, BIG, True)),
        ([LITTLE, BIG, GONE, LITTLE], (How.SHRANK, BIG, False)),
        # the same content again, confirmed or with another mode, is no step
        ([BIG, LITTLE, LITTLE, file(b"d" * 40, 0o600)], (How.SHRANK, BIG, False)),
        ([BIG, file(b"a" * 1000, 0o600), GONE], (How.VANISHED, file(b"a" * 1000, 0o600), False)),
        # put back
        ([BIG, OTHER, BIG], (How.PUT_BACK, OTHER, False)),
        ([BIG, OTHER, GONE, BIG, BIG], (How.PUT_BACK, OTHER, False)),
        ([BIG, OTHER, BIG, OTHER], (How.PUT_BACK, BIG, False)),
        # what is unknown, or another kind of thing, is left alone
        ([BIG, UNKNOWN], None),
        ([UNKNOWN, GONE], None),
        ([GONE, GONE], None),
        ([BIG, Entry(Kind.LINK, target=b"x")], None),
        ([Entry(Kind.LINK, target=b"x"), GONE], (How.VANISHED, Entry(Kind.LINK, target=b"x"), False)),
        ([Entry(Kind.DIR, 0o755), GONE], (How.VANISHED, Entry(Kind.DIR, 0o755), False)),
    ],
)
def test_what_was_lost(entries: list[Entry], expected: tuple[How, Entry, bool] | None) -> None:
    assert found(rows(*entries)) == expected


def test_what_is_written_in_place_shrank_although_it_was_empty_for_a_moment() -> None:
    made = rows(BIG, EMPTY, LITTLE, step=SECOND // 100)
    found = find_loss(made, NOW, known())
    assert found is not None and (found.how, found.loss, found.newer) == (How.SHRANK, made[2], False)
    slowly = find_loss(rows(BIG, EMPTY, LITTLE), NOW, known())
    assert slowly is not None and slowly.newer, "somebody began anew"
    another = find_loss(rows(BIG, GONE, LITTLE, step=SECOND // 100), NOW, known())
    assert another is not None and another.newer, "another file was put there"


def test_only_what_was_lost_since_then_counts() -> None:
    history = rows(BIG, GONE)
    assert found(history, since=NOW + SECOND) == (How.VANISHED, BIG, False)
    assert found(history, since=NOW + SECOND + 1) is None
    steps = rows(BIG, EMPTY, GONE)
    assert found(steps, since=NOW + 2 * SECOND) == (How.VANISHED, EMPTY, False)
    assert found(rows(BIG, OTHER, BIG), since=NOW + 2 * SECOND + 1) is None


def test_the_loss_is_dated_by_its_first_row() -> None:
    loss = find_loss(rows(BIG, EMPTY, GONE), 0, known())
    assert loss is not None and (loss.loss.seq, loss.now.seq) == (2, 3)


def test_what_git_had_before_was_put_back() -> None:
    history = rows(OTHER, BIG)
    assert found(history) is None
    assert found(history, git={BIG.hash: NOW}) == (How.PUT_BACK, OTHER, False)
    assert found(history, git={BIG.hash: NOW + 2 * SECOND}) is None, "it was committed afterwards"


def test_a_file_that_another_one_was_moved_over() -> None:
    gone = Row(b"draft", GONE, NOW + SECOND, NOW + SECOND)
    late = Row(b"draft", GONE, NOW + 9 * SECOND, NOW + 9 * SECOND)
    assert found(rows(OTHER, BIG), vanished={BIG.hash: [gone]}) == (How.MOVED_OVER, OTHER, False)
    assert found(rows(OTHER, BIG), vanished={BIG.hash: [late]}) is None
    assert found(rows(OTHER, BIG), vanished={OTHER.hash: [gone]}) is None


def test_a_step_of_saving_is_passing_and_work_is_not() -> None:
    def passing(*entries: Entry, **how: Any) -> bool:
        history = rows(*entries, **how)
        loss = find_loss(history, 0, known())
        assert loss is not None
        return is_passing(history, loss)

    assert passing(BIG, GONE, flags=0, step=SECOND // 10)
    assert not passing(BIG, GONE, flags=0)
    assert not passing(BIG, GONE, step=SECOND // 10), "nobody knows how old it was"
    assert not passing(BIG, GONE, flags=Flag.SCANNED, step=SECOND // 10)
    assert passing(OTHER, GONE, BIG, GONE, step=SECOND // 10)


ENTRIES = st.sampled_from([BIG, OTHER, HALF, LITTLE, EMPTY, GONE, UNKNOWN, Entry(Kind.DIR, 0o755)])


def test_what_was_brought_back_and_goes_again_at_once_is_a_loss() -> None:
    made = rows(BIG, GONE, BIG, GONE)
    quick = [*made[:2], *(msgspec.structs.replace(row, at=NOW + 5 * SECOND + row.seq, flags=0) for row in made[2:])]
    loss = find_loss(quick, NOW, known())
    assert loss is not None and is_passing(quick, loss)
    restored = [*quick[:2], msgspec.structs.replace(quick[2], flags=Flag.RESTORED), quick[3]]
    loss = find_loss(restored, NOW, known())
    assert loss is not None and not is_passing(restored, loss)


@given(st.lists(ENTRIES, min_size=1, max_size=8), st.integers(0, 9))
def test_a_loss_is_a_version_that_the_present_lacks(entries: list[Entry], seconds: int) -> None:
    history, since = rows(*entries), NOW + seconds * SECOND
    loss = find_loss(history, since, known())
    if loss is None:
        assert not (len(entries) > 1 and entries[-1] == GONE and entries[-2].there and history[-1].at >= since)
        return
    assert isinstance(loss, Loss) and loss.now == history[-1]
    assert loss.version in history and loss.version.entry.there and loss.loss.at >= since
    assert loss.version.seq < loss.loss.seq <= loss.now.seq
    assert loss.version.entry.hash != loss.now.entry.hash or loss.now.entry == GONE
    assert loss.how is How.PUT_BACK or lost(loss.version.entry, loss.now.entry) is loss.how
