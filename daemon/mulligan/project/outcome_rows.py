"""The rows of a restore: what was done becomes part of the journal.

Most rows go ahead of the operation's end, in the lane of scans and while the rest is still read back: nobody waits for
them, each is true by itself, and whoever finishes the operation after a crash finds them made.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future

from mulligan.model import Entry, Flag, Row, Stat
from mulligan.project.worker import ProjectWorker
from mulligan.restore.plan import Done, Outcome
from mulligan.store.log import Receipt
from mulligan.store.records import AnyFact, RowsFact

#: Rows of one batch, and how many batches may be on their way to the disk.
_ROWS, _BATCHES = 1000, 30
_RESTORED, _NAMED = int(Flag.RESTORED), int(Flag.NAMED)


class OutcomeRows:
    """Makes rows of one operation; belongs to the worker's thread, in which nothing else makes rows meanwhile."""

    def __init__(self, worker: ProjectWorker) -> None:
        self._worker = worker
        catalogue, project = worker.store.catalogue(), worker.project_id
        # `at` rises within every path
        self._at = max(worker.now(), catalogue.latest(project) + 1)
        self._rows: list[Row] = []
        self._stats: list[Stat] = []
        self._booked: set[bytes] = set()
        self._ahead: deque[Future[Receipt]] = deque()

    def book(self, done: Done) -> None:
        """Something is done, and no version of the path was captured on the way. What fails is told by `finish`."""
        self._booked.add(done.path)
        self._add(done.path, done.after, self._at, done.stat, _RESTORED)
        if len(self._rows) >= _ROWS:
            self._ahead.append(self._worker.store.log.submit(self._take(), bulk=True))
            # wait for the oldest batch; one that failed stays, for `finish` to raise
            if len(self._ahead) > _BATCHES and self._ahead[0].exception() is None:
                self._ahead.popleft()

    def finish(self, outcome: Outcome) -> list[AnyFact]:
        """What is to be committed with "done"; the rest is durable. Raises what a commit raised.

        Captured versions come before what replaced them.
        """
        for path, entry in outcome.captured:
            self._add(path, entry, self._at + 1, None, 0)  # somebody else's, found on the way
        captured = {path for path, _ in outcome.captured}
        left = [done for done in outcome.done if done.path in captured or done.path not in self._booked]
        lives = self._worker.store.catalogue().lives(self._worker.project_id, [done.path for done in left])
        for done in left:
            live = lives.get(done.path)
            if live is None or live.entry != done.after or done.path in captured:
                self._add(done.path, done.after, self._at + 2, done.stat, _RESTORED)
        while self._ahead:
            self._ahead.popleft().result()
        return self._take()

    def _add(self, path: bytes, entry: Entry, at: int, stat: Stat | None, flags: int) -> None:
        named = _NAMED if path in self._worker.capture.named else 0
        self._rows.append(Row(path, entry, at, at, flags | named))
        self._stats.append(stat or Stat(seen=at))

    def _take(self) -> list[AnyFact]:
        rows, stats = self._rows, self._stats
        self._rows, self._stats = [], []
        return [RowsFact(self._worker.project_id, rows, stats)] if rows else []
