"""Sizes and durations as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.quantities import parse_duration, parse_size, show_duration


@pytest.mark.parametrize(
    ("text", "size"),
    [("0 B", 0), ("1KiB", 1024), ("512 MiB", 2**29), ("1.5 GiB", 3 * 2**29), ("10GB", 10**10), ("0.1 TB", 10**11)],
)
def test_a_size_is_exact(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "5", "5 MIB", "5 mb", "-5 MB", "5  MB", "MB", "1e3 MB", "5 MB\n", "٥ MB", "1,5 GB"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


@pytest.mark.parametrize(("text", "seconds"), [("30m", 1800), ("1h30m", 5400), ("1d", 86_400), ("90s", 90)])
def test_a_duration_is_in_seconds(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "1:30", "30 m", "30m1h", "1m1m", "1.5h", "-1h", "1h\n"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@given(st.integers(0, 10**9))
def test_a_shown_duration_reads_as_itself(seconds: int) -> None:
    assert parse_duration(show_duration(seconds)) == seconds
