"""file.blame: who brought each line of a file."""

from __future__ import annotations

from typing import Any

from mulligan.control.answer_child import answer
from mulligan.control.answers import BlameParams, blame_answer
from mulligan.control.methods import Params, method
from mulligan.control.scope import one_path
from mulligan.control.services import Call
from mulligan.model import Cut

#: Bytes of versions that are compared in the daemon itself; more would keep its interpreter from captures for long.
_HERE = 512 << 10
_SECONDS = 50.0


class ParamsOfBlame(Params, frozen=True, kw_only=True):
    """One path; `id` absent: as it is now."""

    project: str
    path: str = ""
    paths: tuple[str, ...] = ()
    paths_b64: tuple[str, ...] = ()
    id: str = ""
    session: str = ""


@method("file.blame", ParamsOfBlame)
def blame(call: Call, params: ParamsOfBlame) -> dict[str, Any]:
    """Each line of a file with checkpoint, prompt, tool, model, and how sure that is."""
    worker = call.worker(params.project)
    path = one_path(worker, params.path, params.paths, params.paths_b64)
    if params.id:
        cut = call.names(worker).position(params.id, params.session).cut
    else:
        call.look(worker)
        cut = Cut(worker.record().last_seq)
    library, asked = call.library(worker), BlameParams(path, cut)
    if sum(row.entry.size for row in library.catalogue.versions(worker.project_id, path)) <= _HERE:
        return blame_answer(library, asked)
    return answer(library, "blame", asked, _SECONDS)
