"""Old versions of task states go when nothing refers to them, by what the catalogue knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from mulligan.clock import NANOSECONDS
from mulligan.config import Config
from mulligan.store.records import CheckpointFact, PromptFact
from mulligan.store.state import StateDatabase
from mulligan.supervisor.state_triggers import StateTriggers
from mulligan.taskstate.store import TaskStates
from support.storing import add_project, checkpoint, opened

P = b"/home/u/p"


@pytest.mark.parametrize("known", [True, False])
def test_versions_stay_while_a_checkpoint_a_prompt_or_a_late_line_may_refer_to_them(
    tmp_path: Path, known: bool
) -> None:
    with opened(tmp_path / "store") as store:
        now = store.clock.now()
        add_project(store, 1, P if known else b"/home/u/other")
        database = StateDatabase(str(tmp_path / "state.db"))
        moments = iter([now - age * NANOSECONDS for age in (90_000, 80_000, 70_000, 60_000, 100, 50)])
        states = TaskStates(database, Config, lambda: next(moments))
        for title in ("prompt", "nothing", "checkpoint", "nothing again", "young", "newest"):
            states.save("s", P, {"title": title})

        def title_at(age: int) -> object:
            found = states.at("s", now - age * NANOSECONDS)
            return found and found.value["title"]

        made = checkpoint(id="c", ordinal=1, session="another", timestamp=now - 65_000 * NANOSECONDS)
        prompt = PromptFact("s", 1, "prompt:1", now - 85_000 * NANOSECONDS, "", "typed", 1)
        store.log.append([CheckpointFact(made), prompt])
        ages = (85_000, 75_000, 65_000, 55_000, 75, 0)
        whole = ["prompt", "nothing", "checkpoint", "nothing again", "young", "newest"]
        assert [title_at(age) for age in ages] == whole
        StateTriggers(states, store).drop_versions()
        # the version that was the last one until 100 s ago was replaced just now
        left = ["prompt", "prompt", "checkpoint", "nothing again", "young", "newest"]
        assert [title_at(age) for age in ages] == (left if known else whole)
        database.close()
