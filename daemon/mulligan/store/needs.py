"""Who needs a content: where it stood, and the checkpoints whose trees it is in."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from mulligan.clock import FOREVER
from mulligan.journal.cuts import Cuts
from mulligan.model import Cut
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
    timelines: dict[int, Cuts[tuple[str, int]]] = {}
    for stay in stays(catalogue, hashes):
        if stay.project not in timelines:
            timelines[stay.project] = _timeline(catalogue, stay.project)
        for name, ordinal in timelines[stay.project].selecting(stay.seq, stay.at, stay.until_seq, stay.until_at):
            need = found.setdefault(name, Need(name, ordinal, stay.project))
            need.count += 1
            if len(need.paths) < _SHOWN:
                need.paths.append(stay.path)
    return sorted(found.values(), key=lambda need: (need.project, need.ordinal))


def _timeline(catalogue: Catalogue, project: int) -> Cuts[tuple[str, int]]:
    """The cuts of a project's checkpoints, each with its id and ordinal."""
    query = "select seq, moment, id, ordinal from checkpoint where project = ?"
    cursor = catalogue.db.execute(query, (project,))
    return Cuts((Cut(seq, moment), (name, ordinal)) for seq, moment, name, ordinal in cursor)
