"""What is known to be damaged, remembered over restarts: contents, and faults of the log and of trees.

A content that is stored again is whole from that moment on, whoever did it: what is remembered with it is where the
bytes lay on which it failed, and it counts as long as the catalogue says that they lie there.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Collection, Mapping

import msgspec

from mulligan.clock import to_rfc3339
from mulligan.errors import ReadOnlyError
from mulligan.store.catalogue import Catalogue
from mulligan.store.checking import Harm
from mulligan.store.needs import Need, needs
from mulligan.store.state import StateDatabase

log = logging.getLogger(__name__)
_SCOPE, _FAULTS = "damaged", "faults"


class Mark(msgspec.Struct, frozen=True):
    """A content that was found to be damaged: why, since when, and where the bytes lie on which it fails."""

    reason: str
    since: str
    culprit: str
    segment: int = 0
    offset: int = 0


class Damage:
    """The known damage of one store; any thread."""

    def __init__(self, state: StateDatabase, catalogue: Callable[[], Catalogue], now: Callable[[], int]) -> None:
        self._state, self._catalogue, self._now = state, catalogue, now
        self._needed: tuple[tuple[object, ...], list[Need]] = ((), [])

    def marks(self) -> dict[bytes, Mark]:
        """The contents that are damaged, as far as it is known."""
        found: dict[bytes, Mark] = {}
        for name, value in self._state.settings(_SCOPE, "").items():
            mark = msgspec.convert(value, Mark)
            if self._place(bytes.fromhex(mark.culprit)) == (mark.segment, mark.offset):
                found[bytes.fromhex(name)] = mark
        return found

    def faults(self) -> list[str]:
        """What else is wrong, in words."""
        return msgspec.convert(self._state.settings(_SCOPE, _FAULTS).get(_FAULTS, []), list[str])

    def needs(self) -> list[Need]:
        """The checkpoints that cannot be restored whole. Walks all rows if there is damage and something is new."""
        catalogue, marks = self._catalogue(), self.marks()
        if not marks:
            return []
        key = (catalogue.meta("batch"), *sorted(marks))
        if self._needed[0] != key:
            self._needed = key, needs(catalogue, marks)
        return self._needed[1]

    def keep(self, harms: Collection[Harm], faults: list[str] | None = None) -> None:
        """This is all that is damaged; `faults` of None stay as they are. What cannot be kept is said in the log."""
        since = {name: mark.since for name, mark in self.marks().items()}
        now = to_rfc3339(self._now())
        marks: dict[str, object] = {}
        for harm in harms:
            mark = Mark(harm.reason, since.get(harm.hash, now), harm.culprit.hex(), *self._place(harm.culprit))
            marks[harm.hash.hex()] = msgspec.to_builtins(mark)
        try:
            self._replace("", marks)
            if faults is not None:
                self._replace(_FAULTS, {_FAULTS: faults} if faults else {})
        except (ReadOnlyError, sqlite3.Error) as error:
            log.warning("%d damaged contents could not be remembered: %s", len(marks), error)

    def _replace(self, subject: str, values: Mapping[str, object]) -> None:
        if self._state.settings(_SCOPE, subject) != values:
            self._state.replace(_SCOPE, subject, dict(values))

    def _place(self, digest: bytes) -> tuple[int, int]:
        place = self._catalogue().place(digest)
        return (place.segment, place.offset) if place is not None else (0, 0)
