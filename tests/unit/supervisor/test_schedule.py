"""Timed jobs on a clock that jumps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import pytest

from mulligan.clock import Clock
from mulligan.supervisor.schedule import Schedule

HOUR = 3600


class Wall:
    """A wall clock that can be moved: what APScheduler and our clock read."""

    def __init__(self) -> None:
        self.offset = 0.0

    def time_ns(self) -> int:
        return time.time_ns() + int(self.offset * 1e9)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wall]:
    made = Wall()

    class Moved(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.fromtimestamp(time.time(), UTC).astimezone(tz) + timedelta(seconds=made.offset)

    monkeypatch.setattr("apscheduler.schedulers.base.datetime", Moved)
    monkeypatch.setattr("apscheduler.executors.base.datetime", Moved)
    yield made


class Count:
    """A job that counts its runs."""

    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self) -> None:
        self.runs += 1


def counting(count: Count) -> Callable[[], Any]:
    async def job() -> None:
        await count()

    return job


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def settled() -> None:
    """Let everything that is due by now run."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(test: Callable[[], Any]) -> None:
    asyncio.run(test())


def test_a_job_runs_at_its_interval_until_it_is_cancelled() -> None:
    async def test() -> None:
        schedule, count = Schedule(Clock()), Count()
        schedule.every(0.02, "tick", counting(count))
        schedule.start()
        await until(lambda: count.runs >= 3)
        assert schedule.names == ["tick"]
        assert schedule.cancel("tick")
        assert not schedule.cancel("tick")
        seen = count.runs
        await asyncio.sleep(0.1)
        assert count.runs == seen
        await schedule.stop()

    run(test)


def test_V5_hours_of_suspend_run_a_missed_job_once(wall: Wall) -> None:
    async def test() -> None:
        schedule, often, rarely, never = Schedule(Clock(wall=wall.time_ns)), Count(), Count(), Count()
        schedule.every(60, "often", counting(often))
        schedule.every(HOUR, "rarely", counting(rarely))
        schedule.every(24 * HOUR, "never", counting(never))
        schedule.cron("nightly", counting(nightly := Count()), hour="*", minute=0)
        schedule.start()
        await settled()
        wall.offset += 8 * HOUR
        schedule.look()
        await until(lambda: nightly.runs > 0)
        for _ in range(5):
            schedule.look()
            await settled()
        assert (often.runs, rarely.runs, never.runs, nightly.runs) == (1, 1, 0, 1)
        wall.offset += 61
        schedule.look()
        await until(lambda: often.runs == 2)
        await schedule.stop()

    run(test)


def test_V5_a_clock_set_back_does_not_keep_jobs_waiting(wall: Wall) -> None:
    async def test() -> None:
        schedule, count = Schedule(Clock(wall=wall.time_ns)), Count()
        schedule.every(0.05, "tick", counting(count))
        schedule.start()
        await until(lambda: count.runs >= 1)
        wall.offset -= 5 * HOUR
        schedule.look()
        seen = count.runs
        await until(lambda: count.runs >= seen + 2)
        await schedule.stop()

    run(test)


def test_V5_a_clock_that_learns_the_date_costs_no_count_through_the_years(wall: Wall) -> None:
    async def test() -> None:
        wall.offset = -50 * 365 * 24 * HOUR
        schedule, count = Schedule(Clock(wall=wall.time_ns)), Count()
        schedule.every(1, "tick", counting(count))
        schedule.start()
        await settled()
        wall.offset = 0
        started = time.monotonic()
        schedule.look()
        await until(lambda: count.runs == 1)
        assert time.monotonic() - started < 1
        await schedule.stop()

    run(test)


def test_a_job_never_overlaps_with_itself() -> None:
    async def test() -> None:
        schedule, gate = Schedule(Clock()), asyncio.Event()
        open_now = most = 0

        async def slow() -> None:
            nonlocal open_now, most
            open_now += 1
            most = max(most, open_now)
            await gate.wait()
            open_now -= 1

        schedule.every(0.01, "slow", slow)
        schedule.start()
        await until(lambda: open_now == 1)
        await asyncio.sleep(0.1)
        gate.set()
        await schedule.stop()
        assert most == 1

    run(test)


def test_a_job_that_fails_is_told_and_runs_again() -> None:
    async def test() -> None:
        failures: list[tuple[str, str]] = []
        schedule = Schedule(Clock(), lambda name, error: failures.append((name, str(error))))

        async def broken() -> None:
            raise OSError("no space")

        schedule.every(0.01, "drill", broken)
        schedule.start()
        await until(lambda: len(failures) >= 2)
        await schedule.stop()
        assert set(failures) == {("drill", "no space")}

    run(test)


def test_a_name_stands_for_one_job() -> None:
    async def test() -> None:
        schedule, first, second = Schedule(Clock()), Count(), Count()
        schedule.every(0.02, "interval", counting(first))
        schedule.every(0.02, "interval", counting(second))
        schedule.start()
        await until(lambda: second.runs >= 2)
        assert first.runs == 0
        await schedule.stop()

    run(test)


def test_stop_waits_for_a_running_job() -> None:
    async def test() -> None:
        schedule, done, begun = Schedule(Clock()), Count(), asyncio.Event()

        async def job() -> None:
            begun.set()
            await asyncio.sleep(0.05)
            await done()

        schedule.every(0.01, "write", job)
        schedule.start()
        await begun.wait()
        await schedule.stop()
        assert done.runs >= 1
        seen = done.runs
        await asyncio.sleep(0.1)
        assert done.runs == seen

    run(test)


def test_stop_cancels_what_outlasts_the_grace() -> None:
    async def test() -> None:
        schedule, begun, ended = Schedule(Clock()), asyncio.Event(), asyncio.Event()

        async def job() -> None:
            begun.set()
            try:
                await asyncio.sleep(1000)
            finally:
                ended.set()

        schedule.every(0.01, "endless", job)
        schedule.start()
        await begun.wait()
        await schedule.stop(grace_seconds=0.01)
        assert ended.is_set()

    run(test)


def test_stop_without_start_is_nothing() -> None:
    async def test() -> None:
        await Schedule(Clock()).stop()

    run(test)


def test_an_interval_has_a_length() -> None:
    with pytest.raises(ValueError, match="interval of 0"):
        Schedule(Clock()).every(0, "never", counting(Count()))
