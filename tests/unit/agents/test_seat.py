"""What a seat makes of an environment, and what tools ask of the daemon from it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mulligan.agents.plan_tokens import PlanTokens
from mulligan.agents.seat import Seat, take_seat
from mulligan.agents.tools import TOOLS


@dataclass(frozen=True)
class Told(Seat):
    """A seat whose daemon answers what it was told to; `asked` are the methods with their parameters."""

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def call(self, method: str, /, **params: Any) -> dict[str, Any]:
        given = {name: value for name, value in params.items() if value is not None}
        self.asked.append((method, given))
        answer: dict[str, Any] = self.answers[method]
        return answer


def told(environ: dict[str, str], **answers: Any) -> Told:
    named = {name.replace("_", ".", 1): answer for name, answer in answers.items()}
    return Told(environ, "/p", PlanTokens(), client=7, call_id="toolu_1", tool="blame", answers=named)


def test_the_project_is_the_clients_else_the_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert take_seat({}).project == str(tmp_path)
    assert take_seat({"CLAUDE_PROJECT_DIR": "/src/shop/"}).project == "/src/shop"


def test_a_process_number_that_was_inherited_says_nothing() -> None:
    assert take_seat({"CLAUDE_PID": "1"}).client == take_seat({}).client != 1
    assert take_seat({}).client == os.getppid() or take_seat({}).client > 1


def test_all_that_is_known_is_told() -> None:
    seat = told({"CLAUDE_CODE_SESSION_ID": "a", "MULLIGAN_SESSION": "b"}, session_of={"session_id": "c"})
    assert seat.session() == "c"
    ((method, params),) = seat.asked
    age = params.pop("age_seconds")
    assert method == "session.of" and 0 <= age < 60
    assert params == {"project": "/p", "session": "a", "pid": 7, "call": "toolu_1", "tool": "blame"}


def test_an_id_of_ones_own_is_told_alone() -> None:
    seat = told({"MULLIGAN_SESSION": "b"}, session_of={"session_id": "b"})
    assert seat.session() == "b" and seat.asked == [("session.of", {"project": "/p", "own": "b"})]


def test_without_one_it_is_the_projects_own() -> None:
    seat = told({}, session_of={"session_id": None})
    assert seat.known_session() == "" and seat.session() == "manual"


def test_only_names_of_prompts_need_the_session() -> None:
    seat = told({"MULLIGAN_SESSION": "b"}, session_of={"session_id": "b"})
    assert (seat.session_for("3", None), seat.session_for(None, "prompt:-1")) == (None, "b")


def test_what_is_to_be_migrated_is_reported_in_bounds() -> None:
    legacy = [{"namespace": f"legacy::{number}", "title": "t"} for number in range(40)]
    answer = {"session_id": "b", "legacy": legacy, "foreign": [], "adopted": "legacy::3"}
    seat = told({"MULLIGAN_SESSION": "b"}, session_of={"session_id": "b"}, state_migrate=answer)
    found = TOOLS["state_migrate"].run(seat, {"adopt": True, "namespace": "legacy::3"})
    assert seat.asked[1:] == [
        ("state.migrate", {"project": "/p", "session": "b", "adopt": True, "namespace": "legacy::3"})
    ]
    assert found["adopted"] == "legacy::3" and found["legacy"][20:] == ["… and 20 more"]
