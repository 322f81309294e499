"""A look at a path: what told of it, what the journal said of it, and what was read."""

from __future__ import annotations

from dataclasses import dataclass

from mulligan.journal.reading import Reading
from mulligan.store.catalogue import Live


@dataclass(frozen=True, slots=True)
class Arrival:
    """When the events of a path arrived: the first since its last capture, and the last (journal time).

    `own`: they told of the path itself, not of a directory above it. `moved`: that directory came from elsewhere, and
    with it what was in it, whenever that was made.
    """

    first: int
    last: int
    own: bool = False
    moved: bool = False


@dataclass(slots=True)
class Looked:
    """A reading and what is to be judged with it: what the journal said of the path, and what told of it."""

    path: bytes
    live: Live | None
    reading: Reading
    arrival: Arrival | None
    flags: int = 0
