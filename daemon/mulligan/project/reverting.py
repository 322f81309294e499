"""Taking out what some calls changed, by merging, and leaving everybody else's work.

What to do is worked out in the thread of the request, on one state of the catalogue; the project's worker carries it
out as any other operation, if nothing of it has moved on: contents that merging made are stored first, so that staging
and recovery find them, and one undo takes all of it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial as bind

import msgspec

from mulligan.faults import point
from mulligan.journal.renames import find_renames
from mulligan.model import ABSENT, Cut, Entry, Kind, RelPath, Stat
from mulligan.project.naming import Position
from mulligan.project.restoring import FOREIGN, Restorer, Result
from mulligan.project.selection import Selected, Selection
from mulligan.restore.plan import Plan, Step, make_plan
from mulligan.restore.revert import Conflict, Run, Track, Version, take_out
from mulligan.restore.three_way import Texts
from mulligan.store.catalogue import Catalogue, Live

#: So often it is worked out anew because files moved on meanwhile; then those are left out and named.
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan, and what could not be planned; `made` are the contents that it needs and the store does not have."""

    plan: Plan
    conflicts: list[Conflict] = field(default_factory=list)
    made: dict[bytes, bytes] = field(default_factory=dict)
    marked: bool = False

    @property
    def open(self) -> list[Conflict]:
        """The conflicts of which nothing will be written."""
        return [conflict for conflict in self.conflicts if not (self.marked and conflict.marked is not None)]


class Reverter(Restorer):
    """The reverts of one project."""

    def prepare(
        self, selection: Selection, *, partial: bool = False, mark: bool = False, force: bool = False
    ) -> Prepared:
        """Work out what takes a selection out, after `ProjectWorker.sync`; for any thread.

        With `partial` conflicts are among what the plan skips. Raises IntegrityError if the store cannot give what is
        to be merged.
        """
        with _one_state(self._store.catalogue()) as catalogue:
            around, texts = _Around(self, catalogue), Texts(self._store.contents.read)
            selected = Selected(catalogue, self._worker.project_id, self._worker.root, selection, force=force)
            tracks, left, is_foreign = [], [], self._foreign()
            for path, runs in selected.runs().items():
                if is_foreign(path):
                    left.append(self._left(around, path, FOREIGN))
                else:
                    tracks.append(around.track(path, runs))
            left += [self._left(around, path, why) for path, why in selected.doubtful.items()]
            tracks = around.followed(tracks, texts)
            found = take_out(tracks, around, texts, mark=mark, label=selection.label)
        plan = make_plan(found.changes, force=force)
        plan = msgspec.structs.replace(plan, kept=plan.kept + found.left + left)
        needed = {step.target.hash for step in plan.steps()}
        made = {digest: data for digest, data in texts.made.items() if digest in needed}
        prepared = Prepared(plan, found.conflicts, made, mark)
        if partial and prepared.open:
            skipped = [Step(each.path, each.ours.entry, each.theirs.entry, None, each.reason) for each in prepared.open]
            plan = msgspec.structs.replace(plan, skipped=plan.skipped + skipped)
            prepared = Prepared(plan, found.conflicts, made, mark)
        return prepared

    def revert(
        self,
        selection: Selection,
        kind: str,
        position: Position,
        session: str,
        *,
        partial: bool,
        mark: bool = False,
        force: bool = False,
    ) -> tuple[Prepared, Result | None]:
        """Take a selection out; without a result nothing was done, for conflicts or because there is nothing to do.

        For any thread but the worker's, which does what was prepared here unless files moved on meanwhile.
        """
        for attempt in range(_TRIES):
            self._worker.call(self._worker.sync).result()
            prepared = self.prepare(selection, partial=partial, mark=mark, force=force)
            self._require_agreed(prepared.plan)
            if (prepared.plan.empty and kind == "revert") or (prepared.open and not partial):
                break
            point("revert.prepared")
            go = bind(self._carry_out, prepared, kind, position, session, force=force, last=attempt == _TRIES - 1)
            if (result := self._worker.call(go).result()) is not None:
                return prepared, result
        return prepared, None

    def _carry_out(
        self, prepared: Prepared, kind: str, position: Position, session: str, *, force: bool, last: bool
    ) -> Result | None:
        """Do what was prepared, in the worker's thread; None if it is to be prepared anew. Raises as `apply`."""
        self._finish_interrupted()
        self._worker.sync()
        if not last and self._has_moved_on(prepared.plan):
            return None
        for step in prepared.plan.steps():
            if step.target.hash in prepared.made:
                self._worker.capture.store_bytes(step.path, prepared.made[step.target.hash])
        self._worker.capture.flush()
        before = self._way_back(f"before {kind} of {position.label}", session)
        operation = self._begin(kind, "", before.id)  # nobody's tree but its own becomes current
        outcome, rows = self._apply(operation, prepared.plan, force=force)
        after = self._conclude(operation, outcome, rows, position, session, partial=True)
        return Result(prepared.plan, operation.id, outcome, before, after)

    def _has_moved_on(self, plan: Plan) -> bool:
        """Whether a path of a plan is not what it was when the plan was made."""
        expected = {step.path: step.expected for step in plan.steps()}
        lives = self._store.catalogue().lives(self._worker.project_id, expected)
        return any((lives[path].entry if path in lives else ABSENT) != entry for path, entry in expected.items())

    @staticmethod
    def _left(around: _Around, path: bytes, reason: str) -> Step:
        entry, stat = around.live(path)
        return Step(path, entry, entry, stat, reason)

    def proof(self, live: Live) -> Stat | None:
        """The stat that proves a path to be as recorded, if there is one."""
        return self._proof(live)


