"""Which changes a person means: those of a prompt, a call, a session or a checkpoint, and which rows these are."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from mulligan.errors import AmbiguousError, NotFoundError, UsageError
from mulligan.model import ABSENT, Cut, Flag, RelPath, Row, covers
from mulligan.project.execute import windows_between
from mulligan.project.naming import Names, Position
from mulligan.restore.plan import same
from mulligan.restore.revert import Run, Version
from mulligan.session.attribution import AFTER, BEFORE, Change, candidates
from mulligan.session_ids import short_session
from mulligan.store.catalogue import UNSEEN, Catalogue, join_path

_TOOL = re.compile(r"tool:([A-Za-z0-9_.-]{4,128})\Z")
_SESSION = re.compile(r"session:(.{1,128})\Z")
_PROMPT = re.compile(r"prompt:(-?[0-9]{1,9})\Z")
_THINNED = "versions between checkpoints were dropped: nobody can tell any more what was changed here"
_TORN = "the version before it was captured while it was being written"


@dataclass(frozen=True, slots=True)
class Selection:
    """Changes to take out: what calls own, or what differs between two positions. `label` is how to speak of it.

    With `since` only what is not in that cut yet, with `paths` only these and what is below them.
    """

    label: str
    calls: tuple[str, ...] = ()
    between: tuple[Position, Position] | None = None
    since: Cut | None = None
    paths: Collection[bytes] = ()


def select(catalogue: Catalogue, project: int, names: Names, target: str, session: str = "") -> Selection:
    """What a target means. Raises NotFoundError, AmbiguousError, UsageError."""
    if match := _PROMPT.match(target):
        of, ordinal, _, _ = names.prompt(int(match[1]), session)
        query = "select id from call where project = ? and session = ? and prompt = ? order by start"
        return Selection(f"prompt:{ordinal}", _calls(catalogue, query, project, of, ordinal))
    if match := _TOOL.match(target):
        return Selection(target, (_tool(catalogue, project, match[1]),))
    if match := _SESSION.match(target):
        return of_session(catalogue, project, names.session(match[1]))
    made = names.checkpoint(target)
    parent = catalogue.checkpoint(made.parent) if made.parent else None
    if parent is None:
        raise UsageError(
            f"checkpoint {made.ordinal} follows no other: there is no change to take out", hint="mulligan timeline"
        )
    positions = (Position(parent.cut, parent, str(parent.ordinal)), Position(made.cut, made, str(made.ordinal)))
    return Selection(str(made.ordinal), between=positions)


def of_session(
    catalogue: Catalogue, project: int, session: str, since: Cut | None = None, paths: Collection[bytes] = ()
) -> Selection:
    """What a session's calls changed."""
    query = "select id from call where project = ? and session = ? order by start"
    calls = _calls(catalogue, query, project, session)
    return Selection(f"session:{short_session(session)}", calls, since=since, paths=paths)


def _calls(catalogue: Catalogue, query: str, *arguments: object) -> tuple[str, ...]:
    return tuple(str(call) for (call,) in catalogue.db.execute(query, arguments))


def _tool(catalogue: Catalogue, project: int, name: str) -> str:
    query = "select id from call where project = ? and id >= ? and id < ? order by id"
    found = _calls(catalogue, query, project, name, name + "\x7f")
    if not found:
        raise NotFoundError(f'no tool call "{name}" in this project', hint="mulligan show ID names a checkpoint's call")
    if len(found) > 1 and name not in found:
        raise AmbiguousError(
            f'"{name}" fits {len(found)} tool calls', hint="give more characters",
            candidates=[{"id": call} for call in found],
        )  # fmt: skip
    return name if name in found else found[0]


@dataclass(frozen=True, slots=True)
class _Owned:
    """A row that a selected call owns, or may own."""

    path: bytes
    seq: int
    since: int
    at: int
    grade: str


