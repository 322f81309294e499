"""What agents' hooks tell: exact moments for calls and prompts, and hints to look now.

Everything that a hook tells, the agent's transcript tells as well, a little later and less exactly. So nothing is ever
an error to an agent: what is malformed, of an unknown project or too late is counted, and the answer is empty.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from mulligan.agents.claude_input import OddInputError
from mulligan.clock import MILLISECOND, Clock
from mulligan.errors import MulliganError
from mulligan.project.guarding import Told, guard, steady
from mulligan.project.registry import Registry
from mulligan.project.worker import ProjectWorker
from mulligan.supervisor import claude_hooks, opencode_hooks
from mulligan.supervisor.follow import Follower
from mulligan.supervisor.kept import KeptTranscripts, UnkeptError
from mulligan.taskstate.store import TaskStates

log = logging.getLogger(__name__)
#: A hook gives up 200 ms after it began; an answer has to be on its way before.
PATIENCE = 170 * MILLISECOND
_MOST_GUARDED = 1024

AGENTS: dict[str, Callable[[Hooks, str, str, int], str]] = {
    "claude": claude_hooks.deliver,
    "opencode": opencode_hooks.deliver,
}


class Hooks:
    """Takes what hooks tell, in request threads."""

    #: An input that is older than this was not answered in time (nanoseconds).
    patience = PATIENCE

    def __init__(
        self, registry: Registry, follower: Follower, states: TaskStates, clock: Clock, kept: KeptTranscripts
    ) -> None:
        self.registry, self.follower, self.states, self._clock = registry, follower, states, clock
        self.kept = kept
        self._guarded: dict[str, None] = {}
        self._lock = threading.Lock()
        self._taken: dict[str, int] = {}
        self._odd: dict[str, int] = {}
        self._unguarded = 0

    def deliver(self, agent: str, event: str, raw: str | None, sent: int) -> str:
        """What the hook is to print, nearly always nothing.

        `raw` is None for an input that was too large. `sent` is when the hook began, 0 if it does not say.
        """
        now = steady()
        deadline = (min(sent, now) if sent > 0 else now) + PATIENCE
        take = AGENTS.get(agent)
        try:
            if take is None:
                raise OddInputError("unknown agent")
            if raw is None:
                raise OddInputError("too large")
            output = take(self, event, raw, deadline)
        except OddInputError as odd:
            self.count_odd(str(odd))
            return ""
        except UnkeptError:
            self.count_odd("could not be kept")
            raise
        except (MulliganError, OSError) as error:
            log.info("a hook's %s: %s", event, error)
            self.count_odd("could not be done")
            return ""
        with self._lock:
            self._taken[event] = self._taken.get(event, 0) + 1
        return output

    def count_odd(self, what: str) -> None:
        """One more input that was not used, or not as it could have been."""
        with self._lock:
            self._odd[what] = self._odd.get(what, 0) + 1

    def worker_of(self, cwd: str) -> ProjectWorker:
        """The worker of the project around a directory; one that nobody watches yet is adopted for the next time."""
        worker = self.registry.holding(os.fsencode(cwd))
        if worker is None:
            self.follower.visit(cwd)
            raise OddInputError("not watched")
        return worker

    def look(self, worker: ProjectWorker) -> None:
        """Have everything captured that has happened; waits for nothing."""
        if worker.health.state == "watching":
            worker.call(lambda: worker.capture_errors(worker.sync))

    def guard(self, worker: ProjectWorker, paths: Sequence[bytes], deadline: int, told: Told) -> None:
        """As `guarding.guard`, with the wall clock's time, which is what lines and machines go by."""
        guard(worker, paths, deadline, lambda moment, exact: told(moment - self._clock.correction, exact))

    def is_first(self, call: str) -> bool:
        """Whether nobody told of a call before; what is told again is not to move its moment."""
        with self._lock:
            first = call not in self._guarded
            self._guarded[call] = None
            while len(self._guarded) > _MOST_GUARDED:
                del self._guarded[next(iter(self._guarded))]
        return first and not self.follower.knows("call:" + call)

    def wall(self) -> int:
        """The wall clock's time now."""
        return self._clock.now() - self._clock.correction

    def count_unguarded(self) -> None:
        """One more call for which a hook could not wait."""
        with self._lock:
            self._unguarded += 1

    def describe(self) -> dict[str, Any]:
        """The counts for `status`."""
        with self._lock:
            return {"taken": dict(self._taken), "odd": dict(self._odd), "unguarded": self._unguarded}
