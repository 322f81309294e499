"""file.search: when a text appeared and vanished."""

from __future__ import annotations

import os
from typing import Any

from mulligan.control.answer_child import answer
from mulligan.control.methods import Params, method
from mulligan.control.search_answer import SearchParams, is_quick, search_answer
from mulligan.control.services import Call
from mulligan.errors import UsageError
from mulligan.journal.search import Query

_SECONDS = 10.0


class ParamsOfSearch(Params, frozen=True, kw_only=True):
    """`paths` are globs of whole paths; `since` is an age or a time."""

    project: str
    text: str
    regex: bool = False
    paths: tuple[str, ...] = ()
    since: str = ""
    limit: int = 100


@method("file.search", ParamsOfSearch)
def search(call: Call, params: ParamsOfSearch) -> dict[str, Any]:
    """When a text appeared and vanished, in all contents and prompts over all time."""
    worker = call.worker(params.project)
    if params.limit < 1:
        raise UsageError(f"a limit of {params.limit}", hint="1 and more")
    query = Query(params.text, regex=params.regex)
    since = call.names(worker).moment(params.since) if params.since else 0
    call.look(worker)
    globs = [os.fsencode(path) for path in params.paths]
    asked = SearchParams(params.text, params.regex, globs, since, params.limit)
    library = call.library(worker)
    return search_answer(library, asked) if is_quick(library, query) else answer(library, "search", asked, _SECONDS)
