"""Searching all contents of a project over all time: the index names texts, they are read and judged, rows say when."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mulligan.errors import IntegrityError
from mulligan.journal.history import settled
from mulligan.journal.search import Hit, Query, Span, spans
from mulligan.model import Kind, RelPath, Row
from mulligan.store.catalogue import Catalogue, join_path
from mulligan.store.contents import Contents
from mulligan.store.search_index import TEXT_LIMIT, SearchIndex, is_text


@dataclass(slots=True)
class Found:
    """Spans with all rows of their paths. `unsearched`: paths for which there was no time; `cut`: the limit was met."""

    spans: list[Span] = field(default_factory=list)
    rows: dict[RelPath, list[Row]] = field(default_factory=dict)
    unsearched: int = 0
    cut: bool = False


@dataclass(slots=True)
class _Path:
    path: RelPath
    hashes: set[bytes] | None  # the texts to look at; None: all


class Searcher:
    """One search in one project. `wants` says which paths count, `go_on` whether there is time left."""

    def __init__(
        self,
        catalogue: Catalogue,
        contents: Contents,
        index: SearchIndex | None,
        wants: Callable[[RelPath], bool],
        go_on: Callable[[], bool],
    ) -> None:
        self._catalogue, self._contents, self._index = catalogue, contents, index
        self._wants, self._go_on = wants, go_on
        self._hits: dict[bytes, Hit | None] = {}

    def search(self, project: int, query: Query, since: int, limit: int) -> Found:
        """What appeared or vanished since a moment, paths that changed last first."""
        found = Found()
        paths = self._paths(project, query, since)
        for number, one in enumerate(paths):
            if not self._go_on():
                found.unsearched = len(paths) - number
                break
            rows = self._catalogue.versions(project, one.path)
            new = [span for span in self._spans(settled(rows), one.hashes, query) if _last(span) >= since]
            if new and len(found.spans) + len(new) > limit:
                found.cut = True
                break
            if new:
                found.spans += new
                found.rows[one.path] = rows
        found.spans.sort(key=_last, reverse=True)
        return found

    def _paths(self, project: int, query: Query, since: int) -> list[_Path]:
        """The paths that may have held it, those that changed last first."""
        candidates = self._index.candidates(query.trigrams) if self._index else None
        if candidates is None:
            where, arguments = "kind != 2", []
        else:
            for path, digest in self._index.unindexed() if self._index else []:
                candidates.setdefault(path, set()).add(digest)
            where, arguments = "id in (select value from json_each(?))", [json.dumps(list(candidates))]
        cursor = self._catalogue.db.execute(
            f"select id, dir, name from path where project = ? and at >= ? and {where} order by seq desc",
            (project, since, *arguments),
        )
        found = [(number, RelPath(join_path(directory, name))) for number, directory, name in cursor]
        return [
            _Path(path, None if candidates is None else candidates[number])
            for number, path in found
            if self._wants(path)
        ]

    def _spans(self, rows: Iterable[Row], hashes: set[bytes] | None, query: Query) -> list[Span]:
        def find(row: Row) -> Hit | None:
            entry = row.entry
            if entry.kind is not Kind.FILE or not 0 < entry.size <= TEXT_LIMIT:
                return None
            return self._hit(entry.hash, query) if hashes is None or entry.hash in hashes else None

        return spans(list(rows), find)

    def _hit(self, digest: bytes, query: Query) -> Hit | None:
        if digest not in self._hits:
            try:
                data = self._contents.read(digest)
            except IntegrityError:
                data = b""  # `verify` tells of it
            self._hits[digest] = query.find(data) if is_text(data) else None
        return self._hits[digest]


def _last(span: Span) -> int:
    """When it was heard of last."""
    return span.vanished.at if span.vanished else span.appeared.at
