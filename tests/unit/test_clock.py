"""Journal time: never back, whatever the wall clock does, and over restarts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.clock import MILLISECOND, NANOSECONDS, Clock, boottime_ns, from_rfc3339, to_rfc3339

START = 1_700_000_000 * NANOSECONDS
HOUR = 3600 * NANOSECONDS


class Times:
    """A wall clock and a boot clock that a test moves."""

    def __init__(self) -> None:
        self.wall, self.boot = START, 5 * HOUR

    def passes(self, nanoseconds: int) -> None:
        self.wall += nanoseconds
        self.boot += nanoseconds

    def clock(self, *, correction: int = 0, latest: int = 0) -> Clock:
        return Clock(correction=correction, latest=latest, wall=lambda: self.wall, boot=lambda: self.boot)


def test_time_that_passes_is_the_wall_clocks() -> None:
    times = Times()
    clock = times.clock()
    assert clock.now() == START
    times.passes(HOUR)
    assert clock.now() == START + HOUR
    assert clock.correction == 0


def test_the_same_moment_asked_twice_gives_two_times() -> None:
    clock = Times().clock()
    assert clock.now() < clock.now() < clock.now()


def test_V5_a_wall_clock_that_is_set_back_is_corrected() -> None:
    times = Times()
    clock = times.clock()
    before = clock.now()
    times.passes(NANOSECONDS)
    times.wall -= 2 * HOUR
    assert clock.now() == before + NANOSECONDS
    assert clock.correction == 2 * HOUR
    times.passes(NANOSECONDS)
    assert clock.now() == before + 2 * NANOSECONDS
    assert clock.correction == 2 * HOUR


def test_V5_a_ctime_after_the_clock_was_set_back_is_read_in_journal_time() -> None:
    times = Times()
    clock = times.clock()
    clock.now()
    times.wall -= HOUR
    now = clock.now()
    assert 0 <= now - clock.from_wall(times.wall) < MILLISECOND


def test_V5_a_wall_clock_that_is_set_forward_is_believed() -> None:
    times = Times()
    clock = times.clock()
    clock.now()
    times.wall += HOUR
    assert clock.now() == START + HOUR
    assert clock.correction == 0


def test_a_correction_by_a_time_server_of_some_milliseconds_is_none_of_ours() -> None:
    times = Times()
    clock = times.clock()
    first = clock.now()
    times.passes(NANOSECONDS)
    times.wall -= 20 * MILLISECOND
    assert first < clock.now() == START + NANOSECONDS - 20 * MILLISECOND
    assert clock.correction == 0


@pytest.mark.parametrize("back", [50 * MILLISECOND, 99 * MILLISECOND, 2 * HOUR])
def test_V5_a_look_is_in_the_time_base_of_change_times(back: int) -> None:
    times = Times()
    clock = times.clock()
    clock.now()
    times.wall -= back
    changed = times.wall
    times.passes(5 * MILLISECOND)
    for _ in range(3):
        assert clock.look() - clock.from_wall(changed) == 5 * MILLISECOND
        clock.now()


def test_V5_a_suspend_counts_as_time() -> None:
    times = Times()
    clock = times.clock()
    first = clock.now()
    times.passes(9 * HOUR)  # CLOCK_BOOTTIME goes on
    assert clock.now() == first + 9 * HOUR
    assert clock.correction == 0


def test_V5_a_restart_goes_on_where_the_last_process_was() -> None:
    times = Times()
    first = times.clock()
    first.now()
    times.wall -= 2 * HOUR
    last = first.now()
    second = times.clock(correction=first.correction, latest=last)
    times.passes(NANOSECONDS)
    assert abs(second.now() - last - NANOSECONDS) < MILLISECOND
    assert second.correction == first.correction


def test_V5_a_clock_that_was_set_back_while_the_daemon_was_away() -> None:
    times = Times()
    last = times.clock().now()
    times.wall -= 48 * HOUR
    times.boot = 0  # the machine was restarted too
    clock = times.clock(latest=last)
    assert last < clock.now() < last + NANOSECONDS
    assert abs(clock.correction - 48 * HOUR) < NANOSECONDS
    times.passes(HOUR)
    assert last + HOUR <= clock.now() < last + HOUR + NANOSECONDS


@given(st.lists(st.tuples(st.integers(0, HOUR), st.integers(-72 * HOUR, 72 * HOUR), st.booleans()), max_size=30))
def test_V5_time_never_runs_back(steps: list[tuple[int, int, bool]]) -> None:
    times = Times()
    clock, last = times.clock(), 0
    for passed, jump, restart in steps:
        times.passes(passed)
        times.wall = max(0, times.wall + jump)
        if restart:
            clock = times.clock(correction=clock.correction, latest=last)
        now = clock.now()
        assert now > last
        last = now


def test_the_real_clocks_are_read() -> None:
    clock = Clock()
    assert abs(clock.now() - int(datetime.now(UTC).timestamp() * NANOSECONDS)) < 5 * NANOSECONDS
    assert 0 < boottime_ns() <= boottime_ns()


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(0, "1970-01-01T00:00:00.000Z"), (START + 5 * MILLISECOND, "2023-11-14T22:13:20.005Z")],
)
def test_times_as_text_and_back(nanoseconds: int, text: str) -> None:
    assert to_rfc3339(nanoseconds) == text
    assert from_rfc3339(text) == nanoseconds
