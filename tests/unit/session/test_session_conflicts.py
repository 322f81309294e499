"""Which files two sessions changed within a while, and how often that is told."""

from __future__ import annotations

from mulligan.session.conflicts import Radar, Shared, Touch, shared_files

SPAN = 100


def touch(path: str, session: str, moment: int) -> Touch:
    return Touch(path.encode(), session, moment)


def test_two_sessions_in_one_file_within_the_span() -> None:
    touches = [touch("f", "a", 0), touch("f", "b", 100), touch("g", "a", 0), touch("g", "b", 101), touch("h", "a", 5)]
    assert shared_files(touches, SPAN) == [Shared(b"f", ("a", "b"), 100)]


def test_the_last_time_of_each_pair_counts_whatever_the_order() -> None:
    touches = [touch("f", "a", 30), touch("f", "b", 20), touch("f", "a", 10), touch("f", "c", 40)]
    assert shared_files(touches, SPAN) == [Shared(b"f", ("a", "c"), 40), Shared(b"f", ("b", "a"), 30)]


def test_one_session_alone_is_in_nobodys_way() -> None:
    assert shared_files([touch("f", "a", 1), touch("f", "a", 2)], SPAN) == []


def test_the_radar_tells_once_in_a_span() -> None:
    radar = Radar(SPAN)
    first = Shared(b"f", ("a", "b"), 10)
    assert radar.news([first]) == [first]
    assert radar.news([Shared(b"f", ("b", "a"), 20), Shared(b"f", ("a", "b"), 110)]) == []
    assert radar.news([Shared(b"g", ("a", "b"), 20), Shared(b"f", ("a", "c"), 20)]) != []
    later = Shared(b"f", ("a", "b"), 111)
    assert radar.news([later]) == [later]


def test_the_radar_forgets_the_oldest() -> None:
    radar = Radar(SPAN)
    radar.news([Shared(b"%d" % number, ("a", "b"), number) for number in range(5000)])
    assert radar.news([Shared(b"4999", ("a", "b"), 5000)]) == []
    assert radar.news([Shared(b"0", ("a", "b"), 50)]) != []
