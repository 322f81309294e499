"""PerPrompt: the tree as it was when a person spoke, before the agent touched it."""

from __future__ import annotations

from mulligan.session.events import Condition
from mulligan.session.state import State
from mulligan.transcript.events import CallFinished, Prompt


def decide(event: Prompt | CallFinished, state: State) -> Condition | None:
    """At each prompt, whether anything changed or not."""
    return Condition.ALWAYS if isinstance(event, Prompt) else None
