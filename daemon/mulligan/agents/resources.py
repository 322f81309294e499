"""What an agent's client may read without a tool: the timeline and the state of the session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mulligan.agents.seat import Seat
from mulligan.agents.tool import JsonObject
from mulligan.agents.tools.checkpoints import short_checkpoint
from mulligan.agents.tools.state import TOOLS

_NEWEST = 50


@dataclass(frozen=True, slots=True)
class Resource:
    """Name, description, and what reading it gives."""

    name: str
    description: str
    read: Callable[[Seat], JsonObject]


def _timeline(seat: Seat) -> JsonObject:
    found = seat.call("timeline.get", project=seat.project, session=seat.known_session(), flat=True)
    newest = sorted(found["checkpoints"], key=lambda made: -int(made["ordinal"]))[:_NEWEST]
    return {
        "session_id": found["session_id"],
        "current_checkpoint_id": found["current_checkpoint_id"],
        "checkpoint_strategy": found["checkpoint_strategy"],
        "total_checkpoints": found["total_checkpoints"],
        "checkpoints": [
            {**short_checkpoint(made), "parent_checkpoint_id": made["parent_checkpoint_id"]} for made in newest
        ],
    }


def _state(seat: Seat) -> JsonObject:
    return next(tool for tool in TOOLS if tool.name == "state_load").run(seat, {})


RESOURCES = {
    "mulligan://timeline": Resource("timeline", f"The newest {_NEWEST} checkpoints of this session.", _timeline),
    "mulligan://state": Resource("state", "The saved task state of this session.", _state),
}
