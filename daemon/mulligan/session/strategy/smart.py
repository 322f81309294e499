"""Smart: the tree after each call that changed it."""

from __future__ import annotations

from mulligan.session.events import Condition
from mulligan.session.state import State
from mulligan.session.tools import ToolClass, destructive
from mulligan.transcript.events import CallFinished, Prompt


def decide(event: Prompt | CallFinished, state: State) -> Condition | None:
    """At the result of a tool that is meant to change files, or that turns out to own changes; if the tree differs.

    A read-only tool owns nothing, so its result is not even looked at.
    """
    if not isinstance(event, CallFinished):
        return None
    call = state.calls.get(event.tool)
    if call is None or call.tool_class is ToolClass.READ_ONLY:
        return None
    return Condition.TREE_DIFFERS if destructive(call.name) else Condition.OWNS_AND_DIFFERS
