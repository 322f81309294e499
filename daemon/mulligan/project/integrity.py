"""Keeping a store whole: damage is looked for, healed where the bytes still are, remembered, and told.

For any thread; one at a time.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable

import msgspec

from mulligan.clock import NANOSECONDS, to_rfc3339
from mulligan.events import Bus
from mulligan.project.healing import heal
from mulligan.store.catalogue import Catalogue
from mulligan.store.checking import Harm, Question, check_aside, harm_of, missing
from mulligan.store.contents import Contents
from mulligan.store.damage import Damage
from mulligan.store.state import StateDatabase
from mulligan.store.store import Store
from mulligan.store.verify import Report, find_dependants, paths_of, slices, some_checkpoints, verify

log = logging.getLogger(__name__)
_SCOPE, _SCRUB = "store", "scrub"
_HOUR, _DAY = 3600 * NANOSECONDS, 24 * 3600 * NANOSECONDS
#: Less is not worth a process before a day has gone by; more is asked for in parts, so that it can be stopped.
_LEAST, _MOST = 16 << 20, 64 << 20


class Scrub(msgspec.Struct):
    """How far a scrub is: contents up to `done` were looked at, last at `time`; all were once more at `whole`."""

    done: int = 0
    time: int = 0
    whole: int = 0


class Integrity:
    """The integrity of one store; any thread."""

    def __init__(self, store: Store, state: StateDatabase, bus: Bus) -> None:
        self._store, self._state, self._bus = store, state, bus
        self._lock = threading.Lock()
        self.damage = Damage(state, store.catalogue, store.clock.now)

    def verify(self, share: float, *, repair: bool, progress: Callable[[int, int], None]) -> Report:
        """Look at a share of the contents, at the log, at references and digests; heal what is damaged, if wanted.

        What was known to be damaged before is looked at again, chosen or not.
        """
        catalogue = self._store.catalogue()
        report = verify(catalogue, self._store.contents, progress, share=share, look=check_aside)
        with self._lock:
            self._settle(report, repair=repair, again=True, structure=True)
        report.paths = paths_of(catalogue, report.harms)
        return report

    def scrub(self, seconds: int, go_on: Callable[[], bool]) -> Report:
        """Look at the next contents, so many that all are within `seconds`; heal what is damaged.

        Each round begins with the log, references and digests. Does nothing as long as there is little to look at.
        """
        catalogue, now = self._store.catalogue(), self._store.clock.now()
        report, place = Report(), self.scrubbed()
        (total,) = catalogue.db.execute("select coalesce(sum(size), 0) from content").fetchone()
        passed = min(now - place.time, _DAY) if place.time else _HOUR
        quota = total * passed // (seconds * NANOSECONDS)
        if quota < _LEAST and place.time and passed < _DAY:
            return report
        quota = max(quota, _LEAST)
        place.time = now
        structure = place.done == 0
        if structure:
            report.add(check_aside(Question(self._store.directory, [], some_checkpoints(catalogue))))
        ended = True
        for numbers, size in slices(catalogue, place.done, most=min(quota, _MOST)):
            if quota <= 0 or not go_on():
                ended = False
                break
            report.add(check_aside(Question(self._store.directory, numbers)))
            place.done = numbers[-1]
            quota -= size
        if ended:
            place.done, place.whole = 0, now
        find_dependants(catalogue, self._store.contents, report.harms)
        with self._lock:
            self._settle(report, repair=True, again=structure, structure=structure)
        self._state.set(_SCOPE, "", _SCRUB, msgspec.to_builtins(place))
        return report

    def scrubbed(self) -> Scrub:
        """How far the scrub is."""
        return msgspec.convert(self._state.settings(_SCOPE, "").get(_SCRUB, {}), Scrub)

    def _settle(self, report: Report, *, repair: bool, again: bool, structure: bool) -> None:
        """Look again at what was found and at what was known, heal it if wanted, remember what is left, and tell.

        `again`: what could not be healed before is tried again.
        """
        known = self.damage.marks()
        contents = Contents(self._store.pool, self._store.catalogue)  # with no segment open that is gone
        try:
            suspects = set(report.harms) | {harm.culprit for harm in report.harms.values()} | set(known)
            report.harms = self._harms(contents, suspects)
            tried = {digest: harm for digest, harm in report.harms.items() if again or digest not in known}
            if repair and tried and not self._store.damage:
                healed = heal(self._store, contents, tried)
                left = self._harms(contents, report.harms)
                report.healed = {digest: healed.get(digest, _BASE) for digest in report.harms if digest not in left}
                report.harms = left
        finally:
            contents.close()
        catalogue = self._store.catalogue()
        faults = [*report.log, *(digest_words(catalogue, *each) for each in report.digests)] if structure else None
        new = [fault for fault in faults or () if fault not in self.damage.faults()]
        self.damage.keep(report.harms.values(), faults)
        if report.healed or new or not report.harms.keys() <= known.keys():
            self._tell(report, new)

    def _harms(self, contents: Contents, digests: Iterable[bytes]) -> dict[bytes, Harm]:
        """What is wrong with some contents. What is not stored, and no row names, is no damage: it left the store."""
        catalogue = self._store.catalogue()
        harms = {digest: harm for digest in digests if (harm := harm_of(contents, digest)) is not None}
        absent = {digest for digest in harms if catalogue.place(digest) is None}
        for digest in absent - set(missing(catalogue)) if absent else ():
            del harms[digest]
        return harms

    def _tell(self, report: Report, faults: list[str]) -> None:
        checkpoints = len(self.damage.needs())
        log.warning(
            "damage was found: contents healed %d, damaged %d, checkpoints that cannot be restored whole %d%s",
            len(report.healed), len(report.harms), checkpoints, "".join(f"; {each}" for each in faults),
        )  # fmt: skip
        self._bus.publish("damage", contents=len(report.harms), healed=len(report.healed), checkpoints=checkpoints)

    def warnings(self) -> list[str]:
        """What `status` is to say, in words."""
        found = [f"the store is damaged: {fault}; mulligan verify" for fault in self.damage.faults()]
        if marks := self.damage.marks():
            contents = "1 content is" if len(marks) == 1 else f"{len(marks):,} contents are"
            count = len(self.damage.needs())
            checkpoints = "1 checkpoint" if count == 1 else f"{count:,} checkpoints"
            found.append(f"{contents} damaged: {checkpoints} cannot be restored whole; mulligan verify --repair")
        return found


_BASE = "what it builds on"


def digest_words(catalogue: Catalogue, project: int, checkpoint: str) -> str:
    """`checkpoint 4 of /src/shop: its tree is not the one that was recorded`."""
    path = os.fsdecode(catalogue.project(project).path)
    made = catalogue.checkpoint(checkpoint) if checkpoint else None
    what = f"checkpoint {made.ordinal} of {path}" if made is not None else path
    return f"{what}: its tree is not the one that was recorded"


def times(scrub: Scrub) -> dict[str, str | None]:
    """The times of a scrub, for people and programs."""
    return {
        "time": to_rfc3339(scrub.time) if scrub.time else None,
        "whole": to_rfc3339(scrub.whole) if scrub.whole else None,
    }
