"""Manual: nothing is taken unless somebody asks for it."""

from __future__ import annotations

from mulligan.session.events import Condition
from mulligan.session.state import State
from mulligan.transcript.events import CallFinished, Prompt


def decide(event: Prompt | CallFinished, state: State) -> Condition | None:
    """Never."""
    return None
