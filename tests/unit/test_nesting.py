"""A timeline as a tree, and as the text of one, at any depth and with any branches."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.control.deep_json import dumps
from mulligan.control.nesting import nested_fields, nested_texts


def checkpoint(ordinal: int, parent: int | None) -> dict[str, Any]:
    return {
        "id": f"c{ordinal}",
        "ordinal": ordinal,
        "parent_checkpoint_id": parent and f"c{parent}",
        "text": "é\x1b\u202e",
    }


@given(st.lists(st.integers(0, 30), max_size=30), st.randoms())
def test_the_text_is_that_of_the_tree(parents: list[int], shuffled: Any) -> None:
    made = [checkpoint(number, parent if parent < number else None) for number, parent in enumerate(parents, 1)]
    shuffled.shuffle(made)
    texts = nested_texts(made)
    assert {key: json.loads(text) for key, text in texts.items()} == nested_fields(made)
    assert all(text.isascii() and text.isprintable() for text in texts.values())


@pytest.mark.parametrize("every", [1, 7])
def test_thousands_of_levels(every: int) -> None:
    depth = 20 * sys.getrecursionlimit()
    made = [checkpoint(number, max(0, number - every) or None) for number in range(1, depth)]
    fields = nested_fields(made)
    assert nested_texts(made) == {key: dumps(value) for key, value in fields.items()}


def test_a_value_of_any_depth_is_written() -> None:
    value: list[Any] = [1, "x", {}, [], None]
    for _ in range(20_000):
        value = [{"a": value}]
    written = dumps(value)
    assert written == '[{"a":' * 20_000 + '[1,"x",{},[],null]' + "}]" * 20_000