class Selected:
    """The rows of a selection. Reads the catalogue alone."""

    def __init__(self, catalogue: Catalogue, project: int, root: bytes, selection: Selection, *, force: bool) -> None:
        self._catalogue, self._project, self._root = catalogue, project, root
        self._selection, self._force = selection, force
        #: Path → why what may have been changed there is left alone.
        self.doubtful: dict[bytes, str] = {}

    def runs(self) -> dict[bytes, list[Run]]:
        """Path → what is to be taken out there, the oldest first."""
        if self._selection.between is not None:
            return self._differences(*self._selection.between)
        owned: dict[bytes, set[int]] = {}
        for row in self._owned():
            if self._is_certain(row):
                owned.setdefault(row.path, set()).add(row.seq)
            else:
                self.doubtful[row.path] = f"{row.grade} may have changed it; --force takes that out, too"
        for path in owned:
            self.doubtful.pop(path, None)
        for path in self._thinned():
            self.doubtful[path] = _THINNED
            owned.pop(path, None)
        found = {path: self._runs_of(path, seqs) for path, seqs in owned.items()}
        return {path: runs for path, runs in found.items() if runs}

    def _owned(self) -> Iterator[_Owned]:
        since = self._selection.since
        later, moments = ("", ()) if since is None else (" and (r.seq > ? or r.at > ?)", (since.seq, since.moment))
        cursor = self._catalogue.db.execute(
            "select p.dir, p.name, r.seq, r.since, r.at, r.grade from row r join path p on p.id = r.path"
            " where r.call in (select value from json_each(?)) and r.call != '' and r.project = ?"
            f"{later} order by p.dir, p.name, r.seq",
            (json.dumps(self._selection.calls), self._project, *moments),
        )
        for directory, name, *values in cursor:
            path = join_path(directory, name)
            if covers(self._selection.paths, path):
                yield _Owned(path, *values)

    def _thinned(self) -> Iterator[bytes]:
        """Paths that selected calls changed and of which nobody can tell any more what was theirs."""
        cursor = self._catalogue.db.execute(
            "select distinct p.dir, p.name from thinned t join path p on p.id = t.path"
            " where t.call in (select value from json_each(?)) and p.project = ?",
            (json.dumps(self._selection.calls), self._project),
        )
        for found in cursor:
            if covers(self._selection.paths, path := join_path(*found)):
                yield path

    def _is_certain(self, row: _Owned) -> bool:
        """Whether it was one of the selected calls, and nobody else can have been it."""
        if self._force or not row.grade.startswith("one of"):
            return True
        windows = windows_between(self._catalogue, self._project, self._root, row.at - BEFORE, row.at + AFTER)
        found, others = candidates(Change(RelPath(row.path), row.since, row.at, row.seq), windows)
        return bool(found) and not others and all(window.tool in self._selection.calls for window in found)

    def _runs_of(self, path: bytes, owned: set[int]) -> list[Run]:
        runs: list[Run] = []
        rows = self._catalogue.versions(self._project, path)
        before = UNSEEN if rows[0].flags & Flag.FROM_UNKNOWN else ABSENT
        previous = Row(path, before, 0, 0)
        owned_rows: list[Row] = []
        for row in [*rows, None]:
            if row is not None and row.entry == previous.entry:
                continue  # seen once more
            if row is not None and row.seq in owned:
                owned_rows = [*(owned_rows or [previous]), row]
            elif owned_rows:
                runs += _run(path, *owned_rows)
                owned_rows = []
            previous = row or previous
        return runs

    def _differences(self, before: Position, after: Position) -> dict[bytes, list[Run]]:
        torn = {path for path, flags in self._catalogue.flagged(self._project, before.cut) if flags & Flag.TORN}
        return {
            path: [
                Run(Version(old, before.label, path), Version(new, after.label, path), _TORN if path in torn else "")
            ]
            for path, old, new in self._catalogue.differences(self._project, before.cut, after.cut)
            if not same(old, new)
        }


def _run(path: bytes, before: Row, *rows: Row) -> list[Run]:
    """The run of some rows, unless they come to nothing."""
    first, last = rows[0], rows[-1]
    if same(before.entry, last.entry):
        return []
    ended = rows[-2].entry if len(rows) > 1 else before.entry
    return [
        Run(
            Version(before.entry, f"row:{first.seq - 1}", path),
            Version(last.entry, f"row:{last.seq}", path),
            _TORN if before.flags & Flag.TORN else "",
            first.entry,
            ended,
            frozenset(row.entry.hash for row in rows[:-1] if row.entry.size),
        )
    ]
