"""What hooks told and the lines have not told yet: exact moments that wait for the line they belong to.

Hooks refine what the lines lead to and never replace them: a moment for which no line comes leaves nothing behind, but
for the checkpoint before a call, which is taken a little later then.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from mulligan.clock import NANOSECONDS
from mulligan.session.events import CallGuarded, GuardCall, OpenCall, PromptHeard, SessionCommand
from mulligan.session.state import CALL_TIMEOUT, MOST_GUARDS, MOST_HEARD, Guard, State
from mulligan.session.tools import ToolClass

#: A prompt's line follows its hook when all hooks have answered, which may take them minutes; its time may be Enter's.
_AFTER, _BEFORE = 600 * NANOSECONDS, 60 * NANOSECONDS
#: Lines come within a second; a call without any, and one beside a long one, is not waited for any longer.
_PATIENCE = 2 * NANOSECONDS


def digest_of(text: str) -> bytes:
    """What identifies a person's words, however the client trims them."""
    return sha256(text.strip().encode("utf-8", "replace")).digest()


class Moments:
    """The part of a session's state that hooks fill."""

    def __init__(self, state: State) -> None:
        self._state = state

    def hear(self, told: PromptHeard) -> None:
        """Keep a prompt's moment for its line."""
        self._state.heard = [*self._state.heard, told][-MOST_HEARD:]

    def of_prompt(self, text: str, time: int | None) -> PromptHeard | None:
        """The moment of a prompt whose line came; those before it were refused, and are forgotten."""
        words, heard = digest_of(text), self._state.heard
        for place in reversed(range(len(heard))):
            told = heard[place]
            near = time is None or told.time - _BEFORE <= time <= told.time + _AFTER
            if near and told.words == words:
                del heard[: place + 1]
                return told
        return None

    def guard(self, told: CallGuarded, opened: bool) -> list[SessionCommand]:
        """Keep a call's moment for its line, or refine the call if that was here first."""
        guards = self._state.guards
        guards[told.tool] = Guard(told, opened)
        while len(guards) > MOST_GUARDS:
            del guards[next(iter(guards))]
        return [self._command(told)] if opened else []

    def refine(self, commands: Sequence[SessionCommand], parent: str) -> list[SessionCommand]:
        """Commands of a line, with what hooks told of the calls that it opens."""
        refined: list[SessionCommand] = []
        for command in commands:
            refined.append(command)
            if isinstance(command, OpenCall) and (guard := self._state.guards.get(command.tool)):
                if not guard.opened:
                    refined.append(self._command(guard.told))
                guard.opened, guard.parent = True, parent
                if guard.told.exact and (call := self._state.calls.get(command.tool)):
                    call.start = guard.told.time
        return refined

    def tick(self, time: int) -> None:
        """Time went by."""
        guards = self._state.guards
        for tool, guard in list(guards.items()):
            guard.late = time - guard.told.time > _PATIENCE
            if time - guard.told.time > CALL_TIMEOUT:
                del guards[tool]

    def due(self) -> list[Guard]:
        """The calls before which a checkpoint is to be judged now, each once, in the order in which they began.

        What ran before them is waited for: its own checkpoint may hold the same tree.
        """
        found = []
        for tool, guard in sorted(self._state.guards.items(), key=lambda item: item[1].told.time):
            ready = guard.late or (guard.opened and not self._others_before(guard.told))
            if ready and not guard.judged:
                guard.judged = True
                found.append(guard)
            if guard.judged and guard.opened:
                del self._state.guards[tool]
        return found

    def _others_before(self, told: CallGuarded) -> bool:
        changing = (ToolClass.WINDOW, ToolClass.PATH)
        if any(not guard.judged and guard.told.time < told.time for guard in self._state.guards.values()):
            return True
        return any(
            not call.closed and call.tool_class in changing and (call.start is None or call.start < told.time)
            for tool, call in self._state.calls.items()
            if tool != told.tool
        )

    def _command(self, told: CallGuarded) -> GuardCall:
        barrier = told.exact.seq if told.exact else 0
        return GuardCall(session=self._state.session, tool=told.tool, start=told.time, barrier=barrier)
