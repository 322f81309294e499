"""file.history: the versions of a file."""

from __future__ import annotations

from typing import Any

from mulligan.control.answers import history_answer
from mulligan.control.methods import Params, method
from mulligan.control.scope import one_path
from mulligan.control.services import Call
from mulligan.model import Cut


class HistoryParams(Params, frozen=True, kw_only=True):
    """One path. `all`: also the states in which it was being written."""

    project: str
    path: str = ""
    paths: tuple[str, ...] = ()
    paths_b64: tuple[str, ...] = ()
    all: bool = False


@method("file.history", HistoryParams)
def history(call: Call, params: HistoryParams) -> dict[str, Any]:
    """The versions of a file, newest first, over its renames."""
    worker = call.worker(params.project)
    path = one_path(worker, params.path, params.paths, params.paths_b64)
    call.look(worker)
    return history_answer(call.library(worker), path, Cut(worker.record().last_seq), everything=params.all)
