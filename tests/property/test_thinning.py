"""Which rows leave a journal: what every kept position sees stays, and nothing else but what is young."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mulligan.clock import FOREVER
from mulligan.journal.thinning import Kept, Thinned, Version, thin
from mulligan.model import Cut, Flag

_SEQS = st.integers(1, 40)


@st.composite
def _paths(draw: st.DrawFn) -> list[Version]:
    """The rows of one path: seq and time both rise, in steps of their own."""
    seqs = sorted(draw(st.sets(_SEQS, min_size=1, max_size=8)))
    moments = sorted(draw(st.sets(st.integers(1, 40), min_size=len(seqs), max_size=len(seqs))))
    calls = draw(st.lists(st.sampled_from(["", "a", "b"]), min_size=len(seqs), max_size=len(seqs)))
    grades = {"": "", "a": "named", "b": "window"}
    flags = draw(st.lists(st.sampled_from([0, int(Flag.AWAY)]), min_size=len(seqs), max_size=len(seqs)))
    return [Version(*each) for each in zip(seqs, moments, calls, map(grades.get, calls), flags, strict=True)]


_CUTS = st.lists(st.builds(Cut, st.integers(0, 45), st.one_of(st.integers(0, 45), st.just(FOREVER))), max_size=6)
_YOUNG = st.builds(Cut, st.integers(0, 45), st.integers(0, 45))


def _seen(rows: list[Version], cut: Cut) -> int:
    """The seq of the row that a cut sees, 0 if there is none."""
    return max((row.seq for row in rows if row.seq <= cut.seq and row.at <= cut.moment), default=0)


@given(_paths(), _CUTS, _YOUNG)
def test_every_kept_position_sees_what_it_saw(rows: list[Version], cuts: list[Cut], young: Cut) -> None:
    gone = set(thin(rows, Kept(cuts, young)).rows)
    left = [row for row in rows if row.seq not in gone]
    for cut in [*cuts, young, Cut(FOREVER)]:
        assert _seen(left, cut) == _seen(rows, cut), cut
    for moment in range(young.moment, 46):
        assert _seen(left, Cut(FOREVER, moment)) == _seen(rows, Cut(FOREVER, moment))
    for seq in range(young.seq, 46):
        assert _seen(left, Cut(seq)) == _seen(rows, Cut(seq))


@given(_paths(), _CUTS, _YOUNG)
def test_what_stays_is_needed(rows: list[Version], cuts: list[Cut], young: Cut) -> None:
    gone = set(thin(rows, Kept(cuts, young)).rows)
    needed = {_seen(rows, cut) for cut in [*cuts, young, Cut(young.seq), Cut(FOREVER, young.moment), Cut(FOREVER)]}
    for row in rows:
        if row.seq not in gone:
            assert row.seq in needed or row.seq > young.seq or row.at > young.moment


@given(_paths(), _CUTS, _YOUNG)
def test_a_second_thinning_finds_nothing_more(rows: list[Version], cuts: list[Cut], young: Cut) -> None:
    kept = Kept(cuts, young)
    assert thin(_after(rows, thin(rows, kept)), kept) == Thinned()


@given(_paths(), _CUTS, _YOUNG)
def test_nobody_is_given_what_another_did(rows: list[Version], cuts: list[Cut], young: Cut) -> None:
    """A row keeps its call only if every row that it stands for was of that call; else what is lost is said."""
    found = thin(rows, Kept(cuts, young))
    gone, lost = set(found.rows), {call for call, _ in found.lost}
    left: list[Version] = []
    before = {row.seq: row for row in rows}
    for row in rows:
        if row.seq in gone:
            left.append(row)
            continue
        now = next(each for each in _after(rows, found) if each.seq == row.seq)
        calls = {each.call for each in [*left, before[row.seq]]}
        assert now.call == (row.call if len(calls) == 1 else "")
        assert bool(now.flags & Flag.THINNED) == (len(calls) > 1)
        if len(calls) > 1:
            assert calls - {""} <= lost
        assert bool(now.flags & Flag.AWAY) == any(each.flags & Flag.AWAY for each in [*left, row])
        left = []


def _after(rows: list[Version], found: Thinned) -> list[Version]:
    changed = {seq: (call, grade, flags) for seq, call, grade, flags in found.changed}
    return [
        Version(row.seq, row.at, *changed.get(row.seq, (row.call, row.grade, row.flags)))
        for row in rows
        if row.seq not in set(found.rows)
    ]


def test_of_two_grades_of_one_call_the_less_sure_one_stays() -> None:
    rows = [Version(1, 1, "a", "one of 2", 0), Version(2, 2, "a", "named", 0)]
    assert thin(rows, Kept([], Cut(9, 9))) == Thinned([1], [(2, "a", "one of 2", 0)], [])
