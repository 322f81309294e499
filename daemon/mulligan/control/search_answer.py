"""The answer to `file.search`, made from a store that is only read and from the search index beside it."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from typing import Any

import msgspec

from mulligan.clock import to_rfc3339
from mulligan.control.answers import origin, row_name
from mulligan.control.library import Evidence, Library
from mulligan.control.objects import path_fields, show_path
from mulligan.journal.history import is_created
from mulligan.journal.pathspec import compile_pattern
from mulligan.journal.search import Query, Span
from mulligan.model import RelPath
from mulligan.store.questions import PROMPT_SHOWN, came_from
from mulligan.store.search_index import NAME, SearchIndex, State, is_damage, lacks, remove
from mulligan.store.searching import Found, Searcher

#: Seconds for taking new rows into the index, and for reading texts that it does not know.
_BUILD_SECONDS, _READ_SECONDS = 0.3, 2.0
#: Rows behind the index that a search takes in on its way.
_FEW = 300
#: Places of which it is asked whether their file came from another name: that looks at all rows of that moment.
_FOLLOWED = 20


class SearchParams(msgspec.Struct, frozen=True):
    """A search; `globs` are of whole paths, `since` is journal time."""

    text: str
    regex: bool = False
    globs: list[bytes] = []
    since: int = 0
    limit: int = 100


def is_quick(library: Library, query: Query) -> bool:
    """Whether the index answers nearly all of it; else texts are read for seconds, which is no work for the daemon.

    A regular expression may take any time by itself.
    """
    if query.regex or not query.trigrams:
        return False
    index, _ = _open(library)
    if index is None:
        return False
    try:
        return index.state().pending <= _FEW
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return False
    finally:
        index.close()


def search_answer(library: Library, params: SearchParams) -> dict[str, Any]:
    """When a text appeared and vanished, and the prompts that hold it; exit status 3 if not all was looked at."""
    query = Query(params.text, regex=params.regex)
    try:
        found, index = _searched(library, query, params)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        remove(os.path.join(library.directory, NAME))
        found, index = _searched(library, query, params)
    evidence = Evidence(
        library, [row for span in found.spans for row in (span.appeared, span.vanished) if row], found.rows
    )
    sources = _sources(library, found)
    whole = not found.unsearched and not found.cut
    return {
        "text": params.text,
        "regex": params.regex,
        "matches": [_match(span, evidence, sources.get(span.appeared.seq)) for span in found.spans],
        "prompts": _prompts(library, query, params),
        "complete": whole,
        "unsearched_paths": found.unsearched,
        "cut": found.cut,
        "index": index,
        **({} if whole else {"exit_status": 3}),
    }


def _searched(library: Library, query: Query, params: SearchParams) -> tuple[Found, dict[str, Any]]:
    """What was found, and how far the index is that was used for it."""
    index, reason = _open(library)
    try:
        state = index.build(_within(_BUILD_SECONDS)) if index else State(0, 0, False)
        searcher = Searcher(
            library.catalogue,
            library.contents,
            index,
            _wanted(params.globs),
            _within(_READ_SECONDS),
        )
        found = searcher.search(library.project, query, params.since, params.limit)
    finally:
        if index:
            index.close()
    described = {"reason": reason, "pending": state.pending, "bytes": state.size, "full": state.full}
    return found, {"available": index is not None, **described, "budget_bytes": library.index_budget}


def _open(library: Library) -> tuple[SearchIndex | None, str]:
    """The index, or why there is none; then texts are read one after another for as long as there is time."""
    if reason := lacks():
        return None, reason
    try:
        return SearchIndex(library.directory, library.catalogue, library.contents, library.index_budget), ""
    except (sqlite3.OperationalError, OSError) as error:  # a full disk; somebody else makes it just now
        return None, str(error)


def _within(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


def _wanted(globs: list[bytes]) -> Callable[[bytes], bool]:
    """Which paths globs stand for, as where paths are given; a name alone means every file of that name, too."""
    matchers = [compile_pattern(glob.removeprefix(b"./").rstrip(b"/")).match for glob in globs]
    names = [matcher for glob, matcher in zip(globs, matchers, strict=True) if b"/" not in glob.rstrip(b"/")]

    def wanted(path: bytes) -> bool:
        name = path.rpartition(b"/")[2]
        return not globs or any(matches(path) for matches in matchers) or any(matches(name) for matches in names)

    return wanted


def _sources(library: Library, found: Found) -> dict[int, bytes]:
    """Where files came from whose first row is that of a place, by the row; of the newest places alone."""
    sources: dict[int, bytes] = {}
    for row in [span.appeared for span in found.spans[:_FOLLOWED]]:
        rows = found.rows[RelPath(row.path)]
        if is_created(rows, rows.index(row)):
            source = came_from(library.catalogue, library.project, row, library.contents.read)
            sources |= {row.seq: source.path} if source else {}
    return sources


def _match(span: Span, evidence: Evidence, renamed_from: bytes | None) -> dict[str, Any]:
    checkpoint, ordinal = evidence.checkpoint(span.last)
    return {
        **path_fields(span.appeared.path),
        "renamed_from": None if renamed_from is None else show_path(renamed_from),
        "line_number": span.hit.number,
        "line": span.hit.line,
        "appeared": origin(span.appeared, evidence),
        "vanished": None if span.vanished is None else origin(span.vanished, evidence),
        "last": {"id": checkpoint or row_name(span.last), "ordinal": ordinal, "timestamp": to_rfc3339(span.last.at)},
    }


def _prompts(library: Library, query: Query, params: SearchParams) -> list[dict[str, Any]]:
    cursor = library.catalogue.db.execute(
        "select session, ordinal, moment, text from prompt where project = ? and moment >= ? order by moment desc",
        (library.project, params.since),
    )
    fitting = (found for found in cursor if query.find(found[3].encode("utf-8", "surrogateescape")))
    return [
        {
            "session_id": session,
            "prompt_number": ordinal,
            "timestamp": to_rfc3339(moment),
            "prompt": text[:PROMPT_SHOWN],
        }
        for (session, ordinal, moment, text), _ in zip(fitting, range(params.limit), strict=False)
    ]
