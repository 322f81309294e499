"""store.usage."""

from __future__ import annotations

from typing import Any

from mulligan.control.answer_child import answer
from mulligan.control.methods import Params, method
from mulligan.control.objects import show_path
from mulligan.control.services import Call, Services
from mulligan.control.usage_answer import UsageParams
from mulligan.errors import UsageError

_SECONDS = 50.0


class ParamsOfUsage(Params, frozen=True, kw_only=True):
    """Projects, directories and paths of one project, or of all; of the latter two at most `limit` each."""

    project: str = ""
    limit: int = 10


@method("store.usage", ParamsOfUsage)
def usage(call: Call, params: ParamsOfUsage) -> dict[str, Any]:
    """What takes the store's disk space, how it grows, and when the budget is reached."""
    if params.limit < 1:
        raise UsageError(f"a limit of {params.limit}", hint="1 and more")
    project = call.worker(params.project).project_id if params.project else 0
    found = take_usage(call.services, project, params.limit)
    budgets = {show_path(worker.root): worker.capture.allowance.budget for worker in call.services.registry.workers()}
    for each in found["projects"]:
        each["budget_bytes"] = budgets.get(each["path"]) or None
    return found


def take_usage(services: Services, project: int = 0, limit: int = 1) -> dict[str, Any]:
    """The answer of a child; the growth in it is kept for `status`. Raises MulliganError."""
    asked = UsageParams(services.store.clock.now(), services.budget, limit)
    found = answer(services.library(project), "usage", asked, _SECONDS)
    services.growth = found["growth_bytes_per_day"]
    return found
