"""The catalogue's write-ahead log stays short while batch follows batch, and is not written back after each."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from mulligan.clock import MILLISECOND
from mulligan.store import write_ahead
from support.storing import add_project, file_entry, opened, row, rows_fact

#: Rows of a batch, batches, and the length from which on it is written back (bytes).
ROWS, BATCHES, LIMIT = 300, 120, 1 << 20


def test_the_write_ahead_log_begins_anew_while_batch_follows_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []
    real = write_ahead.write_back

    def counted(db: sqlite3.Connection) -> None:
        real(db)
        runs.append(1)

    monkeypatch.setattr(write_ahead, "write_back", counted)
    with opened(tmp_path) as store:
        project = add_project(store)
        store.log._write_back.limit = LIMIT
        store.log._db.execute(f"pragma journal_size_limit = {LIMIT}")
        longest, submitted = 0, []
        for number in range(BATCHES):
            rows = [
                row(b"%d/%d" % (number, name), file_entry(b"data"), number * MILLISECOND + name) for name in range(ROWS)
            ]
            submitted.append(store.log.submit([rows_fact(*rows, project=project.id)], bulk=True))
        for each in submitted:
            each.result()
            longest = max(longest, (tmp_path / "catalogue.db-wal").stat().st_size)
        assert store.catalogue().project(project.id).files == ROWS * BATCHES
    assert LIMIT < longest < 6 * LIMIT
    assert 2 <= len(runs) < BATCHES / 2
