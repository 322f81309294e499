"""Taking some changes out and leaving everybody else's, worked out without touching a disk.

A **run** is a change of one path that is to be taken out: rows in a row that belong to the calls in question, from the
version before the first to the version after the last. What stands there now is merged with each run's inverse, the
newest first. What cannot be decided is a conflict: that path stays as it is. A file that was renamed, by the change
itself or by somebody since, is followed to where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from mulligan.journal.merge import SIZE_LIMIT, Labels
from mulligan.journal.renames import find_renames
from mulligan.model import ABSENT, DATABASE_LOGS, Entry, Kind, RelPath, Stat
from mulligan.restore.plan import SQLITE_NAMES, Change, Step, ancestors, same, sqlite_base
from mulligan.restore.three_way import Clash, Texts, merge_entries

_SQLITE_MAGIC = b"SQLite format 3\0"
_ODD = (Kind.UNKNOWN, Kind.SPECIAL)


class Version(msgspec.Struct, frozen=True):
    """An entry, and where it is to be had: the name of a position, and the path there."""

    entry: Entry
    at: str
    path: bytes


class Run(msgspec.Struct, frozen=True):
    """A change to take out; `doubt` says why the version before it cannot be relied on.

    `made` is what its first row made and `ended` what stood there before its last one, for a file that was moved and
    edited in one run; `between` are the hashes of what stood there meanwhile.
    """

    before: Version
    after: Version
    doubt: str = ""
    made: Entry = ABSENT
    ended: Entry = ABSENT
    between: frozenset[bytes] = frozenset()

    def went(self) -> set[bytes]:
        """The hashes of what stood there before, or meanwhile."""
        return {*self.between, *([self.before.entry.hash] if self.before.entry.size else [])}

    def came(self) -> set[bytes]:
        """The hashes of what came there by it."""
        after = [self.after.entry.hash] if self.after.entry.size else []
        return {*self.between, *after} - {self.before.entry.hash}


class Track(msgspec.Struct, frozen=True):
    """A path with its runs, the oldest first, and what has become of it.

    `now.path` is another one if somebody else renamed the file since. `stat` is what the journal recorded of it.
    """

    path: bytes
    runs: list[Run]
    now: Version
    stat: Stat | None = None


class Conflict(msgspec.Struct, frozen=True):
    """A path that cannot be decided: what is there now, what the change left there, and what was there before it.

    `marked` is the entry of a text with both versions between markers, if that is possible.
    """

    path: bytes
    reason: str
    ours: Version
    base: Version
    theirs: Version
    marked: Entry | None = None


class Reverted(msgspec.Struct, frozen=True):
    """What is to change, what is in conflict, and what is left alone for a reason."""

    changes: list[Change]
    conflicts: list[Conflict]
    left: list[Step]


class Surroundings(Protocol):
    """The live tree around the paths in question."""

    def live(self, path: bytes) -> tuple[Entry, Stat | None]:
        """What stands at a path now."""

    def children(self, directory: bytes) -> Iterable[tuple[bytes, Entry]]:
        """The paths directly in a directory and what stands there now."""

    def directory(self, path: bytes) -> Entry:
        """The directory that a path was last."""


def take_out(
    tracks: Sequence[Track], around: Surroundings, texts: Texts, *, mark: bool = False, label: str = "the change"
) -> Reverted:
    """Work out what takes the runs of all tracks out; with `mark` conflicts of texts are written with markers."""
    return _Reverting(tracks, around, texts, mark, label).run()


class _Link(msgspec.Struct, frozen=True):
    """A run in the life of one file; `moved`: the file came to its name by it, from another one."""

    run: Run
    moved: bool = False


class _Reverting:
    def __init__(self, tracks: Sequence[Track], around: Surroundings, texts: Texts, mark: bool, label: str) -> None:
        self._tracks = {track.path: track for track in tracks}
        self._around, self._texts, self._mark = around, texts, mark
        self._labels = Labels("now", f"after {label}", f"before {label}")
        self._changes: dict[bytes, Change] = {}
        #: Whose change of a path it is: a file may be changed under another name than its track has.
        self._of: dict[bytes, Track] = {}
        self._conflicts: list[Conflict] = []
        self._left: list[Step] = []

    def run(self) -> Reverted:
        sources = self._renamed()
        names = set(sources.values())
        for path, track in self._tracks.items():
            if path not in names:
                self._follow(track, sources)
        self._keep_databases()
        self._make_room()
        self._keep_holders()
        while self._keep_moved():
            self._keep_holders()
        return Reverted(
            [self._changes[path] for path in sorted(self._changes)],
            sorted(self._conflicts, key=lambda conflict: conflict.path),
            sorted(self._left, key=lambda step: step.path),
        )

    def _renamed(self) -> dict[bytes, bytes]:
        """New path → old path of the files that the changes themselves renamed, if the old name is free."""
        gone, come = [], []
        for path, track in self._tracks.items():
            first, last = track.runs[0], track.runs[-1]
            if last.after.entry.kind == Kind.ABSENT and track.now.entry.kind == Kind.ABSENT and not last.doubt:
                gone.append((RelPath(path), _either(last.ended, last.before.entry)))
            if first.before.entry.kind == Kind.ABSENT:
                come.append((RelPath(path), _either(first.made, first.after.entry)))
        sources: dict[bytes, bytes] = {}
        for rename in find_renames(gone, come, self._texts.read):
            origin: bytes = rename.old
            while origin in sources and origin != rename.new:
                origin = sources[origin]
            if origin != rename.new:  # else it came from itself
                sources[rename.new] = rename.old
        return sources

    def _follow(self, track: Track, sources: dict[bytes, bytes]) -> None:
        """Take out all runs of a file, back over the names that it had."""
        runs, path = list(track.runs), track.path
        chain: list[_Link] = []
        while path in sources and runs:
            old = self._tracks[sources[path]]
            chain += [_Link(run) for run in reversed(runs[1:])]
            chain.append(_Link(Run(old.runs[-1].before, runs[0].after, runs[0].doubt), moved=True))
            path, runs = old.path, old.runs[:-1]
        chain += [_Link(run) for run in reversed(runs)]
        versions = [version for link in chain for version in (link.run.before, link.run.after)]
        if any(version.entry.kind in _ODD for version in (*versions, track.now)):
            reason = "what it was before, or is now, is not known"
            self._left.append(Step(track.now.path, track.now.entry, track.now.entry, track.stat, reason))
        elif path == track.path:
            self._merge(track, chain, track.now.path)
        elif track.now.path != track.path:
            self._conflict(track, chain[-1].run, Clash("it was renamed by the change, and again since"))
        else:
            self._merge(track, chain, path)

    def _merge(self, track: Track, chain: Sequence[_Link], path: bytes) -> None:
        """Merge, the newest run first; the result is to stand at `path`."""
        value, clash, at = track.now.entry, None, chain[0].run
        for link in chain:
            result = self._without(link, value)
            if isinstance(result, Entry):
                value = result
                continue
            if clash is None or result.marked is None:
                clash, at = result, link.run
            if result.marked is None:
                break
            value = result.marked
        if clash is None and value.kind == Kind.ABSENT and track.now.path != track.path:
            clash = Clash("it was renamed since")
        if clash is not None:
            marked = value if clash.marked is not None else None
            self._conflict(track, at, Clash(clash.reason, marked))
            if marked is None or not self._mark:
                return
        self._of[path] = track
        if path == track.now.path:
            self._change(path, value, track.now.entry, track.stat)
        else:
            self._of[track.now.path] = track
            self._change(track.now.path, ABSENT, track.now.entry, track.stat)
            self._change(path, value, *self._around.live(path))

    def _without(self, link: _Link, value: Entry) -> Entry | Clash:
        """A value without one run."""
        if link.run.doubt:
            return Clash(link.run.doubt)
        if link.moved and value.kind == Kind.ABSENT:
            return Clash("it was renamed by the change, and deleted since")
        return merge_entries(link.run.after.entry, value, link.run.before.entry, self._texts, self._labels)

    def _change(self, path: bytes, target: Entry, live: Entry, stat: Stat | None) -> None:
        if not same(target, live):
            self._changes[path] = Change(path, target, live, stat)

    def _conflict(self, track: Track, run: Run, clash: Clash) -> None:
        self._conflicts.append(Conflict(track.now.path, clash.reason, track.now, run.after, run.before, clash.marked))

    def _keep_moved(self) -> bool:
        """A file that was moved here stays if it cannot go back where it came from; whether there was one.

        Such a move is not always seen as one, as when something else was put under the old name at once.
        """
        stuck = {conflict.theirs.path for conflict in self._conflicts} & self._tracks.keys()
        went = {content for path in stuck for run in self._tracks[path].runs for content in run.went()}
        moved = [
            path
            for path in self._changes
            if path in self._of and any(not went.isdisjoint(run.came()) for run in self._of[path].runs)
        ]
        for path in moved:
            if path in self._changes:  # else it went with the other name
                self._drop(path, "it was moved here from a path that is in conflict")
        return bool(moved)

    def _keep_databases(self) -> None:
        """The files of an SQLite database are changed together: one that stays keeps the others."""
        for base in {sqlite_base(path) for path in self._changes}:
            members = [base, *(base + each for each in DATABASE_LOGS)]
            moving = [path for path in members if path in self._changes]
            staying = [path for path in members if path not in moving and self._around.live(path)[0].there]
            if moving and staying and self._is_database(base):
                name = staying[0].rpartition(b"/")[2].decode(errors="replace")
                for path in moving:
                    self._drop(path, f"one SQLite database with {name}, which stays")

    def _is_database(self, path: bytes) -> bool:
        live = self._around.live(path)[0]
        if path.endswith(SQLITE_NAMES) or live.kind != Kind.FILE:
            return live.kind == Kind.FILE
        return live.size > SIZE_LIMIT or self._texts.read(live.hash).startswith(_SQLITE_MAGIC)

    # directories

    def _make_room(self) -> None:
        """What is to stand somewhere needs the directories above it; one that is gone comes back."""
        for path in sorted(self._changes):
            change = self._changes.get(path)
            if change is None or change.target is None or not change.target.there:
                continue
            if not all(self._can_hold(above) for above in ancestors(path)):
                self._drop(path, "something else stands where its directory was")
                continue
            for above in ancestors(path):
                live, stat = self._around.live(above)
                if above not in self._changes and live.kind == Kind.ABSENT:
                    self._changes[above] = Change(above, self._around.directory(above), live, stat)

    def _can_hold(self, path: bytes) -> bool:
        """Whether a directory will be there, or can."""
        change = self._changes.get(path)
        if change is None:
            return self._around.live(path)[0].kind in (Kind.DIR, Kind.ABSENT)
        assert change.live is not None and change.target is not None
        return change.target.kind == Kind.DIR or (change.target.kind == Kind.ABSENT and change.live.kind == Kind.DIR)

    def _drop(self, path: bytes, reason: str) -> None:
        """A path that cannot be changed after all: it stays where it is."""
        track = self._of.get(path)
        for each in [path, *(each for each, other in self._of.items() if other is track)]:
            self._changes.pop(each, None)
        if track is not None:
            self._conflict(track, track.runs[0], Clash(reason))

    def _keep_holders(self) -> None:
        """A directory goes only if everything in it goes; the deepest is asked first."""
        coming = {above for path, change in self._changes.items() if _there(change) for above in ancestors(path)}
        for path in sorted(self._changes, key=lambda path: path.count(b"/"), reverse=True):
            change = self._changes[path]
            assert change.live is not None and change.target is not None
            if change.live.kind != Kind.DIR or change.target.kind == Kind.DIR:
                continue
            if path not in coming and not self._holds_something(path):
                continue
            reason = "holds entries that stay"
            del self._changes[path]
            if change.target.there and (track := self._of.get(path)) is not None:
                self._conflict(track, track.runs[0], Clash(f"the directory there {reason}"))
            else:
                self._left.append(Step(path, change.live, change.live, change.stat, reason))

    def _holds_something(self, directory: bytes) -> bool:
        """Whether anything in a directory stays."""
        return any(
            entry.kind != Kind.ABSENT and child not in self._changes
            for child, entry in self._around.children(directory)
        )


def _either(one: Entry, other: Entry) -> Entry:
    """The first, if it says something."""
    return one if one.size else other


def _there(change: Change) -> bool:
    return change.target is not None and change.target.there
