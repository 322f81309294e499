"""Answers are bounded, whatever they are about."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import types

from mulligan.agents.mcp_server import answered, failed
from mulligan.agents.tool import ANSWER_CHARACTERS, as_text, cut, page, shortened, size, without_nothing
from mulligan.agents.tools.state import bounded
from mulligan.errors import UsageError


def test_pages_follow_each_other_without_a_gap() -> None:
    items = [{"n": number, "text": "x" * (number % 700)} for number in range(500)]
    found: list[dict[str, Any]] = []
    arguments: dict[str, Any] = {"limit": 200}
    while True:
        answer = page("items", items, arguments, 20)
        assert size(answer["items"]) <= ANSWER_CHARACTERS + 2 * len(answer["items"])
        found += answer["items"]
        if answer["next_cursor"] is None:
            break
        arguments = {"limit": 200, "cursor": answer["next_cursor"]}
    assert found == items


def test_an_item_that_is_too_large_for_any_page_comes_alone() -> None:
    items = ["x" * 2 * ANSWER_CHARACTERS, "y"]
    assert page("items", items, {}, 20) == {"items": items[:1], "total": 2, "next_cursor": "1"}


def test_a_page_behind_the_end_is_empty() -> None:
    assert page("items", ["x"], {"cursor": "7"}, 20) == {"items": [], "total": 1, "next_cursor": None}


@pytest.mark.parametrize("cursor", ["-1", "x", "1e3", "9" * 10, "٣x"])
def test_an_invented_cursor_is_an_error(cursor: str) -> None:
    with pytest.raises(UsageError, match="is no cursor"):
        page("items", ["x"], {"cursor": cursor}, 20)


def test_texts_and_lists_are_cut_and_say_so() -> None:
    assert cut("short") == "short" and len(cut("x" * 500)) == 300 and cut("x" * 500).endswith("…")
    assert shortened(list("abc"), 2) == ["a", "b", "… and 1 more"] and shortened(["a"], 2) == ["a"]
    assert without_nothing({"a": 0, "b": None, "c": "", "d": [], "e": False, "f": {}}) == {"a": 0}


def test_the_text_names_every_key() -> None:
    value = {"one": 1, "none": None, "list": ["a", {"b": 2, "c": "d"}], "deep": {"x": {"y": "z"}}, "lines": "p\nq"}
    assert as_text(value) == "one: 1\nlist:\n  - a\n  - b 2, c d\ndeep:\n  x:\n    y: z\nlines:\np\nq"


def test_what_a_client_shows_has_no_control_characters() -> None:
    found = answered({"title": "a\x1b]0;x\x07b", "lines": "one\n\ttwo\u202e"})
    (content,) = found.content
    assert isinstance(content, types.TextContent)
    assert content.text == "title: a\\x1b]0;x\\x07b\nlines:\none\n\ttwo\\u202e"
    assert found.structured_content == {"title": "a\x1b]0;x\x07b", "lines": "one\n\ttwo\u202e"}
    (content,) = failed({"code": "usage", "message": "no \x1b[2J", "hint": ""}).content
    assert isinstance(content, types.TextContent) and content.text == "no \\x1b[2J"


def test_a_state_that_is_too_large_is_given_in_parts() -> None:
    state = {"title": "t", "notes": "n" * 60_000, "steps": [{"id": 1}]}
    answer = bounded(state, {})
    assert answer["state"] == {"title": "t", "steps": [{"id": 1}]} and answer["left_out"]["notes"] > 60_000
    text, arguments = "", {"keys": ["notes"]}
    while True:
        part = bounded(state, arguments)
        text += part["text"]
        if part["next_cursor"] is None:
            break
        arguments = {"keys": ["notes"], "cursor": part["next_cursor"]}
    assert text == state["notes"]
    assert bounded(state, {"keys": ["title"]}) == {"state": {"title": "t"}}
    with pytest.raises(UsageError, match="the state has no goal"):
        bounded(state, {"keys": ["goal"]})
