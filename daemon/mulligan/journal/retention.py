"""Which checkpoints a policy forgets, and how the timeline holds together without them.

Kept whatever the policy says are pinned and current checkpoints, the newest way back from a restore, the last of each
session, and wherever kept branches part. A second run with the same policy at the same time forgets nothing more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from mulligan.clock import NANOSECONDS
from mulligan.model import Checkpoint

_HOUR = 3600 * NANOSECONDS
_DAY = 24 * _HOUR
_WEEK = 7 * _DAY
#: 1970 began on a Thursday; weeks begin on Monday.
_MONDAY = 3 * _DAY


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What to keep: the last so many, and the newest of each of so many hours, days and weeks (UTC) that have one.

    Ages are in nanoseconds: what is younger than `spare` stays; what is older than `max_age` (0: no limit) goes even
    if a rule would keep it. Without any rule only `max_age` makes something go.
    """

    keep_last: int = 0
    keep_hourly: int = 0
    keep_daily: int = 0
    keep_weekly: int = 0
    spare: int = 0
    max_age: int = 0

    @property
    def has_rules(self) -> bool:
        """Whether there is a rule of what to keep."""
        return any((self.keep_last, self.keep_hourly, self.keep_daily, self.keep_weekly))


class Forgotten(msgspec.Struct, frozen=True):
    """What goes, oldest first, and the new parents of what stays and had one that goes."""

    removed: list[str]
    parents: dict[str, str]


def forget(checkpoints: Sequence[Checkpoint], current: Collection[str], policy: Policy, now: int) -> Forgotten:
    """Apply a policy to all checkpoints of one project, in any order; `current` are those of project and sessions."""
    ordered = sorted(checkpoints, key=lambda made: (made.timestamp, made.ordinal))
    kept = _protected(ordered, current) | _by_rules(ordered, policy, now)
    kept |= _partings(ordered, kept)
    return without(ordered, [made.id for made in ordered if made.id not in kept])


def without(checkpoints: Iterable[Checkpoint], removed: Sequence[str]) -> Forgotten:
    """Take checkpoints out: the children of each get its nearest ancestor that stays."""
    parents, gone = {made.id: made.parent for made in checkpoints}, set(removed)
    changed = {}
    for made, parent in parents.items():
        if made not in gone and parent in gone:
            while parent in gone:
                parent = parents.get(parent, "")
            changed[made] = parent
    return Forgotten(list(removed), changed)


def _protected(ordered: list[Checkpoint], current: Collection[str]) -> set[str]:
    last_of_session = {made.session: made.id for made in ordered}
    way_back = [made.id for made in ordered if made.trigger == "pre_restore"][-1:]
    pinned = [made.id for made in ordered if made.pinned]
    return {*last_of_session.values(), *way_back, *pinned, *(made.id for made in ordered if made.id in current)}


def _by_rules(ordered: list[Checkpoint], policy: Policy, now: int) -> set[str]:
    newest = ordered[::-1]
    kept = {made.id for made in newest if not policy.has_rules or now - made.timestamp < policy.spare}
    kept |= {made.id for made in newest[: policy.keep_last]}
    for count, length in ((policy.keep_hourly, _HOUR), (policy.keep_daily, _DAY), (policy.keep_weekly, _WEEK)):
        seen: dict[int, str] = {}
        for made in newest:
            seen.setdefault((made.timestamp + _MONDAY) // length, made.id)
        kept |= set(list(seen.values())[:count])
    if policy.max_age:
        kept -= {made.id for made in newest if now - made.timestamp > max(policy.max_age, policy.spare)}
    return kept


def _partings(ordered: list[Checkpoint], kept: set[str]) -> set[str]:
    """The checkpoints at which paths to kept ones part: without them branches would seem to begin elsewhere."""
    parents = {made.id: made.parent for made in ordered}
    branches: dict[str, set[str]] = {}
    for made in kept:
        below, above = made, parents[made]
        while above in parents and below not in branches.setdefault(above, set()):
            branches[above].add(below)
            below, above = above, parents[above]
    return {made for made, below in branches.items() if len(below) > 1}
