"""Hand-offs made and kept up to date: what is known of a session is gathered, a child makes the text, it is written."""

from __future__ import annotations

import glob
import logging
import os
import threading
from collections.abc import Callable

from mulligan import child
from mulligan.clock import NANOSECONDS
from mulligan.config import Config
from mulligan.errors import MulliganError
from mulligan.store.store import Store
from mulligan.taskstate.handoff import Handoff
from mulligan.taskstate.handoff_child import Answer, Question
from mulligan.taskstate.handoff_files import HandoffFiles
from mulligan.taskstate.session_record import environment_files, record_of
from mulligan.taskstate.store import TaskStates

log = logging.getLogger(__name__)
_SECONDS = 60.0
_DAY = 86_400 * NANOSECONDS


class Handoffs:
    """The hand-offs of all sessions; any thread. One is written at a time."""

    def __init__(self, store: Store, states: TaskStates, files: HandoffFiles) -> None:
        self._store, self._states, self.files = store, states, files
        self._lock = threading.Lock()
        #: Sessions whose hand-offs tell what was.
        self.pending: dict[str, None] = {}
        #: Called when there is one; may not block.
        self.wake: Callable[[], None] = lambda: None

    def write(self, session: str, root: bytes) -> tuple[bytes, str]:
        """Make a session's hand-off of what is stored now: where it lies, and its text.

        Raises MulliganError: then the one that was there stays, and nothing was written that was not redacted.
        """
        with self._lock:
            text = self._text(session, root)
            return self.files.write(root, session, text), text

    def remove(self, session: str, root: bytes) -> bool:
        """Remove a session's hand-off; whether there was one."""
        with self._lock:
            return self.files.remove(root, session)

    def changed(self, session: str) -> None:
        """Something that a session's hand-off tells is another now: it is made anew by the next `catch_up`."""
        self.pending[session] = None
        self.wake()

    def find_stale(self) -> None:
        """Sessions whose state is newer than their hand-offs have changed; of those without one, today's."""
        correction = self._store.clock.correction
        today = self._store.clock.now() - _DAY
        for session, root in self._states.sessions():
            found = self._states.load(session)
            if found is not None and found.updated_at - correction > self.files.written(root, session, today):
                self.pending[session] = None

    def catch_up(self, config: Config, stop: Callable[[], bool] = lambda: False) -> None:
        """Make anew the hand-offs of the sessions that have a state and have changed; a failure is logged."""
        while self.pending and not stop():
            session, _ = self.pending.popitem()  # in one step: others add to it meanwhile
            try:
                root = dict(self._states.sessions(session)).get(session)
                if config.handoff and root is not None and self._states.load(session) is not None:
                    self.write(session, root)
            except MulliganError as error:
                log.warning("the hand-off of session %s: %s", session, error.message)

    def _text(self, session: str, root: bytes) -> str:
        catalogue = self._store.catalogue()
        project = next((known.id for known in catalogue.projects() if known.path == root), 0)
        record = record_of(catalogue, project, root, session, self._states.load(session), self._store.clock.now())
        secrets = list(environment_files(catalogue, self._store.contents, project, root))
        question = Question(record, self._transcripts(session, record), secrets)
        try:
            answer = child.ask("mulligan.taskstate.handoff_child", question, Answer, seconds=_SECONDS)
        except TimeoutError:
            raise MulliganError(f"a hand-off takes more than {_SECONDS:.0f} s", hint="try again later") from None
        except child.ChildError as error:
            raise MulliganError(f"the process that makes a hand-off {error}", hint="see the log") from error
        return answer.text

    def _transcripts(self, session: str, record: Handoff) -> list[str]:
        """The transcripts that tell how the calls ended: the session's own, and its subagents'."""
        query = "select transcript from session where id = ?"
        found = self._store.catalogue().db.execute(query, (session,)).fetchone()
        if found is None or not found[0] or not (record.commands or record.failures):
            return []
        main = os.fsdecode(found[0])
        below = os.path.join(glob.escape(os.path.splitext(main)[0]), "subagents", "**", "agent-*.jsonl")
        return [main, *sorted(glob.glob(below, recursive=True))]
