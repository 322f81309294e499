"""What a restore would do, worked out without touching anything.

A plan is made from pairs of entries (the target's and the live one) and holds one step for each path that has to
change. It deletes only what the target says is absent: a path that was unknown then, or that the rules of either state
leave out, is kept and listed. The plan is logged before it is applied, and recovery works from the logged copy alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator

import msgspec

from mulligan.model import ABSENT, DATABASE_LOGS, Entry, Kind, Stat, database_of

UNKNOWN = Entry(Kind.UNKNOWN)
#: Names of SQLite databases: each is restored together with its logs or not at all. `-shm` is rebuilt by SQLite.
SQLITE_NAMES = (b".db", b".db3", b".sqlite", b".sqlite3", b".s3db", b".sl3")


class Change(msgspec.Struct, frozen=True, gc=False):
    """A path whose entries differ; None is unknown. `stat` is what the journal recorded of the live entry."""

    path: bytes
    target: Entry | None
    live: Entry | None
    stat: Stat | None = None


class Step(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A path, what must stand there now and what shall stand there; `reason` says why a step is not taken.

    An `expected` entry of kind UNKNOWN means: whatever is there is captured before it goes.
    """

    path: bytes
    expected: Entry
    target: Entry
    stat: Stat | None = None
    reason: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Steps in the order in which they work, and what is left alone.

    A path has at most one step: a file that becomes a directory is in `mkdir`, a directory that becomes a file or a
    link is in `write`. `sets` are the paths of SQLite databases that go together. `exchange` is false where the file
    system cannot exchange two names, so that a version written in the very moment of a step could be replaced unseen.
    """

    delete: list[Step] = []
    rmdir: list[Step] = []
    mkdir: list[Step] = []
    write: list[Step] = []
    chmod: list[Step] = []
    kept: list[Step] = []
    skipped: list[Step] = []
    sets: list[list[bytes]] = []
    exchange: bool = True
    force: bool = False

    def steps(self) -> Iterator[Step]:
        """Every step in its order; its number names its file in the stage, so the order is part of the log."""
        for steps in (self.delete, self.rmdir, self.mkdir, self.write, self.chmod):
            yield from steps

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return next(self.steps(), None) is None

    def digest(self) -> str:
        """What the plan does, as 64 hexadecimal digits: other steps, or other entries before or after, give another."""
        steps = [(step.path, step.expected, step.target) for step in self.steps()]
        return hashlib.sha256(msgspec.msgpack.encode(steps)).hexdigest()


class Done(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A path that has its target: the entries before and after, and what lstat said when it was read back."""

    path: bytes
    before: Entry
    after: Entry
    stat: Stat | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a plan; every path of the plan is in `done`, `skipped` or `kept`.

    `captured` are versions that nobody had seen and that were stored before they went. `verified` is true when every
    path in `done` was read back and is its target; `differs` lists those that are not. `rolled_back`: nothing was done.
    """

    done: list[Done] = []
    skipped: list[tuple[bytes, str]] = []
    kept: list[tuple[bytes, str]] = []
    captured: list[tuple[bytes, Entry]] = []
    differs: list[bytes] = []
    verified: bool = True
    exchange: bool = True
    rolled_back: bool = False

    @property
    def complete(self) -> bool:
        """Whether the target was reached everywhere."""
        return not (self.skipped or self.kept or self.differs)


def same(one: Entry, other: Entry) -> bool:
    """Whether two entries are the same on disk; a link's mode and an entry's reason do not count."""
    if one.kind != other.kind:
        return False
    if one.kind == Kind.FILE:
        return one.hash == other.hash and one.size == other.size and one.mode == other.mode
    if one.kind == Kind.DIR:
        return one.mode == other.mode
    return one.target == other.target if one.kind == Kind.LINK else one.kind == Kind.ABSENT


def same_content(one: Entry, other: Entry) -> bool:
    """Whether two entries are regular files with the same bytes."""
    return one.kind == other.kind == Kind.FILE and one.hash == other.hash and one.size == other.size


def sqlite_base(path: bytes) -> bytes:
    """The main file of the database that a path would belong to, or the path itself."""
    return database_of(path) or path


def ancestors(path: bytes) -> Iterator[bytes]:
    """The directories above a path, the nearest first, without the root."""
    while (end := path.rfind(b"/")) > 0:
        path = path[:end]
        yield path


def make_plan(
    changes: Iterable[Change],
    *,
    ignored: Callable[[bytes], bool] | None = None,
    exchange: bool = True,
    force: bool = False,
) -> Plan:
    """The plan that brings every changed path to its target.

    `ignored` says whether the rules of the target *or* of the live state leave a path out: such a path is never
    deleted. With a filter on paths, `changes` must hold the directories above them as well.
    """
    steps: dict[bytes, Step] = {}
    kept: dict[bytes, Step] = {}
    skipped: dict[bytes, Step] = {}
    for change in changes:
        step = Step(change.path, change.live or UNKNOWN, change.target or UNKNOWN, change.stat)
        if same(step.expected, step.target):
            continue
        if reason := _keep(step, ignored):
            kept[step.path] = _because(step, reason)
        else:
            steps[step.path] = step
    sets = _sqlite_sets(steps, kept, skipped)
    _keep_holders(steps, kept, skipped)
    _skip_homeless(steps, kept, skipped)
    lists = _ordered(steps)
    sets = [members for members in sets if all(path in steps for path in members)]
    return Plan(
        **lists,
        kept=[kept[path] for path in sorted(kept)],
        skipped=[skipped[path] for path in sorted(skipped)],
        sets=sets,
        exchange=exchange,
        force=force,
    )


def inverse(outcome: Outcome, *, exchange: bool = True, force: bool = False) -> Plan:
    """The plan that takes an operation back: only what still is as the operation left it is changed."""
    changes = (Change(done.path, done.before, done.after, done.stat) for done in outcome.done)
    return make_plan(changes, exchange=exchange, force=force)


def _because(step: Step, reason: str) -> Step:
    return msgspec.structs.replace(step, reason=reason)


def _keep(step: Step, ignored: Callable[[bytes], bool] | None) -> str:
    """Why a path is left as it is, or nothing."""
    target, live = step.target, step.expected
    if target.kind == Kind.UNKNOWN:
        return f"unknown then ({target.reason})" if target.reason else "unknown then"
    if target.kind == Kind.SPECIAL:
        return f"was a special file ({target.reason or 'special'}) then"
    if live.kind == Kind.SPECIAL:
        return f"is a special file ({live.reason or 'special'})"
    if target.kind == Kind.ABSENT:
        if live.kind == Kind.UNKNOWN:
            return f"not captured ({live.reason})" if live.reason else "not captured"
        if ignored is not None and ignored(step.path):
            return "ignored"
    return ""


def _sqlite_sets(steps: dict[bytes, Step], kept: dict[bytes, Step], skipped: dict[bytes, Step]) -> list[list[bytes]]:
    """The databases among the steps; one of which a member has to stay is skipped whole."""
    groups: dict[bytes, list[bytes]] = {}
    bases = {sqlite_base(path) for path in (*steps, *kept) if path.endswith((*DATABASE_LOGS, *SQLITE_NAMES))}
    for base in bases:
        groups[base] = [
            path for path in (base, *(base + each for each in DATABASE_LOGS)) if path in steps or path in kept
        ]
    sets = []
    for base, members in sorted(groups.items()):
        if len(members) < 2 and not members[0].endswith((*DATABASE_LOGS, *SQLITE_NAMES)):
            continue
        staying = [path for path in members if path in kept]
        moving = [
            path for path in members if path in steps and not same_content(steps[path].expected, steps[path].target)
        ]
        if any({steps[path].expected.kind, steps[path].target.kind} & {Kind.DIR, Kind.LINK} for path in moving):
            continue
        if staying and moving:
            name = staying[0].rpartition(b"/")[2].decode(errors="replace")
            for path in moving:
                skipped[path] = _because(steps.pop(path), f"one SQLite database with {name}, which is kept")
        elif moving:
            # First the logs go, then the main file is changed, then new logs come: a log never meets a foreign file.
            moving.sort(key=lambda path: (steps[path].target.there, path != base, path))
            sets.append(moving)
    return sets


def _keep_holders(steps: dict[bytes, Step], kept: dict[bytes, Step], skipped: dict[bytes, Step]) -> None:
    """A directory that holds an entry which stays, stays."""
    holders = {
        above
        for path, step in (*kept.items(), *skipped.items())
        if step.expected.kind != Kind.ABSENT
        for above in ancestors(path)
    }
    for path in holders & steps.keys():
        if steps[path].target.kind != Kind.DIR:
            kept[path] = _because(steps.pop(path), "holds entries that are kept")


def _skip_homeless(steps: dict[bytes, Step], kept: dict[bytes, Step], skipped: dict[bytes, Step]) -> None:
    """Nothing can be put below a name that stays something else than a directory."""
    walls = {path for path, step in (*kept.items(), *skipped.items()) if _is_wall(step)}
    if not walls:
        return
    for path in [path for path, step in steps.items() if step.target.there]:
        if any(above in walls for above in ancestors(path)):
            skipped[path] = _because(steps.pop(path), "there is no directory to put it in")


def _is_wall(step: Step) -> bool:
    return step.target.kind == Kind.DIR and step.expected.kind not in (Kind.DIR, Kind.UNKNOWN)


def _ordered(steps: dict[bytes, Step]) -> dict[str, list[Step]]:
    """Deletions from the leaves up, creations from the root down, directory modes last and from the leaves up."""
    lists: dict[str, list[Step]] = {"delete": [], "rmdir": [], "mkdir": [], "write": [], "chmod": []}
    modes: list[Step] = []
    for path in sorted(steps):
        step = steps[path]
        target, live = step.target, step.expected
        if target.kind == Kind.ABSENT:
            lists["rmdir" if live.kind == Kind.DIR else "delete"].append(step)
        elif target.kind == Kind.DIR:
            (modes if live.kind == Kind.DIR else lists["mkdir"]).append(step)
        elif same_content(target, live):
            lists["chmod"].append(step)
        else:
            lists["write"].append(step)
    lists["delete"].reverse()
    lists["rmdir"].reverse()
    lists["chmod"] += reversed(modes)
    return lists


__all__ = [
    "ABSENT",
    "UNKNOWN",
    "Change",
    "Done",
    "Outcome",
    "Plan",
    "Step",
    "ancestors",
    "inverse",
    "make_plan",
    "same",
    "same_content",
    "sqlite_base",
]
