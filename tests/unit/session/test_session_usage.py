"""Tokens, each message once."""

from __future__ import annotations

from mulligan.session.usage import Tally, Tokens
from mulligan.transcript.events import Usage


def usage(message: str, output: int, entered: int = 1) -> Usage:
    return Usage(message=message, model="m", input=entered, output=output, cache_creation=2, cache_read=3)


def test_the_highest_output_counts_once() -> None:
    tally = Tally()
    assert tally.add(usage("a", 3)) == Tokens(1, 3, 2, 3)
    assert tally.add(usage("a", 9, 7)) == Tokens(7, 9, 2, 3)
    assert tally.add(usage("a", 9, 7)) is None
    assert tally.add(usage("a", 4)) is None
    assert tally.add(usage("b", 5)) == Tokens(1, 5, 2, 3)
    assert tally.sum == Tokens(8, 14, 4, 6)
    assert tally.sum.total == 32


def test_what_it_holds_is_bounded() -> None:
    tally = Tally()
    for number in range(1000):
        tally.add(usage(str(number), 1))
    assert len(tally.recent) == 64
    assert tally.sum.output == 1000
    assert tally.holds("999")
    assert not tally.holds("0")
