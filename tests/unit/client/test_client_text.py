"""Foreign text: nothing of it acts on the terminal, and its width is the terminal's."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.client.render.amounts import age, ago, duration, size, tokens
from mulligan.client.render.table import Cell, Column, table
from mulligan.client.render.text import Palette, cells, cut, path_bytes, quoted_path, shown_path, tilde, visible

ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=60)
PLAIN = Palette(False)
JOINERS = "\u200c\u200d"


def acts(text: str) -> list[str]:
    """The characters of a text that a terminal would act on."""
    return [
        char for char in text if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and char not in JOINERS
    ]


@given(ANY_TEXT)
def test_no_control_character_ever_passes(text: str) -> None:
    assert acts(visible(text)) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", "\\x1b[31m"),
        ("\x9b", "\\x9b"),
        ("\x7f", "\\x7f"),
        ("a\nb", "a\\nb"),
        ("\u202eevil", "\\u202eevil"),
        ("\u2066x", "\\u2066x"),
        ("\udcff.txt", "\\xff.txt"),
        ("naïve 漢字", "naïve 漢字"),
    ],
)
def test_what_would_act_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(ANY_TEXT, st.integers(0, 30))
def test_a_cut_text_is_never_wider_than_its_limit(text: str, limit: int) -> None:
    assert cells(cut(visible(text), limit)) <= limit


def test_wide_and_combining_characters_are_counted_in_cells() -> None:
    assert (cells("漢字"), cells("e\u0301"), cells("abc")) == (4, 1, 3)


def test_a_cut_text_ends_with_an_ellipsis() -> None:
    assert cut("add rate limiting", 10) == "add rate…"


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT, ANY_TEXT), max_size=5), st.integers(20, 100))
def test_a_table_is_never_wider_than_the_terminal(rows: list[tuple[str, str, str]], width: int) -> None:
    columns = [Column("a", right=True), Column("b", minimum=8), Column("c", minimum=4)]
    lines = table(columns, [[Cell(text) for text in row] for row in rows], width, PLAIN)
    assert all(cells(line) <= width and not acts(line) for line in lines)


def test_a_narrow_table_drops_columns_from_the_right() -> None:
    columns = [Column("first"), Column("second"), Column("third")]
    row = [Cell("x" * 8), Cell("y" * 8), Cell("z" * 8)]
    assert table(columns, [row], 20, PLAIN) == ["first     second", "xxxxxxxx  yyyyyyyy"]


def test_colour_is_applied_behind_the_padding_so_that_columns_stay_aligned() -> None:
    painted = table([Column("a"), Column("b")], [[Cell("x", "safe"), Cell("y")]], 40, Palette(True), heading=False)
    assert painted == ["\x1b[32mx\x1b[0m  y"]


@pytest.mark.parametrize(
    ("seconds", "short", "sentence"),
    [
        (0.2, "now", "just now"),
        (5, "5 s", "5 s ago"),
        (250, "4 min", "4 min ago"),
        (3700, "1 h", "1 h ago"),
        (3 * 86400, "3 d", "3 d ago"),
        (-20, "now", "just now"),
    ],
)
def test_times_are_relative_up_to_a_week(seconds: float, short: str, sentence: str) -> None:
    moment, stamp = 1767225600.0, "2026-01-01T00:00:00.000Z"
    assert (age(stamp, moment + seconds), ago(stamp, moment + seconds)) == (short, sentence)


def test_after_a_week_a_time_is_a_date() -> None:
    assert ago("2026-01-01T12:00:00.000Z", 1767268800.0 + 8 * 86400) == "on 2026-01-01"


def test_no_time_is_never() -> None:
    assert (age(None, 0), ago("nonsense", 0)) == ("-", "never")


def test_sizes_are_in_binary_units_with_one_decimal() -> None:
    assert [size(n) for n in (0, 1023, 1024, 43201331, 10 << 30)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "41.2 MiB",
        "10.0 GiB",
    ]
    assert size((1 << 20) - 1) == "1.0 MiB"


def test_durations_and_tokens_are_short() -> None:
    assert [duration(n) for n in (0, 61, 3 * 86400 + 4 * 3600 + 5)] == ["0 s", "1 min 1 s", "3 d 4 h"]
    assert [tokens(n) for n in (950, 184_000, 1_200_000)] == ["950", "184k", "1.2M"]


def test_a_path_that_is_not_utf8_comes_back_byte_for_byte() -> None:
    entry = {"path": "a\ufffd", "path_b64": "Yf8="}
    assert (path_bytes(entry), shown_path(entry)) == (b"a\xff", "a\\xff")


def test_paths_for_programs_are_quoted_as_git_does() -> None:
    names = [b"plain.txt", b"tab\there", b'quo"te', b"\xff", "ü".encode()]
    assert [quoted_path(name) for name in names] == ["plain.txt", '"tab\\there"', '"quo\\"te"', '"\\377"', "ü"]


def test_home_is_a_tilde_and_its_neighbours_are_not() -> None:
    assert [tilde(path, "/home/a") for path in ("/home/a", "/home/a/b", "/home/ab")] == ["~", "~/b", "/home/ab"]
