"""Which events were there before: copied by a fork or a resume, read again, or older than all that counts."""

from __future__ import annotations

from collections.abc import Callable

from mulligan.clock import MILLISECOND
from mulligan.session.state import MOST_KEYS, State
from mulligan.transcript.events import CallFinished, CallStarted, TranscriptEvent, TurnEnded, Usage


def renews_ids(version: str) -> bool:
    """Whether this client, when it resumes, copies the history under new line ids and times (1.0.60 does)."""
    return version.startswith("1.")


class Replay:
    """What a session's state, and `known` for everything older, say of an event's novelty."""

    def __init__(self, state: State, known: Callable[[str], bool], since: int) -> None:
        self._state = state
        self._known = known
        self._since = since

    def seen(self, key: str) -> bool:
        """Whether a command of this key was given out, by this session or another one."""
        return key in self._state.keys or self._known(key)

    def keep(self, key: str) -> None:
        """Remembers a key for as long as the catalogue may not have it yet."""
        keys = self._state.keys
        keys[key] = True
        while len(keys) > MOST_KEYS:
            del keys[next(iter(keys))]

    def past(self, event: TranscriptEvent) -> bool:
        """Whether the line tells of a time before everything that counts."""
        return event.time is not None and event.time < self._since

    def dropped(self, key: str, event: TranscriptEvent) -> bool:
        """Whether an event has had its effect, or is to have none; if not, its key is kept and its line counted."""
        if event.replayed or self.past(event) or self.seen(key) or self._in_copied_run(event):
            return True
        self.keep(key)
        state = self._state
        if event.uuid != state.last_uuid:
            state.messages, state.last_uuid = state.messages + 1, event.uuid
        return False

    def is_copy(self, event: Usage | CallStarted | CallFinished | TurnEnded) -> bool:
        """Whether a line shows that the held prompts before it are copies: its message or tool is known already."""
        held = self._state.held[-1]
        if event.replayed:
            return True
        if event.time is not None and held.time is not None and 0 <= event.time - held.time <= MILLISECOND:
            return True  # no model answers within a millisecond
        match event:
            case Usage():
                return self._state.tally.holds(event.message) or self.seen("usage:" + event.message)
            case CallStarted():
                return self.seen("call:" + event.tool)
            case CallFinished():
                return self.seen("tool_use:" + event.tool)
            case TurnEnded():
                return self.seen("turn_end:" + event.key)

    def _in_copied_run(self, event: TranscriptEvent) -> bool:
        """Whether a line belongs to the lines that were copied in one go, which bear one time."""
        copied_at = self._state.copied_at
        if copied_at is None or event.time is None or event.agent or not renews_ids(event.version):
            return False
        if not 0 <= event.time - copied_at <= MILLISECOND:
            self._state.copied_at = None
            return False
        self._state.copied_at = event.time
        return True
