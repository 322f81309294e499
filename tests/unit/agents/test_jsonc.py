"""How an edited text looks, and what is refused."""

from __future__ import annotations

import pytest

from mulligan.agents.jsonc import JsoncError, add, drop, get, load, put, take

SETTINGS = """\
// mine
{
    "model": "opus",  // the good one
    "hooks": {},
}
"""


def test_a_member_gets_a_line_as_the_others_have() -> None:
    edited = put(SETTINGS, ["enabledPlugins", "x@y"], True)
    assert edited == SETTINGS.replace('{\n    "model"', '{\n    "enabledPlugins": {"x@y": true},\n    "model"')
    edited = put(SETTINGS, ["hooks", "Stop"], [1])
    assert edited == SETTINGS.replace('"hooks": {},', '"hooks": {\n        "Stop": [1]\n    },')


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "k": 1\n}'),
        ("{\n}\n", '{"k": 1\n}\n'),
        ("{ /* c */ }", '{"k": 1 /* c */ }'),
        ('{"a": 2}', '{"k": 1,"a": 2}'),
        ('{\r\n\t"a": 2\r\n}', '{\r\n\t"k": 1,\r\n\t"a": 2\r\n}'),
        ('\ufeff{\n "a": 2}', '\ufeff{\n "k": 1,\n "a": 2}'),
        ('{"k": 2, "a": 3}', '{"k": 1, "a": 3}'),
    ],
)
def test_where_a_member_is_put(before: str, after: str) -> None:
    assert put(before, ["k"], 1) == after
    if '"k"' not in before:
        assert take(after, ["k"]) == before


def test_only_what_was_made_goes_with_its_last_member() -> None:
    text = put("{}", ["a", "b", "c"], 1)
    assert take(text, ["a", "b", "c"]) == "{}"
    assert take('{"a": {\n  "b": 1\n}}', ["a", "b"]) == '{"a": {}}'
    assert take('{"a": {"b": 1, "c": 2}}', ["a", "b"]) == '{"a": { "c": 2}}'


def test_a_comment_behind_a_neighbour_stays() -> None:
    assert take('{\n  "a": 1, // one\n  "k": 2\n}', ["k"]) == '{\n  "a": 1 // one\n}'
    assert load(take('{"a": 1, // one\n"k": 2}', ["k"])) == {"a": 1}
    assert load(drop("[1, // one\n 2]", [], 2)) == [1]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "a value was expected"),
        ('{\n  "a": 1\n  "b": 2\n}', 3, '","'),
        ("{a: 1}", 1, "double quotes"),
        ('{"a" 1}', 1, '":"'),
        ('{"a": 1}\n}', 2, "nothing may follow"),
        ('{"a": "\\x"}', 1, "escape"),
        ('{"a": 01}', 1, '","'),
        ("{ /* never", 1, "no end"),
        ("[" * 300, 1, "too deep"),
        ('{"a": 1,,}', 1, "double quotes"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text: str, line: int, reason: str) -> None:
    for edit in (load, lambda text: put(text, ["k"], 1), lambda text: take(text, ["k"])):
        with pytest.raises(JsoncError) as refused:
            edit(text)
        assert refused.value.line == line
        assert reason in str(refused.value)


def test_what_stands_in_the_way_is_not_replaced() -> None:
    with pytest.raises(JsoncError, match='"a" is no object'):
        put('{"a": [1]}', ["a", "b"], 1)
    with pytest.raises(JsoncError, match="no array"):
        add('{"a": {}}', ["a"], 1)
    assert take('{"a": 1}', ["a", "b"]) == '{"a": 1}'
    assert drop('{"a": 1}', ["a"], 1) == '{"a": 1}'
    assert get('{"a": {"b": 1}}', ["a", "b"]) == 1
    assert get("{}", ["a", "b"], "none") == "none"
