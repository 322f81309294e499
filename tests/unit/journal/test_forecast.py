"""When the budget is reached."""

from __future__ import annotations

import pytest

from mulligan.journal.forecast import DAY, WEEK, forecast, growth_per_day

MIB = 1 << 20


@pytest.mark.parametrize(
    ("came", "observed", "a_day"),
    [
        (700 * MIB, WEEK, 100 * MIB),
        (700 * MIB, 50 * DAY, 100 * MIB),  # what is counted came in a week, whatever was before
        (300 * MIB, 2 * DAY, 150 * MIB),
        (300 * MIB, DAY, 300 * MIB),
        (300 * MIB, DAY - 1, None),
        (0, WEEK, 0),
    ],
)
def test_growth_is_that_of_the_last_week_or_of_what_there_is(came: int, observed: int, a_day: int | None) -> None:
    assert growth_per_day(came, observed) == a_day


@pytest.mark.parametrize(
    ("size", "growth", "days", "reason"),
    [
        (300, 100, 7.0, "at the rate of the last week"),
        (300, 300, 2.3, "at the rate of the last week"),
        (999, 1000, 0.0, "at the rate of the last week"),
        (1000, 5, 0.0, "the budget is used up"),
        (1001, None, 0.0, "the budget is used up"),
        (300, None, None, "there is less than a day of history"),
        (300, 0, None, "nothing has come in the last week"),
        (-40_000_000, 1000, None, "not in a hundred years at this rate"),
    ],
)
def test_a_budget_of_a_thousand(size: int, growth: int | None, days: float | None, reason: str) -> None:
    found = forecast(size, 1000, growth)
    assert (found.days, found.reason) == (days, reason)
