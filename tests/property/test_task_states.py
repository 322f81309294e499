"""Any life of a few sessions' task states, in a real database, against a model; and what merging always holds to."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from mulligan.clock import to_rfc3339
from mulligan.config import Config
from mulligan.store.state import StateDatabase
from mulligan.taskstate.merge import merge
from mulligan.taskstate.store import TaskState, TaskStates
from support.task_states import SessionModel, merged, ordered

LIMIT = 4
P = b"/p"
leaves = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text("ab", max_size=2))
ids = st.one_of(st.integers(0, 2), st.sampled_from(["0", "1", "x"]))
values: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        st.lists(
            st.builds(
                lambda id, more: {**more, "id": id}, ids, st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
            ),
            max_size=3,
        ),
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


@given(objects, objects)
@settings(max_examples=300)
def test_T1_merging_is_what_the_model_says(first: dict[str, Any], second: dict[str, Any]) -> None:
    old = merge({}, first)
    before = msgspec.json.encode([old, second])
    new = merge(old, second)
    assert msgspec.json.encode([old, second]) == before, "nothing that was given is changed"
    assert ordered(new) == ordered(merged(merged({}, first), second))
    assert ordered(merge(new, {})) == ordered(new)
    assert ordered(merge(new, second)) == ordered(new), "the same changes once more change nothing"
    for key in old.keys() - second.keys():
        assert new[key] == old[key], "what is not named stays"


class Sessions(RuleBasedStateMachine):
    """Three sessions; each operation is of one of them, and all are looked at after each."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.now = 1_800_000_000_000_000_000
        self.models = [SessionModel(f"session{n}", f"m{n}", LIMIT) for n in range(3)]
        self.history: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        self.rng = random.Random(1)
        self.open()

    def open(self) -> None:
        self.database = StateDatabase(str(Path(self.directory.name) / "state.db"))
        config = msgspec.structs.replace(Config(), history_limit=LIMIT)
        self.states = TaskStates(self.database, lambda: config, self.tick)

    def tick(self) -> int:
        self.now += 1_000_000
        return self.now

    def carry(self, model: SessionModel, method: str, **params: Any) -> dict[str, Any]:
        """The protocol's answers, made of the store's."""
        states, session = self.states, model.session
        told = states.load(session)
        if method == "save":
            saved = states.save(session, P, params["state"], params.get("snapshot", ""))
            snapshot = {"name": saved.snapshot.name} if saved.snapshot else None
            return {**self.shown(saved.state), "changed": saved.changed, "snapshot": snapshot}
        if method == "load":
            return {"session_id": session, **self.shown(told)}
        if method == "list":
            return {"snapshots": [{"name": each.name, "kind": each.kind} for each in states.snapshots(session)]}
        if method == "status":
            steps = told.value.get("steps") if told else None
            return {
                "snapshots": len(states.snapshots(session)),
                "exists": bool(told),
                "steps": {"total": len(steps or [])},
            }
        if method == "load_snapshot":
            found = states.snapshot(session, params["name"])
            return {"name": found.name, "kind": found.kind, "state": found.value}
        if method == "restore_snapshot":
            state, undo = states.restore_snapshot(session, params["name"])
            return {**self.shown(state), "undo": undo.name if undo else None}
        cleared, snapshots = states.clear(session)
        self.history[session] = []
        return {"cleared": cleared, "snapshots": snapshots}

    def shown(self, state: TaskState | None) -> dict[str, Any]:
        return {
            "exists": state is not None,
            "synthesized": state is not None and state.synthesized,
            "updated_at": to_rfc3339(state.updated_at) if state else None,
            "state": state.value if state else None,
        }

    @rule(number=st.integers(0, 2), seed=st.integers(0, 2**32))
    def step(self, number: int, seed: int) -> None:
        model = self.models[number]
        before = self.states.load(model.session)
        model.step(random.Random(seed), lambda method, **params: self.carry(model, method, **params))
        after = self.states.load(model.session)
        if after is not None and after != before:
            self.history.setdefault(model.session, []).append((after.updated_at, after.value))

    @rule()
    def reopen(self) -> None:
        self.database.close()
        self.open()

    @rule(seed=st.integers(0, 2**32))
    def drop(self, seed: int) -> None:
        """Versions that no moment refers to go; the others answer as before."""
        moments = sorted(random.Random(seed).randrange(1_800_000_000_000_000_000, self.now + 1) for _ in range(3))
        before = {(m.session, t): self.states.at(m.session, t) for m in self.models for t in moments}
        self.states.drop_versions(lambda *_: moments, self.now + 1)
        assert {(m.session, t): self.states.at(m.session, t) for m in self.models for t in moments} == before
        for session, known in self.history.items():
            kept = [(saved, value) for saved, value in known if self.is_at(session, saved, value)]
            self.history[session] = kept

    def is_at(self, session: str, saved: int, value: dict[str, Any]) -> bool:
        found = self.states.at(session, saved)
        return found is not None and (found.updated_at, found.value) == (saved, value)

    @invariant()
    def everybody_has_their_own(self) -> None:
        for model in self.models:
            model.load(self.rng, lambda method, model=model, **params: self.carry(model, method, **params))
            model.list(self.rng, lambda method, model=model, **params: self.carry(model, method, **params))
            for saved, value in self.history.get(model.session, []):
                assert self.is_at(model.session, saved, value)

    def teardown(self) -> None:
        self.database.close()
        self.directory.cleanup()


def test_T9_any_life_of_three_sessions() -> None:
    run_state_machine_as_test(Sessions, settings=settings(max_examples=25, stateful_step_count=30))
