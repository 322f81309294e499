"""Compactions as scripts: told once each, and landmarks besides the strategy."""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.session.events import Compaction, Condition, Settings, Strategy, TakeCheckpoint
from support.transcripts import MILLISECOND, Feeder, Writer, at, lines, only

S = "s1"


def boundary(write: Writer, **more: Any) -> dict[str, Any]:
    return write.line("system", subtype="compact_boundary", logicalParentUuid="the-last", **more)


@pytest.mark.parametrize("strategy", [Strategy.PER_PROMPT, Strategy.PER_TOOL_USE, Strategy.SMART])
def test_T15_a_compaction_is_told_once_and_is_a_landmark(strategy: Strategy) -> None:
    feeder, line = Feeder(Settings(strategy=strategy)), boundary(Writer())
    commands = lines(S, feeder, [line, line])
    key = f"compaction:{line['uuid']}"
    assert [one.key for one in only(commands, Compaction)] == [key]
    (landmark,) = only(commands, TakeCheckpoint)
    assert (landmark.trigger, landmark.event_key, landmark.message_uuid) == ("compaction", key, "the-last")
    assert landmark.condition is Condition.ALWAYS and landmark.moment == at(100) + MILLISECOND


@pytest.mark.parametrize(
    "settings", [Settings(strategy=Strategy.MANUAL), Settings(auto_checkpoint=False), Settings(turn_end=False)]
)
def test_a_compaction_without_a_checkpoint_is_told_all_the_same(settings: Settings) -> None:
    commands = lines(S, Feeder(settings), [boundary(Writer())])
    assert len(only(commands, Compaction)) == 1 and only(commands, TakeCheckpoint) == []


def test_a_subagents_compaction_is_not_the_sessions() -> None:
    assert lines(S, Feeder(), [boundary(Writer(), isSidechain=True, agentId="a1")]) == []
