"""Reading the catalogue: projects, live entries, cuts, checkpoints. Writing is `fold`'s alone.

A `Catalogue` has one read-only connection and belongs to one thread. Every answer is a consistent state behind some
batch; the log thread writes beside it (WAL).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from mulligan.clock import FOREVER
from mulligan.model import ABSENT, KINDS, Checkpoint, Cut, Entry, Flag, Kind, Row, Stat
from mulligan.store.digest import add_digest, entry_digest
from mulligan.store.fold import by_directory, split_path

_ENTRY = "kind, mode, size, hash, target, reason"
_ROW = "r.kind, r.mode, r.size, r.hash, r.target, r.reason, r.since, r.at, r.flags, r.seq, r.call, r.grade"
_STAT = "dev, ino, stat_size, stat_mode, mtime, ctime, seen"
_PROJECT = (
    "id, path, state, dev, ino, generation, added, baseline_end, reason, last_seq, next_ordinal,"
    " files, dirs, links, bytes, digest, last_capture, thinned"
)
#: The catalogue's file in the directory of a store.
NAME = "catalogue.db"
#: So many paths are compared one by one, whatever happened between two cuts.
_FEW = 1000
UNSEEN = Entry(Kind.UNKNOWN, reason="not seen yet")


@dataclass(frozen=True, slots=True)
class Project:
    """A project as the catalogue knows it; times are journal time, `digest` is of the live tree."""

    id: int
    path: bytes
    state: str
    dev: int
    ino: int
    generation: int
    added: int
    baseline_end: int
    reason: str
    last_seq: int
    next_ordinal: int
    files: int
    dirs: int
    links: int
    size: int
    digest: bytes
    last_capture: int
    thinned: int


class Live(msgspec.Struct, frozen=True, gc=False):
    """The last row of a path and the stat it was read with; there are as many as files."""

    path: bytes
    entry: Entry
    stat: Stat
    seq: int
    flags: int
    since: int
    at: int


class WayBack(msgspec.Struct, frozen=True, gc=False):
    """A path whose entry in a cut is not the live one; as `Live`."""

    path: bytes
    entry: Entry
    live: Entry
    stat: Stat | None


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where a content lies; as `Live`."""

    id: int
    hash: bytes
    size: int
    encoding: int
    segment: int
    offset: int
    stored: int
    base: int
    depth: int


def join_path(directory: bytes, name: bytes) -> bytes:
    """The inverse of `split_path`."""
    return directory + b"/" + name if directory else name


