"""Texts with comments: what is put in is there, what was there stays, and taking out gives the same bytes again."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from mulligan.agents.jsonc import add, drop, get, load, put, take

NAMES = st.sampled_from(["a", "b", "enabled", "hooks", "mine", 'q"', "é"])
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=12,
)
GAPS = st.sampled_from(["", " ", "\n", "\n  ", "\n\t", ' // note, "x": 1\n', "/* } */", " /* a\n b */ ", "\r\n"])


@st.composite
def texts(draw: st.DrawFn, value: Any) -> str:
    """A value as somebody may have written it."""

    def gap() -> str:
        return draw(GAPS)

    def write(value: Any) -> str:
        if isinstance(value, dict):
            inner = [f"{gap()}{json.dumps(name)}{gap()}:{gap()}{write(one)}{gap()}" for name, one in value.items()]
        elif isinstance(value, list):
            inner = [f"{gap()}{write(one)}{gap()}" for one in value]
        else:
            return json.dumps(value, ensure_ascii=draw(st.booleans()))
        body = ",".join(inner) + ("," if inner and draw(st.booleans()) else "") + gap()
        return f"{{{body}}}" if isinstance(value, dict) else f"[{body}]"

    return draw(st.sampled_from(["", "\ufeff"])) + gap() + write(value) + gap()


DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=4).flatmap(lambda value: st.tuples(st.just(value), texts(value)))
PATHS = st.lists(NAMES, min_size=1, max_size=3)


def placed(value: dict[str, Any], path: list[str], what: Any) -> dict[str, Any]:
    """The value with something put into it, by other means."""
    inner = value.get(path[0], {})
    return {**value, path[0]: placed(inner, path[1:], what) if len(path) > 1 else what}


def free(value: Any, path: list[str]) -> bool:
    """Whether nothing stands at a path, and what is on the way are objects."""
    for name in path:
        if not isinstance(value, dict):
            return False
        if name not in value:
            return True
        value = value[name]
    return False


@given(DOCUMENTS)
def test_a_text_stands_for_its_value(document: tuple[dict[str, Any], str]) -> None:
    assert load(document[1]) == document[0]


@given(DOCUMENTS, PATHS, VALUES)
def test_what_is_put_in_is_there_and_taking_it_out_gives_the_same_bytes(
    document: tuple[dict[str, Any], str], path: list[str], what: Any
) -> None:
    value, text = document
    assume(free(value, path))
    edited = put(text, path, what)
    assert load(edited) == placed(value, path, what)
    assert put(edited, path, what) == edited
    assert take(edited, path) == text


@given(DOCUMENTS, PATHS, VALUES, NAMES, VALUES)
def test_what_somebody_puts_in_meanwhile_stays(
    document: tuple[dict[str, Any], str], path: list[str], what: Any, name: str, theirs: Any
) -> None:
    value, text = document
    assume(free(value, path) and name not in value and name != path[0])
    both = put(put(text, path, what), [name], theirs)
    assert take(both, path) == put(text, [name], theirs)
    assert take(both, [name]) == put(text, path, what)


@given(DOCUMENTS, st.data())
def test_any_member_is_taken_out_alone(document: tuple[dict[str, Any], str], data: st.DataObject) -> None:
    value, text = document
    assume(value)
    name = data.draw(st.sampled_from(sorted(value)))
    rest = load(take(text, [name]))
    assert rest == {key: one for key, one in value.items() if key != name}
    assert list(rest) == [key for key in value if key != name]


@given(DOCUMENTS, NAMES, st.lists(VALUES, max_size=3), VALUES, st.data())
def test_elements_of_arrays(
    document: tuple[dict[str, Any], str], name: str, elements: list[Any], mine: Any, data: st.DataObject
) -> None:
    value, text = document
    assume(name not in value and mine not in elements)
    assert take(add(text, [name], mine), [name]) == text
    assert drop(add(text, [name], mine), [name], mine) == text
    text = data.draw(texts({**value, name: elements}))
    added = add(text, [name], mine)
    assert get(added, [name]) == [mine, *elements]
    assert add(added, [name], mine) == added
    assert drop(added, [name], mine) == text
