"""Who needs a content: where it stood, and the checkpoints whose trees it is in."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from mulligan.clock import FOREVER
from mulligan.store.catalogue import Catalogue, join_path

_HASHES = 500
#: Paths that are named for a checkpoint.
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Stay:
    """A content stood at a path from one row (`seq`, `at`) until the next one; `until` are its, if there is one."""

    project: int
    path: bytes
    hash: bytes
    size: int
    seq: int
    at: int
    until_seq: int
    until_at: int


def stays(catalogue: Catalogue, hashes: Collection[bytes]) -> Iterator[Stay]:
    """Where and when some contents stood. Walks all rows, once for each some hundred hashes."""
    wanted = list(hashes)
    for start in range(0, len(wanted), _HASHES):
        some = wanted[start : start + _HASHES]
        cursor = catalogue.db.execute(
            "select r.project, p.dir, p.name, r.hash, r.size, r.seq, r.at, n.seq, n.at from row r"
            " join path p on p.id = r.path left join row n on n.seq ="
            " (select min(seq) from row where path = r.path and seq > r.seq)"
            f" where r.kind = 1 and r.hash in ({', '.join('?' * len(some))})",
            some,
        )
        for project, directory, name, *rest, until_seq, until_at in cursor:
            ends = (FOREVER, FOREVER) if until_seq is None else (until_seq, until_at)
            yield Stay(project, join_path(directory, name), *rest, *ends)


@dataclass(slots=True)
class Need:
    """A checkpoint that needs damaged contents: how many of its files, and the first of them."""

    id: str
    ordinal: int
    project: int
    count: int = 0
    paths: list[bytes] = field(default_factory=list)


def needs(catalogue: Catalogue, hashes: Collection[bytes]) -> list[Need]:
    """The checkpoints that cannot be restored whole without some contents, by project and ordinal."""
    if not hashes:
        return []
    found: dict[str, Need] = {}
    timelines: dict[int, _Timeline] = {}
    for stay in stays(catalogue, hashes):
        if stay.project not in timelines:
            timelines[stay.project] = _Timeline(catalogue, stay.project)
        for name, ordinal in timelines[stay.project].selecting(stay):
            need = found.setdefault(name, Need(name, ordinal, stay.project))
            need.count += 1
            if len(need.paths) < _SHOWN:
                need.paths.append(stay.path)
    return sorted(found.values(), key=lambda need: (need.project, need.ordinal))


class _Timeline:
    """The cuts of a project's checkpoints, by seq and by moment."""

    def __init__(self, catalogue: Catalogue, project: int) -> None:
        query = "select seq, moment, id, ordinal from checkpoint where project = ?"
        self._by_seq = sorted(catalogue.db.execute(query, (project,)))
        self._by_moment = sorted((moment, seq, name, ordinal) for seq, moment, name, ordinal in self._by_seq)

    def selecting(self, stay: Stay) -> Iterator[tuple[str, int]]:
        """(id, ordinal) of those whose tree has a content where it stood: its row is the last one in their cut."""
        first, last = (bisect_left(self._by_seq, (seq,)) for seq in (stay.seq, stay.until_seq))
        for _, moment, name, ordinal in self._by_seq[first:last]:
            if moment >= stay.at:
                yield name, ordinal
        # the next row is known, and became true later; a moment rises with the row within a path
        first, last = (bisect_left(self._by_moment, (moment,)) for moment in (stay.at, stay.until_at))
        for _, seq, name, ordinal in self._by_moment[first:last]:
            if seq >= stay.until_seq:
                yield name, ordinal
