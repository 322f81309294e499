"""What takes the room of a store: the files on disk by kind, stored contents by project, directory and path.

A content that several have is counted once for each of them: whoever is asked about takes that much, and two sums may
have a part in common. What a version costs is its record as it is stored, compressed or as a difference to another one.
Reading alone; takes a processor for a second where there are hundreds of thousands of rows.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from mulligan.errors import IntegrityError, NotFoundError
from mulligan.model import Flag, Kind
from mulligan.store.catalogue import Catalogue, join_path
from mulligan.store.contents import Contents
from mulligan.store.encoding import Encoding, block_hashes
from mulligan.store.segments import (
    RECORD_HEADER_SIZE,
    SegmentKind,
    read_record,
    read_segment_kind,
    segment_numbers,
    segment_path,
)

#: Everything that a store's directory holds, by these words.
KINDS = (
    "contents", "log", "catalogue", "search_index", "state", "reserve", "snapshots", "staging", "quarantine", "unused",
    "other",
)  # fmt: skip
_BY_NAME = {
    "catalogue": "catalogue", "search": "search_index", "state": "state",
    "staging": "staging", "drill": "staging", "quarantine": "quarantine", "reserve": "reserve",
}  # fmt: skip


def disk_by_kind(directory: str, catalogue: Catalogue) -> dict[str, int]:
    """Bytes on disk of everything in a store's directory, by kind; all kinds are there.

    `log` is what segments hold besides contents; `unused` is what no content is any more in those of contents alone.
    """
    found = dict.fromkeys(KINDS, 0)
    pool = os.path.join(directory, "content_pool")
    for path, size in _files(directory):
        if not path.endswith(".seg"):
            name = os.path.relpath(path, pool if path.startswith(pool + os.sep) else directory)
            kind = "snapshots" if ".snap" in name else _BY_NAME.get(name.split(os.sep)[0].split(".")[0], "other")
            found[kind] += size
    query = "select segment, sum(stored + ?) from content group by segment"
    used = dict(catalogue.db.execute(query, (RECORD_HEADER_SIZE,)))
    for number in segment_numbers(pool):
        try:
            writer = read_segment_kind(pool, number)
            size = os.stat(segment_path(pool, number)).st_blocks * 512
        except (OSError, IntegrityError):
            continue  # it was unlinked just now, or is damaged, which `verify` tells
        contents = min(size, used.get(number, 0))
        found["contents"] += contents
        found["log" if writer is SegmentKind.LOG else "unused"] += size - contents
    return found


def _files(directory: str) -> Iterator[tuple[str, int]]:
    """(path, bytes on disk) of every file below a directory; what vanishes meanwhile is left out."""
    for place, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(place, name)
            try:
                yield path, os.lstat(path).st_blocks * 512
            except OSError:
                continue


@dataclass(slots=True)
class Share:
    """What one of them takes: stored bytes of its contents, how many these are, and versions of files."""

    size: int = 0
    contents: int = 0
    versions: int = 0


@dataclass(slots=True)
class ProjectShare(Share):
    """A project's share; `day` and `week` are the bytes that came to it since these moments."""

    day: int = 0
    week: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A file or directory and its share; everything that was ever below a directory counts for it."""

    project: int
    path: bytes
    share: Share


@dataclass(slots=True)
class Stock:
    """Shares of all projects, the largest files and directories, and what came since two moments to the whole store.

    `rows` are all of the journal, `rows_day` and `rows_week` those that came since.
    """

    projects: dict[int, ProjectShare] = field(default_factory=dict)
    paths: list[Place] = field(default_factory=list)
    directories: list[Place] = field(default_factory=list)
    day: int = 0
    week: int = 0
    rows: int = 0
    rows_day: int = 0
    rows_week: int = 0


def take_stock(catalogue: Catalogue, pool: str, day: int, week: int, limit: int, project: int = 0) -> Stock:
    """Count everything; `day` and `week` are moments of journal time. Of one project, or of all, so many places.

    What a first look at a project finds is no growth: it comes once.
    """
    reckoning = _Reckoning(catalogue, pool)
    stock = Stock(projects=reckoning.projects(day, week))
    stock.day, stock.week = (sum(reckoning.born_since(0, moment)) for moment in (day, week))
    came = f"coalesce(sum(at >= ? and flags & {Flag.FROM_UNKNOWN:d} = 0), 0)"
    query = f"select count(*), {came}, {came} from row"
    stock.rows, stock.rows_day, stock.rows_week = catalogue.db.execute(query, (day, week)).fetchone()
    stock.paths, stock.directories = reckoning.paths(limit, project), reckoning.directories(limit, project)
    return stock


def share_of(catalogue: Catalogue, contents: Contents, project: int) -> int:
    """The stored bytes of everything that a project's journal names, as in `take_stock`; what others have too included.

    Nearly all of it is SQLite's work, which holds nobody up. A block that is a whole file as well counts twice.
    """
    db = catalogue.db
    named = f"(select hash from row where project = {project:d} and kind = {Kind.FILE:d})"
    (size,) = db.execute(
        f"select coalesce(sum(stored + ?), 0) from content where hash in {named}", (RECORD_HEADER_SIZE,)
    ).fetchone()
    blocks: set[bytes] = set()
    for (digest,) in db.execute(f"select hash from content where encoding = {Encoding.BLOCKS:d} and hash in {named}"):
        try:
            blocks.update(contents.blocks(digest))
        except (IntegrityError, NotFoundError):
            continue  # it was collected just now, or is damaged, which `verify` tells
    places = filter(None, map(catalogue.place, blocks))
    return int(size) + sum(place.stored + RECORD_HEADER_SIZE for place in places)


class _Reckoning:
    """One pass over the rows, and the sums that it allows for."""

    def __init__(self, catalogue: Catalogue, pool: str) -> None:
        self._catalogue = catalogue
        self._costs: dict[bytes, int] = {}
        #: Content of a large file → its blocks, which no row names.
        self._blocks: dict[bytes, tuple[bytes, ...]] = {}
        self._read_contents(pool)
        self._held: dict[int, set[bytes]] = {}
        self._versions: Counter[int] = Counter()
        self._project_of: dict[int, int] = {}
        #: Project (0: the store) → content → when it came there; 0 if a first look found it.
        self._born: defaultdict[int, dict[bytes, int]] = defaultdict(dict)
        self._read_rows()

    def _read_contents(self, pool: str) -> None:
        places: dict[int, list[tuple[int, bytes]]] = {}
        cursor = self._catalogue.db.execute("select hash, stored, encoding, segment, offset from content")
        for digest, stored, encoding, segment, offset in cursor:
            self._costs[digest] = stored + RECORD_HEADER_SIZE
            if encoding == Encoding.BLOCKS:
                places.setdefault(segment, []).append((offset, digest))
        for segment, lists in places.items():
            try:
                with open(segment_path(pool, segment), "rb") as file:
                    for offset, digest in lists:
                        if record := read_record(file.fileno(), offset):
                            self._blocks[digest] = tuple(block_hashes(record.payload))
            except OSError:
                continue  # it was unlinked just now, or is missing, which `verify` tells

    def _read_rows(self) -> None:
        everywhere = self._born[0]
        query = f"select project, path, hash, at, flags from row where kind = {Kind.FILE:d} order by seq"
        for project, path, digest, at, flags in self._catalogue.db.execute(query):
            self._project_of[path] = project
            self._versions[path] += 1
            held, born = self._held.setdefault(path, set()), self._born[project]
            came = 0 if flags & Flag.FROM_UNKNOWN else at
            for content in (digest, *self._blocks.get(digest, ())):
                held.add(content)
                born.setdefault(content, came)
                everywhere.setdefault(content, came)

    def _size(self, contents: set[bytes]) -> int:
        costs = self._costs
        return sum(costs.get(content, 0) for content in contents)

    def born_since(self, project: int, moment: int) -> Iterator[int]:
        """The bytes of each content that came to a project, or to the store, since a moment."""
        costs = self._costs
        return (costs.get(content, 0) for content, came in self._born[project].items() if came >= moment)

    def projects(self, day: int, week: int) -> dict[int, ProjectShare]:
        """The share of every project that has versions."""
        found = {}
        for project in set(self._project_of.values()):
            contents = self._born[project].keys()
            since = (sum(self.born_since(project, moment)) for moment in (day, week))
            found[project] = ProjectShare(self._size(set(contents)), len(contents), 0, *since)
        for path, versions in self._versions.items():
            found[self._project_of[path]].versions += versions
        return found

    def paths(self, limit: int, project: int) -> list[Place]:
        """The files whose versions take most."""
        sizes = (
            (self._size(held), path) for path, held in self._held.items() if project in (0, self._project_of[path])
        )
        query = "select dir, name from path where id = ?"
        found = []
        for size, path in heapq.nlargest(limit, sizes):
            share = Share(size, len(self._held[path]), self._versions[path])
            name = join_path(*self._catalogue.db.execute(query, (path,)).fetchone())
            found.append(Place(self._project_of[path], name, share))
        return found

    def directories(self, limit: int, project: int) -> list[Place]:
        """The directories below the roots with most in them, from all that was ever there."""
        direct: defaultdict[tuple[int, bytes], list[int]] = defaultdict(list)
        for path, directory in self._catalogue.db.execute("select id, dir from path where dir != x''"):
            if path in self._held and project in (0, self._project_of[path]):
                direct[self._project_of[path], directory].append(path)
        contents: defaultdict[tuple[int, bytes], set[bytes]] = defaultdict(set)
        versions: Counter[tuple[int, bytes]] = Counter()
        for (owner, directory), paths in direct.items():
            held = set[bytes]().union(*(self._held[path] for path in paths))
            count = sum(self._versions[path] for path in paths)
            while directory:
                contents[owner, directory] |= held
                versions[owner, directory] += count
                directory = directory.rpartition(b"/")[0]
        largest = heapq.nlargest(limit, ((self._size(held), place) for place, held in contents.items()))
        return [Place(*place, Share(size, len(contents[place]), versions[place])) for size, place in largest]
