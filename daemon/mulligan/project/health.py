"""How a project's worker is, for `status`."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from mulligan.errors import BusyError, NotFoundError, RefusedError
from mulligan.journal.alarm import Alarms
from mulligan.session.conflicts import Radar
from mulligan.watch.hidden import Summary


@dataclass(slots=True)
class Health:
    """What `status` shows of a worker; written by the worker's thread, read by any."""

    state: str = "starting"
    reason: str = ""
    overflows: int = 0
    rescans: int = 0
    done: int = 0
    total: int = 0
    backlog: int = 0
    last_error: str = ""
    last_capture: int = 0
    limit: str = ""
    hidden: Summary = field(default_factory=Summary)
    alarms: Alarms = field(default_factory=Alarms)
    radar: Radar = field(default_factory=Radar)
    latencies: deque[int] = field(default_factory=lambda: deque(maxlen=2000))

    def require_watching(self, name: str) -> None:
        """Raise what stands in the way of a checkpoint or a restore of the project of that name, if anything does."""
        if self.state == "watching":
            return
        if self.state == "paused":
            raise RefusedError(f"{name} is paused", hint=f"mulligan project resume {name}")
        if self.state == "missing":
            raise NotFoundError(f"{name}: {self.reason}", hint="nothing was changed in the journal")
        raise BusyError(f"{name} is not watched: {self.last_error or self.state}", hint="mulligan status")
