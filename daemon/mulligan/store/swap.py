"""Putting a catalogue that was made anew into the place of the one in use, while everybody works."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec

from mulligan.errors import IntegrityError
from mulligan.faults import point
from mulligan.store import search_index
from mulligan.store.log import make_reserve
from mulligan.store.opening import give_up_older
from mulligan.store.rebuild import Built, remove, unfinished
from mulligan.store.replay import Replayed, replay
from mulligan.store.segments import SegmentKind, SegmentWriter

if TYPE_CHECKING:
    from mulligan.store.store import Store


def swap_in(store: Store, built: Built) -> Built:
    """Fold what came since, replace the catalogue's pages in one transaction, and go on with the log behind it.

    Readers see the old or the new state, and a kill leaves one of them. Raises IntegrityError; then the old one stays.
    """
    new = unfinished(store.catalogue_path)
    point("rebuild.built")
    with store.log.held() as catalogue:
        before, damage = store.log.batch, store.damage
        with closing(sqlite3.connect(new, isolation_level=None)) as db:
            replayed = replay(store.pool, db, store.quarantine)
            point("rebuild.caught_up")
            try:
                db.backup(catalogue)  # every page of it, as one transaction of the catalogue's
                catalogue.execute("pragma wal_checkpoint(passive)").fetchall()
            except sqlite3.Error as error:
                hint = "mulligan restart sets it aside and makes it anew"
                raise IntegrityError(f"the catalogue cannot be replaced: {error}", hint=hint) from error
            meta = dict(db.execute("select key, value from meta"))
        point("rebuild.swapped")
        writer = _writer(store.pool, replayed, damaged=bool(damage))
        if writer is not None:
            # rows that were read no more may have had the numbers that others get now
            search_index.remove(os.path.join(store.directory, search_index.NAME))
        store.log.go_on(
            writer, batch=meta.get("batch", 0), seq=meta.get("seq", 0), content_id=meta.get("content_id", 0),
            correction=meta.get("correction", 0),
        )  # fmt: skip
        point("rebuild.done")
        if meta.get("batch", 0) < before:
            store.log.damage = "the catalogue was made anew and knows less than before: the daemon has to start anew"
    remove(new)
    lost = [replayed.damage] if replayed.damage and not replayed.behind else built.lost
    if give_up_older(store.catalogue_path):
        lost = [*lost, damage]
    if not store.damage:
        make_reserve(store.pool, store.room.reserve)
    batch, batches = meta.get("batch", 0), built.batches + replayed.batches
    return msgspec.structs.replace(built, batch=batch, batches=batches, lost=lost)


def _writer(pool: str, replayed: Replayed, *, damaged: bool) -> SegmentWriter | None:
    """Where the log goes on; None: where it is."""
    if replayed.damage or not replayed.segment:
        return SegmentWriter.create_next(pool, SegmentKind.LOG)
    return SegmentWriter.reopen(pool, replayed.segment, replayed.end) if damaged else None
