"""Rescuing: finding what was lost in a project, and bringing it back as an operation that can be undone.

Versions are found by `journal/losses.py`. Left out, unless everything is wanted, is what is no loss: what operations of
mulligan changed, what git took away and still holds, leftovers of editors, and steps of saving a file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

import msgspec

from mulligan.errors import IntegrityError
from mulligan.journal.gitstore import LARGEST, GitStore
from mulligan.journal.losses import How, Known, Loss, find_loss, is_gone, is_passing
from mulligan.model import Entry, Flag, Kind, Row, covers
from mulligan.project.naming import Position
from mulligan.project.restoring import FOREIGN, Restorer, Result
from mulligan.project.worker import ProjectWorker
from mulligan.restore.plan import Change, Plan, Step, ancestors, make_plan, same

#: Files that editors leave beside the ones that they write.
_LEFTOVER = re.compile(rb"(?:.*\.sw[a-px]|4913|.*~|\.#.*|#.*#|.*\.tmp\.[0-9]+\.[0-9a-f]+)\Z", re.DOTALL)
_DIRECTORY = Entry(Kind.DIR, 0o755)


@dataclass(slots=True)
class Found:
    """What was lost, the latest first; how much was left out, by reason; and what only moved, with its new path."""

    losses: list[Loss] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    moved: dict[bytes, bytes] = field(default_factory=dict)


def find_losses(worker: ProjectWorker, since: int, paths: Collection[bytes] = (), *, everything: bool = False) -> Found:
    """What a project lost since a moment, of all or of some paths. For any thread, after `sync`."""
    git = GitStore(worker.root)
    try:
        return _Search(worker, git, since, everything).run(paths)
    finally:
        git.close()


class _Search:
    """One search."""

    def __init__(self, worker: ProjectWorker, git: GitStore, since: int, everything: bool) -> None:
        self._worker, self._git, self._since, self._everything = worker, git, since, everything
        self._contents = worker.store.contents
        self._held: dict[bytes, int] = {}
        self._vanished: dict[bytes, list[Row]] = {}
        self._known = Known(lambda digest: self._vanished.get(digest, ()), self._in_git)

    def run(self, paths: Collection[bytes]) -> Found:
        found, changed = Found(), dict[bytes, list[Row]]()
        places: dict[bytes, bytes] = {}
        for path, rows in self._histories():
            live = rows[-1].entry
            if is_gone(live):
                self._note_vanished(rows)
                self._judge(rows, paths, found)
            elif live.kind == Kind.FILE:
                changed[path] = rows  # what was moved over it is known in the end
                if live.size and all(row.entry.hash != live.hash for row in rows if row.at < self._since):
                    places[live.hash] = path
        for rows in changed.values():
            self._judge(rows, paths, found)
        found.losses = _without_holders(found.losses)
        found.losses.sort(key=lambda loss: (-loss.loss.at, loss.path))
        gone = {loss.path: loss.version.entry.hash for loss in found.losses if loss.how is How.VANISHED}
        found.moved = {path: places[digest] for path, digest in gone.items() if digest in places}
        return found

    def _judge(self, rows: list[Row], paths: Collection[bytes], found: Found) -> None:
        loss = find_loss(rows, self._since, self._known) if covers(paths, rows[-1].path) else None
        if loss is None:
            return
        if reason := "" if self._everything else self._no_loss(loss, rows):
            found.left_out[reason] = found.left_out.get(reason, 0) + 1
        else:
            found.losses.append(loss)

    def _histories(self) -> Iterator[tuple[bytes, list[Row]]]:
        """All rows of the paths that changed since, by path."""
        rows = self._worker.store.catalogue().rows_of_changed(self._worker.project_id, self._since)
        for path, group in groupby(rows, key=attrgetter("path")):
            yield path, list(group)

    def _note_vanished(self, rows: list[Row]) -> None:
        """What vanished, by content, if it had not only just been made."""
        if len(rows) < 2 or rows[-2].entry.kind != Kind.FILE:
            return
        if not is_passing(rows, Loss(rows[-1].path, How.VANISHED, rows[-2], rows[-1], rows[-1])):
            self._vanished.setdefault(rows[-2].entry.hash, []).append(rows[-1])

    def _in_git(self, entry: Entry) -> int:
        """Since when (journal time) git holds the content of a file; 0 if it does not, or nobody looked."""
        if not self._git.there or entry.kind != Kind.FILE or entry.size > LARGEST:
            return 0
        if entry.hash not in self._held:
            try:
                held = self._git.held_since(self._contents.read(entry.hash))
            except IntegrityError:
                held = 0
            self._held[entry.hash] = self._worker.store.clock.from_wall(held) if held else 0
        return self._held[entry.hash]

    def _no_loss(self, loss: Loss, rows: list[Row]) -> str:
        """Why something that looks like a loss is left out, or nothing."""
        if loss.now.flags & Flag.RESTORED:
            return "changed by mulligan itself, see undo and redo"
        if loss.how is How.PUT_BACK:
            return "replaced by git, which still holds what was there" if self._in_git(loss.version.entry) else ""
        if loss.how is not How.VANISHED:
            return ""
        if _LEFTOVER.match(loss.path.rpartition(b"/")[2]):
            return "leftovers of editors"
        if is_passing(rows, loss):
            return "gone as soon as they had been made"
        if self._git.there and loss.version.entry.kind == Kind.FILE and not self._git.tracks(loss.path):
            return "taken away by git, which still holds them" if self._in_git(loss.version.entry) else ""
        return ""


def _without_holders(losses: list[Loss]) -> list[Loss]:
    """Without the directories that come back with what was in them."""
    held = {above for loss in losses for above in ancestors(loss.path)}
    return [loss for loss in losses if loss.version.entry.kind != Kind.DIR or loss.path not in held]


class Rescuer(Restorer):
    """The operation that brings back what was lost."""

    def plan_rescue(self, losses: Sequence[Loss], *, force: bool = False) -> Plan:
        """What brings versions back, with the directories above them; over something newer only with `force`."""
        self._worker.sync()
        catalogue, project = self._store.catalogue(), self._worker.project_id
        changes: dict[bytes, Change] = {}
        skipped: list[Step] = []
        is_foreign = self._foreign()
        wanted = [loss for loss in losses if force or not loss.newer]
        above = {path for loss in wanted for path in ancestors(loss.path)}
        lives = catalogue.lives(project, [*(loss.path for loss in losses), *above])
        for loss in losses:
            live, target = lives.get(loss.path), loss.version.entry
            entry = live.entry if live else loss.now.entry
            if loss.newer and not force:
                skipped.append(Step(loss.path, entry, target, None, "something newer is there now"))
            elif is_foreign(loss.path):
                skipped.append(Step(loss.path, entry, target, None, FOREIGN))
            elif not force and entry != loss.now.entry and not same(entry, loss.now.entry):
                skipped.append(Step(loss.path, entry, target, None, "changed since it was listed"))
            else:
                changes[loss.path] = Change(loss.path, target, entry, self._proof(live))
        for path in sorted(above - changes.keys()):
            live = lives.get(path)
            if live is None or live.entry.kind != Kind.DIR:
                entry = live.entry if live else Entry(Kind.ABSENT)
                changes[path] = Change(
                    path, _last_directory(catalogue.versions(project, path)), entry, self._proof(live)
                )
        blocked = {path for path, change in changes.items() if path in above and change.live and change.live.there}
        plan = make_plan([change for change in changes.values() if _reachable(change.path, blocked)], force=force)
        skipped += [
            Step(
                path, change.live or _DIRECTORY, change.target or _DIRECTORY, None, "a file is in the directory's place"
            )
            for path, change in changes.items()
            if not _reachable(path, blocked) and path not in blocked
        ]
        return msgspec.structs.replace(plan, skipped=plan.skipped + skipped)

    def rescue(self, losses: Sequence[Loss], session: str, *, force: bool = False) -> Result:
        """Take the way back, then bring the versions back. Raises as `apply`, with nothing done then."""
        self._finish_interrupted()
        plan = self.plan_rescue(losses, force=force)
        before = self._way_back("before rescue", session)
        operation = self._begin("rescue", "", before.id)
        outcome, rows = self._apply(operation, plan, force=force)
        label = f"{len(losses):,} path" + ("" if len(losses) == 1 else "s")
        position = Position(before.cut, before, label)
        after = self._conclude(operation, outcome, rows, position, session, partial=True)
        return Result(plan, operation.id, outcome, before, after)


def _last_directory(rows: Sequence[Row]) -> Entry:
    """What a directory was when it was last there."""
    return next((row.entry for row in reversed(rows) if row.entry.kind == Kind.DIR), _DIRECTORY)


def _reachable(path: bytes, blocked: set[bytes]) -> bool:
    return path not in blocked and all(above not in blocked for above in ancestors(path))
