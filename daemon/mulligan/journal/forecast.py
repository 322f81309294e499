"""When a budget is reached if things go on as they did in the last week."""

from __future__ import annotations

from dataclasses import dataclass

from mulligan.clock import NANOSECONDS

DAY = 24 * 3600 * NANOSECONDS
WEEK = 7 * DAY
#: What is farther away than this is never, as far as anybody can tell (days).
_NEVER = 36_500


@dataclass(frozen=True, slots=True)
class Forecast:
    """Days until the budget is reached, None if it never is or nobody can tell; `reason` says why, in words."""

    days: float | None
    reason: str


def growth_per_day(came: int, observed: int) -> int | None:
    """Bytes a day, from those that came in so much of the last week (nanoseconds); None for less than a day of it."""
    return None if observed < DAY else came * DAY // min(observed, WEEK)


def forecast(size: int, budget: int, growth: int | None) -> Forecast:
    """When a store of some size has reached its budget, at so many bytes a day."""
    if size >= budget:
        return Forecast(0.0, "the budget is used up")
    if growth is None:
        return Forecast(None, "there is less than a day of history")
    if growth <= 0:
        return Forecast(None, "nothing has come in the last week")
    days = (budget - size) / growth
    if days > _NEVER:
        return Forecast(None, "not in a hundred years at this rate")
    return Forecast(round(days, 1), "at the rate of the last week")
