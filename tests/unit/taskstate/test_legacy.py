"""Which bytes are a task state of checkpoint-orchestrator 1.x, and what becomes of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.taskstate.legacy import ForeignError, history, recognise
from mulligan.taskstate.schema import check


def data(**fields: Any) -> bytes:
    return msgspec.json.encode({"version": 2, "updatedAt": "2026-01-01T00:00:00.000Z", **fields})


@pytest.mark.parametrize(
    ("theirs", "ours"), [("not_started", "active"), ("in_progress", "active"), ("blocked", "blocked"), ("done", "done")]
)
def test_every_status_has_one_of_ours(theirs: str, ours: str) -> None:
    assert recognise(data(task={"status": theirs})).value == {"status": ours}


def test_both_versions_of_the_schema_are_known_and_no_other() -> None:
    for version in (1, 2):
        assert recognise(data(version=version, summary="s")).value == {"summary": "s"}
    for version in (0, 3, "2", None):
        with pytest.raises(ForeignError):
            recognise(data(version=version, summary="s"))


def test_a_title_that_is_too_long_for_ours_stays_whole_beside_it() -> None:
    value = recognise(data(task={"title": "x" * 50_000})).value
    assert (len(value["title"]), len(value["whole_title"])) == (2000, 50_000)
    check(value)


def test_a_placeholder_of_1x_is_taken_as_it_says() -> None:
    value = recognise(data(task={"title": "Auto-synthesized checkpoint", "status": "in_progress"}, notes=["x"])).value
    assert value == {"title": "Auto-synthesized checkpoint", "status": "active", "notes": ["x"]}


_texts = st.none() | st.lists(st.text(max_size=20), max_size=4)


@given(
    st.fixed_dictionaries(
        {"task": st.fixed_dictionaries({"title": st.text(max_size=30), "objective": st.none() | st.text(max_size=30)})},
        optional=dict.fromkeys(("currentPlan", "completedSteps", "nextSteps", "blockers", "notes"), _texts),
    )
)
def test_whatever_it_holds_is_a_state_of_ours(fields: dict[str, Any]) -> None:
    value = recognise(data(**fields)).value
    known = check(value)
    assert len(known.steps) == len(fields.get("completedSteps") or []) + len(fields.get("nextSteps") or [])


@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise_anything_else(raw: bytes) -> None:
    for function in (recognise, history):
        with pytest.raises(ForeignError):
            function(raw)
