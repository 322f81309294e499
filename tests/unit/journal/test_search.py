"""What is searched for, which trigrams it must have, and when it stood at a path."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mulligan.errors import UsageError
from mulligan.journal.search import Hit, Query, required, spans
from mulligan.model import Row
from support.storing import row


@pytest.mark.parametrize(
    ("text", "regex", "data", "hit"),
    [
        ("login", False, b"a\ndef login():\n", Hit(2, "def login():")),
        ("Login", False, b"a\ndef login():\n", None),
        ("a.c", False, b"abc\n", None),
        ("a.c", True, b"abc\n", Hit(1, "abc")),
        ("^def", True, b"x def\ndef y", Hit(2, "def y")),
        ("x$", True, b"x y\nyx\n", Hit(2, "yx")),
        ("b\nc", False, b"a\nb\nc\n", Hit(2, "b")),
        ("é", False, "caf\u00e9".encode(), Hit(1, "café")),
        ("caf.$", True, "café".encode(), Hit(1, "café")),
        ("x", False, b"\xffx", Hit(1, "\ufffdx")),
        ("\udcff", False, b"a\xff", Hit(1, "a\ufffd")),
    ],
)
def test_the_first_line_is_found(text: str, regex: bool, data: bytes, hit: Hit | None) -> None:
    assert Query(text, regex=regex).find(data) == hit


def test_a_long_line_is_cut() -> None:
    hit = Query("x").find(b"x" * 10_000)
    assert hit is not None and len(hit.line) == 400


@pytest.mark.parametrize("pattern", ["(", "[", "*", "a{2,1}", "(?P<x>a)(?P<x>b)", "\\"])
def test_what_is_no_expression_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="regular expression"):
        Query(pattern, regex=True)
    assert Query(pattern).find(pattern.encode()) == Hit(1, pattern)


def test_nothing_is_refused() -> None:
    with pytest.raises(UsageError):
        Query("")


@pytest.mark.parametrize(
    ("text", "regex", "trigrams"),
    [
        ("login", False, ["gin", "log", "ogi"]),
        ("ab", False, []),
        ("a\0bcd", False, ["bcd"]),
        ("\udcffabc", False, ["abc"]),
        ("def (login|out)", True, []),
        ("def +login", True, ["def", "ef ", "gin", "log", "ogi"]),
        ("(?i)login", True, []),
    ],
)
def test_trigrams_that_must_be_there(text: str, regex: bool, trigrams: list[str]) -> None:
    assert Query(text, regex=regex).trigrams == trigrams


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("plain text", ["plain text"]),
        (r"a\.b", ["a.b"]),
        (r"abc?d", ["ab", "d"]),
        ("abc*", ["ab"]),
        ("abc+d", ["abc", "d"]),
        ("abc{0}d", ["ab", "d"]),
        ("ab[xyz]cd", ["ab", "cd"]),
        ("ab[]x]cd", ["ab", "cd"]),
        (r"ab[^\]]cd", ["ab", "cd"]),
        ("ab(cd)?ef", ["ab", "ef"]),
        (r"ab\dcd\b", ["ab", "cd"]),
        ("^ab.cd$", ["ab", "cd"]),
        ("ab|cd", []),
    ],
)
def test_texts_that_must_be_there(pattern: str, texts: list[str]) -> None:
    assert required(pattern) == texts


PIECES = [
    "a",
    "b",
    "c",
    ".",
    "*",
    "+",
    "?",
    "(",
    ")",
    "[",
    "]",
    "^",
    "$",
    "\\",
    "{",
    "}",
    "{1,2}",
    "[ab]",
    r"\w",
    r"\.",
    "|",
    "-",
    "\\b",
]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.text("abc.-w[]{}1,2\\", max_size=12))
def test_whatever_matches_has_what_is_required(pattern: str, text: str) -> None:
    try:
        found = re.search(pattern, text)
    except (re.error, FutureWarning):
        assume(False)
    assume(found is not None)
    for part in required(pattern):
        assert found is not None and part in found[0]


def test_a_text_stands_from_a_row_to_a_row() -> None:
    rows = [row(b"a", at=moment) for moment in range(7)]
    there = {1, 2, 4, 6}  # the moments

    def find(one: Row) -> Hit | None:
        return Hit(one.at, "") if one.at in there else None

    found = spans(rows, find)
    moments = [
        (span.appeared.at, span.last.at, span.vanished.at if span.vanished else None, span.hit.number) for span in found
    ]
    assert moments == [(1, 2, 3, 1), (4, 4, 5, 4), (6, 6, None, 6)]
    assert spans([], find) == []
