"""OpenCode's hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mulligan.agents.claude_input import OddInputError

if TYPE_CHECKING:
    from mulligan.supervisor.hooks import Hooks


def deliver(hooks: Hooks, event: str, raw: str, deadline: int) -> str:
    """Take one input. Raises OddInputError for what is not used."""
    raise OddInputError("opencode is not known yet")
