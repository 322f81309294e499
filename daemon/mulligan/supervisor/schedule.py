"""Timed jobs: the one module that knows APScheduler.

A laptop that slept for hours runs each missed job once, not once for every time it was due; a wall clock that is set
back does not keep jobs waiting until it has caught up; a job never overlaps with itself.
"""

from __future__ import annotations

import asyncio
import zoneinfo
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.events import EVENT_JOB_ERROR
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger

from mulligan.clock import Clock

Job = Callable[[], Awaitable[None]]

#: A loop's timers stand still while the machine sleeps; looking this often is how a due job is found after it woke.
LOOK_SECONDS = 30.0


class _Every(BaseTrigger):  # type: ignore[misc]
    """Due an interval after the last time it was due, or after now if the clock has jumped in either direction.

    APScheduler's own interval trigger counts through every time that was missed: minutes of work on a machine that
    starts in 1970 and then learns the date.
    """

    def __init__(self, seconds: float) -> None:
        self._interval = timedelta(seconds=seconds)

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """APScheduler's question; never a moment that has passed."""
        following = (now if previous is None else previous) + self._interval
        return following if now < following <= now + self._interval else now + self._interval


class Schedule:
    """Jobs by name on the running loop. A job is a coroutine function without parameters.

    A job that raises is logged with its traceback, told to `on_failure`, and runs again when it is due next.
    """

    def __init__(self, clock: Clock, on_failure: Callable[[str, BaseException], None] | None = None) -> None:
        self._clock = clock
        self._correction = clock.correction
        self._on_failure = on_failure
        self._scheduler: Any = AsyncIOScheduler(
            timezone=UTC, job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1}
        )
        self._scheduler.add_listener(self._failed, EVENT_JOB_ERROR)
        self._triggers: dict[str, Any] = {}
        self._running: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False

    def start(self) -> None:
        """Begin; needs the running loop. Jobs may be added before and after."""
        self._scheduler.start()
        self._watch_clock()

    def every(self, seconds: float, name: str, job: Job) -> None:
        """Run a job at an interval, first after one interval; replaces the job of that name."""
        if seconds <= 0:
            raise ValueError(f"an interval of {seconds} seconds")
        self._add(name, _Every(seconds), job)

    def cron(self, name: str, job: Job, **fields: str | int) -> None:
        """Run a job at times of day or week in local time (`hour=3, minute=10`); replaces the job of that name."""
        try:
            trigger = CronTrigger(**fields)
        except zoneinfo.ZoneInfoNotFoundError:  # a container whose /etc/timezone names nothing
            trigger = CronTrigger(**fields, timezone=UTC)
        self._add(name, trigger, job)

    def cancel(self, name: str) -> bool:
        """Forget a job; a run under way goes on. Whether there was one."""
        self._triggers.pop(name, None)
        try:
            self._scheduler.remove_job(name)
        except JobLookupError:
            return False
        return True

    @property
    def names(self) -> list[str]:
        """The jobs there are."""
        return sorted(self._triggers)

    async def stop(self, grace_seconds: float = 10.0) -> None:
        """Start no more jobs, let running ones finish within the grace, then cancel them."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
        if not self._scheduler.running:
            return
        self._scheduler.pause()
        current = asyncio.current_task()
        running = {task for task in self._running if task is not current}
        if running:
            _, late = await asyncio.wait(running, timeout=grace_seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        self._scheduler.shutdown(wait=False)
        await asyncio.sleep(0)  # APScheduler puts the shutdown itself onto the loop

    def look(self) -> None:
        """Compare the schedule with the clock; happens by itself every LOOK_SECONDS."""
        self._clock.now()
        if self._clock.correction != self._correction:
            self._correction = self._clock.correction
            for name, trigger in self._triggers.items():
                self._scheduler.reschedule_job(name, trigger=trigger)
        self._scheduler.wakeup()

    def _watch_clock(self) -> None:
        if self._stopping:
            return
        self.look()
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._watch_clock)

    def _add(self, name: str, trigger: Any, job: Job) -> None:
        async def tracked() -> None:
            task = asyncio.current_task()
            assert task is not None
            self._running.add(task)
            try:
                await job()
            except asyncio.CancelledError:
                if not self._stopping:
                    raise
            finally:
                self._running.discard(task)

        self._triggers[name] = trigger
        self._scheduler.add_job(tracked, trigger, id=name, name=name, replace_existing=True)

    def _failed(self, event: Any) -> None:
        if self._on_failure is not None:
            self._on_failure(event.job_id, event.exception)
