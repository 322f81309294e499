"""The rules of plan tokens, by a clock that a test turns."""

from __future__ import annotations

import pytest

from mulligan.agents.plan_tokens import LIFETIME_SECONDS, PlanTokens
from mulligan.errors import RefusedError


class Clock:
    """Seconds that go by when they are told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def issue(tokens: PlanTokens, **other: str) -> str:
    given = {"project": "/p", "session": "s"} | other
    return tokens.issue("restore", {"id": "1"}, given["project"], given["session"], {"id": "abcd"}, "d1")


def test_a_token_gives_back_what_was_planned_once() -> None:
    tokens = PlanTokens()
    token = issue(tokens)
    planned = tokens.redeem(token, "restore", {"id": "1", "token": token}, "/p", "s")
    assert (planned.params, planned.digest) == ({"id": "abcd"}, "d1")
    with pytest.raises(RefusedError, match="it was used"):
        tokens.redeem(token, "restore", {"id": "1"}, "/p", "s")


def test_tokens_are_not_alike() -> None:
    tokens = PlanTokens()
    assert len({issue(tokens) for _ in range(20)}) == 20


@pytest.mark.parametrize(
    ("tool", "arguments", "project", "session"),
    [
        ("undo", {"id": "1"}, "/p", "s"),
        ("restore", {"id": "2"}, "/p", "s"),
        ("restore", {"id": "1", "paths": ["x"]}, "/p", "s"),
        ("restore", {"id": "1"}, "/q", "s"),
        ("restore", {"id": "1"}, "/p", "t"),
    ],
)
def test_a_token_of_something_else_is_refused_and_used_up(
    tool: str, arguments: dict[str, object], project: str, session: str
) -> None:
    tokens = PlanTokens()
    token = issue(tokens)
    with pytest.raises(RefusedError, match="the token is of another"):
        tokens.redeem(token, tool, arguments, project, session)
    with pytest.raises(RefusedError, match="no plan has this token"):
        tokens.redeem(token, "restore", {"id": "1"}, "/p", "s")


def test_a_token_expires() -> None:
    clock = Clock()
    tokens = PlanTokens(clock)
    in_time, late = issue(tokens), issue(tokens)
    clock.now += LIFETIME_SECONDS - 1
    assert tokens.redeem(in_time, "restore", {"id": "1"}, "/p", "s").tool == "restore"
    clock.now += 1
    with pytest.raises(RefusedError, match="has expired"):
        tokens.redeem(late, "restore", {"id": "1"}, "/p", "s")


def test_the_oldest_are_dropped_when_there_are_many() -> None:
    tokens = PlanTokens()
    first, *others = [issue(tokens) for _ in range(33)]
    with pytest.raises(RefusedError):
        tokens.redeem(first, "restore", {"id": "1"}, "/p", "s")
    assert tokens.redeem(others[0], "restore", {"id": "1"}, "/p", "s")
