"""A snapshot of the catalogue, written beside the daemon. It may be killed at any moment."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing

import msgspec

from mulligan import child
from mulligan.errors import MulliganError
from mulligan.store import snapshot
from mulligan.store.catalogue import connect

NICENESS = 10


class Wanted(msgspec.Struct, frozen=True):
    """The pool, the catalogue, and the last batch that it is known to hold."""

    pool: str
    catalogue: str
    batch: int


class Made(msgspec.Struct, frozen=True):
    """The snapshot's batch, or why there is none."""

    batch: int = 0
    error: str = ""


def main() -> int:
    """Write, read back, remove old ones, answer."""
    wanted = child.question(Wanted, NICENESS)
    try:
        with closing(connect(wanted.catalogue)) as db:
            made = Made(snapshot.write(db, wanted.pool))
        snapshot.prune(wanted.pool)
    except (OSError, sqlite3.Error, MulliganError) as error:
        made = Made(error=f"the snapshot could not be written: {error}")
    child.answer(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