@contextmanager
def _one_state(catalogue: Catalogue) -> Iterator[Catalogue]:
    """Let the calling thread read one state of the catalogue, whatever is committed meanwhile."""
    catalogue.db.execute("begin")
    try:
        yield catalogue
    finally:
        catalogue.db.execute("commit")


class _Around:
    """The live tree of a project, for the planner."""

    def __init__(self, reverter: Reverter, catalogue: Catalogue) -> None:
        self._reverter, self._catalogue = reverter, catalogue
        self._project = reverter._worker.project_id

    def live(self, path: bytes) -> tuple[Entry, Stat | None]:
        live = self._catalogue.live(self._project, path)
        return (live.entry, self._reverter.proof(live)) if live is not None else (ABSENT, None)

    def children(self, directory: bytes) -> Iterable[tuple[bytes, Entry]]:
        found = self._catalogue.children(self._project, directory)
        return [(live.path, live.entry) for live in found.values()]

    def directory(self, path: bytes) -> Entry:
        rows = self._catalogue.versions(self._project, path)
        return next((row.entry for row in reversed(rows) if row.entry.kind == Kind.DIR), Entry(Kind.DIR, 0o755))

    def track(self, path: bytes, runs: list[Run]) -> Track:
        """A path with what it is now."""
        live = self._catalogue.live(self._project, path)
        if live is None:
            return Track(path, runs, Version(ABSENT, "@", path))
        return Track(path, runs, Version(live.entry, f"row:{live.seq}", path), self._reverter.proof(live))

    def followed(self, tracks: list[Track], texts: Texts) -> list[Track]:
        """The same with files that somebody else renamed since looked for under their new names."""
        gone: dict[bytes, Entry] = {}
        earliest = 0
        for track in tracks:
            if track.now.entry.kind != Kind.ABSENT or track.runs[-1].after.entry.kind != Kind.FILE:
                continue
            rows = [row for row in self._catalogue.versions(self._project, track.path) if row.entry.kind == Kind.FILE]
            gone[track.path] = rows[-1].entry
            earliest = min(earliest or rows[-1].seq, rows[-1].seq)
        if not gone:
            return tracks
        names = {track.path for track in tracks}
        last = self._catalogue.project(self._project).last_seq
        come = [
            (RelPath(path), new)
            for path, old, new in self._catalogue.differences(self._project, Cut(earliest), Cut(last))
            if old.kind == Kind.ABSENT and new.kind == Kind.FILE and path not in names
        ]
        sides = [(RelPath(path), entry) for path, entry in gone.items()]
        renamed = {bytes(rename.old): rename.new for rename in find_renames(sides, come, texts.read)}
        return [self._at(track, renamed[track.path]) if track.path in renamed else track for track in tracks]

    def _at(self, track: Track, path: bytes) -> Track:
        moved = self.track(path, track.runs)
        return msgspec.structs.replace(moved, path=track.path)
