"""When a call has done away with so much that somebody is told."""

from __future__ import annotations

import pytest

from mulligan.journal.alarm import SHOWN, Alarms, Gone
from mulligan.journal.losses import How
from mulligan.model import Entry, Kind

NOW = 10**18


def gone(count: int, how: How = How.VANISHED, start: int = 0) -> list[Gone]:
    return [Gone(b"f%03d" % number, Entry(Kind.FILE, 0o644, 100), how) for number in range(start, start + count)]


@pytest.mark.parametrize(
    ("lost", "files", "expected"),
    [(0, 0, False), (2, 2, False), (3, 6, True), (3, 7, False), (9, 19, False), (9, 18, True), (10, 100_000, True)],
)
def test_a_burst_is_ten_files_or_half_of_a_small_project(lost: int, files: int, expected: bool) -> None:
    assert (Alarms().judge("c", gone(lost), files, NOW) is not None) is expected


def test_an_alarm_says_how_much() -> None:
    alarm = Alarms().judge("c", gone(30) + gone(2, How.EMPTIED, 30) + gone(1, How.SHRANK, 32), 1000, NOW)
    assert alarm is not None
    assert (alarm.call, alarm.moment, alarm.vanished, alarm.emptied, alarm.files) == ("c", NOW, 30, 3, 33)
    assert (alarm.size, alarm.paths[0], len(alarm.paths)) == (3300, b"f000", 20)


def test_a_call_is_told_once_unless_it_went_on() -> None:
    alarms = Alarms()
    assert alarms.judge("c", gone(10), 100, NOW)
    assert alarms.judge("c", gone(10), 100, NOW + 1) is None
    assert alarms.judge("c", gone(19), 100, NOW + 2) is None
    again = alarms.judge("c", gone(20), 100, NOW + 3)
    assert again is not None and again.vanished == 20
    assert alarms.judge("d", gone(10), 100, NOW + 4)
    assert [alarm.call for alarm in alarms.shown(NOW + 5)] == ["d", "c"]


def test_it_is_shown_for_a_day_or_until_something_is_brought_back() -> None:
    alarms = Alarms()
    alarms.judge("c", gone(10), 100, NOW)
    assert len(alarms.shown(NOW + SHOWN - 1)) == 1
    assert alarms.shown(NOW + SHOWN) == []
    assert alarms.judge("c", gone(10), 100, NOW + SHOWN) is not None, "a day later it is news again"
    alarms.settle()
    assert alarms.shown(NOW + SHOWN) == []
