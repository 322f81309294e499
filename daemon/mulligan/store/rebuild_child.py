"""A catalogue made anew beside the daemon, from snapshot and segments. It may be killed at any moment."""

from __future__ import annotations

import sqlite3
import sys

from mulligan import child
from mulligan.errors import MulliganError
from mulligan.store.rebuild import Built, build
from mulligan.store.snapshot_child import NICENESS, Wanted


def main() -> int:
    """Build and answer."""
    wanted = child.question(Wanted, NICENESS)
    try:
        built = build(wanted.pool, wanted.catalogue, wanted.batch)
    except (OSError, sqlite3.Error, MulliganError) as error:
        built = Built(error=f"the catalogue could not be made anew: {error}")
    child.answer(built)
    return 0


if __name__ == "__main__":
    sys.exit(main())
