"""hook.deliver: what an agent's hook told."""

from __future__ import annotations

from typing import Any

from mulligan.control.methods import Params, method
from mulligan.control.services import Call


class DeliverParams(Params, frozen=True, kw_only=True):
    """`input` is what the agent gave its hook, as it is; `cut`: it was too long for a message.

    `sent`: CLOCK_MONOTONIC when the hook began (nanoseconds).
    """

    event: str
    input: str
    agent: str = "claude"
    pid: int = 0
    sent: int = 0
    cut: bool = False


@method("hook.deliver", DeliverParams)
def deliver(call: Call, params: DeliverParams) -> dict[str, Any]:
    """Take what a hook of an agent told; the answer is what the hook is to print, nearly always nothing."""
    raw = None if params.cut else params.input
    return {"output": call.services.deliver_hook(params.agent, params.event, raw, params.sent)}
