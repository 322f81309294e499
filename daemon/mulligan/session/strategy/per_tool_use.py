"""PerToolUse: the tree after each tool call, once its result has arrived."""

from __future__ import annotations

from mulligan.session.events import Condition
from mulligan.session.state import State
from mulligan.transcript.events import CallFinished, Prompt


def decide(event: Prompt | CallFinished, state: State) -> Condition | None:
    """At each result, a failure's too: it may have changed files before it failed."""
    return Condition.ALWAYS if isinstance(event, CallFinished) else None