def connect(path: str) -> sqlite3.Connection:
    """A read-only connection for one thread."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)
    connection.execute("pragma busy_timeout = 5000")
    connection.execute("pragma query_only = on")
    return connection


class Catalogue:
    """Questions to the catalogue."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.db = connection

    def close(self) -> None:
        """Close the connection."""
        self.db.close()

    def meta(self, key: str) -> int:
        """A counter or watermark; 0 if it was never set."""
        found = self.db.execute("select value from meta where key = ?", (key,)).fetchone()
        return 0 if found is None else int(found[0])

    def watermark(self) -> tuple[int, int, int]:
        """(segment, offset, batch): where the last batch ends that is folded, and its number. Of one moment."""
        found = dict(self.db.execute("select key, value from meta where key in ('segment', 'offset', 'batch')"))
        return int(found.get("segment", 0)), int(found.get("offset", 0)), int(found.get("batch", 0))

    # contents

    def place(self, digest: bytes) -> Place | None:
        """Where a content lies, by its hash."""
        found = self.db.execute("select * from content where hash = ?", (digest,)).fetchone()
        return None if found is None else Place(*found)

    def places_of(self, digests: Collection[bytes]) -> list[Place]:
        """Where some hundred contents lie, by their hashes; those that are not known are left out."""
        marks = ", ".join("?" * len(digests))
        cursor = self.db.execute(f"select * from content where hash in ({marks})", tuple(digests))
        return [Place(*found) for found in cursor]

    def place_by_id(self, content: int) -> Place | None:
        """Where a content lies, by its id."""
        found = self.db.execute("select * from content where id = ?", (content,)).fetchone()
        return None if found is None else Place(*found)

    def places(self) -> Iterator[Place]:
        """Every content, in the order of ids."""
        for found in self.db.execute("select * from content order by id"):
            yield Place(*found)

    def is_purged(self, digest: bytes) -> bool:
        """Whether a content was erased on request and is never to be stored again."""
        return self.db.execute("select 1 from purged where hash = ?", (digest,)).fetchone() is not None

    def purged(self) -> list[bytes]:
        """The hashes of all contents that were erased on request."""
        return [digest for (digest,) in self.db.execute("select hash from purged")]

    # projects

    def projects(self) -> list[Project]:
        """All projects, removed ones too, oldest first."""
        columns = _PROJECT
        return [Project(*found) for found in self.db.execute(f"select {columns} from project order by id")]

    def project(self, project: int) -> Project:
        """One project. Raises KeyError."""
        columns = _PROJECT
        found = self.db.execute(f"select {columns} from project where id = ?", (project,)).fetchone()
        if found is None:
            raise KeyError(project)
        return Project(*found)

    def gaps(self, project: int) -> list[tuple[int, int, str]]:
        """(start, end, reason) of the times in which changes were not watched, newest last."""
        return list(self.db.execute("select start, end, reason from gap where project = ? order by rowid", (project,)))

    # live tree

    def live(self, project: int, path: bytes) -> Live | None:
        """The last row of one path."""
        directory, name = split_path(path)
        found = self.db.execute(
            f"select {_ENTRY}, {_STAT}, seq, flags, since, at from path where project = ? and dir = ? and name = ?",
            (project, directory, name),
        ).fetchone()
        return None if found is None else _live(path, found)

    def children(self, project: int, directory: bytes) -> dict[bytes, Live]:
        """The last rows of everything ever known directly in a directory, by name."""
        cursor = self.db.execute(
            f"select name, {_ENTRY}, {_STAT}, seq, flags, since, at from path where project = ? and dir = ?",
            (project, directory),
        )
        return {found[0]: _live(join_path(directory, found[0]), found[1:]) for found in cursor}

    def latest(self, project: int) -> int:
        """The greatest `at` of a project's rows; 0 without any."""
        (found,) = self.db.execute("select max(at) from row where project = ?", (project,)).fetchone()
        return int(found or 0)

    def lives(self, project: int, paths: Iterable[bytes]) -> dict[bytes, Live]:
        """The last rows of many paths, looked up by directory."""
        found: dict[bytes, Live] = {}
        for directory, names in by_directory(paths):
            cursor = self.db.execute(
                f"select name, {_ENTRY}, {_STAT}, seq, flags, since, at from path"
                f" where project = ? and dir = ? and name in ({_marks(len(names))})",
                (project, directory, *names),
            )
            for name, *values in cursor:
                path = join_path(directory, name)
                found[path] = _live(path, values)
        return found

    def below(self, project: int, directory: bytes, *, there: bool = False) -> Iterator[Live]:
        """The last rows of everything ever known anywhere below a directory ("" is the root), or what is not absent."""
        query = f"select dir, name, {_ENTRY}, {_STAT}, seq, flags, since, at from path where project = ?"
        if there:
            query += f" and kind != {Kind.ABSENT:d}"
        if not directory:
            found = self.db.execute(query, (project,))
        else:  # two searches of the index; with an "or" SQLite walks the whole project
            found = self.db.execute(
                f"{query} and dir = ? union all {query} and dir > ? and dir < ?",
                (project, directory, project, directory + b"/", directory + b"0"),
            )
        for place, name, *values in found:
            yield _live(join_path(place, name), values)

    def named(self, project: int, names: Sequence[bytes]) -> list[bytes]:
        """The paths of live files with one of these names."""
        query = f"select dir, name from path where project = ? and kind = 1 and name in ({_marks(len(names))})"
        return [join_path(*found) for found in self.db.execute(query, (project, *names))]

    def names(self, project: int, inodes: Sequence[tuple[int, int]]) -> list[tuple[bytes, tuple[int, int]]]:
        """(path, (dev, ino)) of the live files that were one of these inodes when they were read. Walks the tree."""
        wanted, numbers = set(inodes), sorted({ino for _, ino in inodes})
        found: list[tuple[bytes, tuple[int, int]]] = []
        for start in range(0, len(numbers), 1000):
            some = numbers[start : start + 1000]
            query = (
                f"select dir, name, dev, ino from path where project = ? and kind = 1 and ino in ({_marks(len(some))})"
            )
            for directory, name, dev, ino in self.db.execute(query, (project, *some)):
                found.append((join_path(directory, name), (dev, ino)))
        return [(path, inode) for path, inode in found if inode in wanted]

    def odd(self, project: int) -> list[tuple[bytes, Entry]]:
        """Live special and unknown entries."""
        cursor = self.db.execute(
            f"select dir, name, {_ENTRY} from path where project = ? and kind >= 4 order by dir, name", (project,)
        )
        return [(join_path(found[0], found[1]), Entry(KINDS[found[2]], *found[3:])) for found in cursor]

    def with_flag(self, project: int, flag: int) -> list[bytes]:
        """The paths whose last row has a flag. Walks the tree."""
        cursor = self.db.execute("select dir, name from path where project = ? and flags & ?", (project, flag))
        return [join_path(*found) for found in cursor]

    def flagged(self, project: int, cut: Cut) -> list[tuple[bytes, int]]:
        """(path, flags) of the paths whose row in a cut is torn or unproven, in O(flagged + rows behind the cut)."""
        cursor = self.db.execute(
            "select p.dir, p.name, b.flags from path p join row b on b.seq ="
            " (select max(seq) from row where path = p.id and seq <= ? and at <= ?) where b.flags & 3 and p.id in"
            " (select id from path where project = ? and flags & 3"
            " union select path from row where seq > ? and +project = ?"
            " union select path from row where project = ? and at > ?) order by p.dir, p.name",
            (cut.seq, cut.moment, project, cut.seq, project, project, cut.moment),
        )
        return [(join_path(directory, name), flags) for directory, name, flags in cursor]

    # cuts

    def tree(self, project: int, cut: Cut) -> dict[bytes, Row]:
        """Every path's row in a cut; paths without a row in it are left out (see `entry_at`)."""
        cursor = self.db.execute(
            f"select p.dir, p.name, {_ROW} from path p join row r on r.seq = "
            "(select max(seq) from row where path = p.id and seq <= ? and at <= ?) where p.project = ?",
            (cut.seq, cut.moment, project),
        )
        return {(path := join_path(found[0], found[1])): _row(path, found[2:]) for found in cursor}

    def entry_at(self, project: int, path: bytes, cut: Cut) -> Entry:
        """What a path was in a cut: its row's entry, else absent or unknown, as its first row says."""
        directory, name = split_path(path)
        found = self.db.execute(
            f"select p.born_unknown, {_columns('b')} from path p {_last_row('b')}"
            " where p.project = ? and p.dir = ? and p.name = ?",
            (cut.seq, cut.moment, project, directory, name),
        ).fetchone()
        return UNSEEN if found is None else _entry_or(found[1:], found[0])

    def differences(
        self, project: int, before: Cut, after: Cut, only: Collection[bytes] = ()
    ) -> Iterator[tuple[bytes, Entry, Entry]]:
        """(path, entry before, entry after) of the paths whose entries differ between two cuts, in O(rows between).

        With `only`: those of these paths, of everything below them and of the directories above them; in O(these) if
        they are few.
        """
        rows, arguments = self._between(project, before, after, only)
        cursor = self.db.execute(
            f"select p.dir, p.name, p.born_unknown, {_columns('b')}, {_columns('a')}"
            f" from path p {_last_row('b')} {_last_row('a')} where p.id in ({rows}) and {_differ('b', 'a')}"
            " order by p.dir, p.name",
            (before.seq, before.moment, after.seq, after.moment, *arguments),
        )
        for directory, name, born_unknown, *entries in cursor:
            old = _entry_or(entries[:6], born_unknown)
            new = _entry_or(entries[6:], born_unknown)
            if old != new:
                yield join_path(directory, name), old, new

    def kinds_changed(self, project: int, before: Cut, after: Cut) -> Iterator[tuple[Kind, Kind, int]]:
        """(kind before, kind after, how many) of the paths whose entries differ between two cuts."""
        rows, arguments = self._between(project, before, after, ())
        unseen = f"case p.born_unknown when 0 then {int(Kind.ABSENT)} else {int(Kind.UNKNOWN)} end"
        cursor = self.db.execute(
            f"select coalesce(b.kind, {unseen}), coalesce(a.kind, {unseen}), count(*) from path p"
            f" {_last_row('b')} {_last_row('a')} where p.id in ({rows}) and {_differ('b', 'a')} group by 1, 2",
            (before.seq, before.moment, after.seq, after.moment, *arguments),
        )
        for old, new, count in cursor:
            yield KINDS[old], KINDS[new], count

    def ways_back(self, project: Project, cut: Cut, only: Collection[bytes] = ()) -> list[WayBack]:
        """Where a cut and the live tree differ, in any order; else as `differences`."""
        gone = f"(p.kind = {int(Kind.ABSENT)} and p.reason = '')"  # it has nothing but its name
        then, ways = f"select p.dir, p.name, p.born_unknown, {_columns('b')}", list[WayBack]()
        with self.db:
            self.db.execute("begin")  # both answers are of one state
            rows, arguments = self._between(project.id, cut, Cut(project.last_seq), only)
            source = f"from path p {_last_row('b')} where p.id in ({rows}) and {_differ('b', 'p')}"
            values = (cut.seq, cut.moment, *arguments)
            for directory, name, born_unknown, *found in self.db.execute(f"{then} {source} and {gone}", values):
                if (old := _entry_or(found, born_unknown)) != ABSENT:
                    ways.append(WayBack(join_path(directory, name), old, ABSENT, None))
            there = f"{then}, {_columns('p')}, {_STAT} {source} and not {gone}"
            for directory, name, born_unknown, *found in self.db.execute(there, values):
                old, live = _entry_or(found[:6], born_unknown), Entry(KINDS[found[6]], *found[7:12])
                if old != live:
                    ways.append(WayBack(join_path(directory, name), old, live, Stat(*found[12:])))
        return ways

    def _between(self, project: int, before: Cut, after: Cut, only: Collection[bytes]) -> tuple[str, list[Any]]:
        """The ids of the paths with rows between two cuts, or of all that `only` is about if these are few."""
        seqs = sorted((before.seq, after.seq))
        moments = sorted((before.moment, after.moment))
        # the plus keeps SQLite from walking all rows of the project by another index
        rows = "select path from row where seq > ? and seq <= ? and +project = ?"
        arguments: list[Any] = [*seqs, project]
        if moments[0] != moments[1]:
            rows += " union select path from row where project = ? and at > ? and at <= ?"
            arguments += [project, *moments]
        if only and b"" not in only:
            around = self._around(project, only)
            some = "select value from json_each(?)"
            if len(around) <= _FEW:
                rows, arguments = some, []
            else:
                rows += f" intersect {some}"
            arguments.append(json.dumps(list(around)))
        return rows, arguments

    def _around(self, project: int, paths: Collection[bytes]) -> set[int]:
        """The ids of some paths, of what is below them and of the directories above them."""
        ids: set[int] = set()
        above: set[bytes] = set()
        query = "select id from path where project = ? and"
        for path in paths:
            for more, arguments in (("dir = ?", (path,)), ("dir > ? and dir < ?", (path + b"/", path + b"0"))):
                ids.update(number for (number,) in self.db.execute(f"{query} {more}", (project, *arguments)))
            while path and path not in above:
                above.add(path)
                path = path.rpartition(b"/")[0]
        for path in above:
            found = self.db.execute(f"{query} dir = ? and name = ?", (project, *split_path(path)))
            ids.update(number for (number,) in found)
        return ids

    def digest(self, project: Project, cut: Cut) -> str:
        """The digest of a cut: the live one with the later differences taken back. 64 hexadecimal digits."""
        difference = 0
        for path, entry, live in self.differences(project.id, cut, Cut(project.last_seq, FOREVER)):
            difference += entry_digest(path, entry) - entry_digest(path, live)
        return add_digest(project.digest, difference).hex()

    def changed_late(self, project: int, moment: int, seq: int) -> list[bytes]:
        """Paths with a row whose change began by `moment` but became true later: changed faster than captured."""
        cursor = self.db.execute(
            "select distinct p.dir, p.name from row r join path p on p.id = r.path"
            " where r.project = ? and r.at > ? and r.since <= ? and r.since > 0 and r.seq <= ?",
            (project, moment, moment, seq),
        )
        return [join_path(*found) for found in cursor]

    def new_after_gap(self, project: int, moment: int, seq: int, limit: int) -> list[bytes]:
        """Paths that became what they are after `moment` and were seen first by the comparison after a gap.

        Nobody knows what stood there before: a version may have come and gone in the gap. A path that was known before
        the gap is none of them: its row may only confirm what a kill left unproven.
        """
        cursor = self.db.execute(
            "select distinct p.dir, p.name from row r join path p on p.id = r.path where r.project = ? and r.at > ?"
            " and r.seq <= ? and r.since = r.at and r.flags & ? and r.kind != ? and not exists"
            " (select 1 from row k where k.path = r.path and k.seq < r.seq and k.kind != ?) limit ?",
            (project, moment, seq, int(Flag.AWAY), int(Kind.ABSENT), int(Kind.UNKNOWN), limit),
        )
        return [join_path(*found) for found in cursor]

    def versions(self, project: int, path: bytes) -> list[Row]:
        """Every row of one path, oldest first."""
        cursor = self.db.execute(
            f"select {_ROW} from row r join path p on p.id = r.path where p.project = ? and p.dir = ? and p.name = ?"
            " order by r.seq",
            (project, *split_path(path)),
        )
        return [_row(path, found) for found in cursor]

    def rows_of_changed(self, project: int, since: int) -> Iterator[Row]:
        """Every row of the paths that changed since a moment, path after path, oldest first; of new ones as well."""
        cursor = self.db.execute(
            f"select p.dir, p.name, {_ROW} from row r join path p on p.id = r.path where r.path in"
            " (select path from row where project = ? and at >= ? and flags & 4 = 0) order by r.path, r.seq",
            (project, since),
        )
        for directory, name, *found in cursor:
            path = join_path(directory, name)
            yield _row(path, tuple(found))

    def older_contents(self, project: int, path: bytes, limit: int) -> list[bytes]:
        """The hashes of a file's last versions before the live one, newest first."""
        cursor = self.db.execute(
            "select r.hash from row r join path p on p.id = r.path where p.project = ? and p.dir = ? and p.name = ?"
            " and r.seq < p.seq and r.kind = 1 order by r.seq desc limit ?",
            (project, *split_path(path), limit),
        )
        return [found[0] for found in cursor]

    # checkpoints

    def checkpoints(self, where: str, arguments: Iterable[Any], limit: int = -1) -> list[Checkpoint]:
        """Checkpoints by a condition of SQL, newest (highest ordinal) first."""
        cursor = self.db.execute(
            f"select body from checkpoint where {where} order by ordinal desc limit ?", (*arguments, limit)
        )
        return [msgspec.msgpack.decode(found[0], type=Checkpoint) for found in cursor]

    def checkpoint(self, checkpoint: str) -> Checkpoint | None:
        """One checkpoint by its full id."""
        found = self.checkpoints("id = ?", (checkpoint,))
        return found[0] if found else None

    def current(self, project: int, session: str = "") -> str:
        """The id of the current checkpoint of a project or of a session in it; "" if there is none."""
        found = self.db.execute(
            "select checkpoint from current where project = ? and session = ?", (project, session)
        ).fetchone()
        return "" if found is None else str(found[0])

    def event_taken(self, project: int, key: str) -> bool:
        """Whether a checkpoint with this event key was taken, even if it is deleted."""
        which = "where project = ? and event_key = ?"
        query = f"select 1 from checkpoint {which} union all select 1 from deleted {which}"
        return self.db.execute(query, (project, key) * 2).fetchone() is not None


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _columns(alias: str) -> str:
    return ", ".join(f"{alias}.{name}" for name in _ENTRY.split(", "))


def _differ(one: str, other: str) -> str:
    """Whether the entries of two rows differ, of which one may be missing; what is there twice costs no object."""
    return "(" + " or ".join(f"{one}.{name} is not {other}.{name}" for name in _ENTRY.split(", ")) + ")"


def _last_row(alias: str) -> str:
    """The last row of a path in a cut, if there is one; takes the cut's seq and moment."""
    last = "select max(seq) from row where path = p.id and seq <= ? and at <= ?"
    return f"left join row {alias} on {alias}.seq = ({last})"


def _entry_or(found: Sequence[Any], born_unknown: int) -> Entry:
    """The entry of a row; without one the path was absent, or unknown, as its first row says."""
    if found[0] is None:
        return UNSEEN if born_unknown else ABSENT
    return Entry(KINDS[found[0]], *found[1:])


def _live(path: bytes, found: Sequence[Any]) -> Live:
    return Live(path, Entry(KINDS[found[0]], *found[1:6]), Stat(*found[6:13]), *found[13:])


def _row(path: bytes, found: tuple[Any, ...]) -> Row:
    return Row(path, Entry(KINDS[found[0]], *found[1:6]), *found[6:])
