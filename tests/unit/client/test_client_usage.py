"""What a person sees of the store's disk space."""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.client.main import main

MIB = 1 << 20
LONG = "/home/dev/src/a project with a name that is longer than others\x1b"
SHARE = {"bytes": 3 * MIB, "contents": 40, "versions": 1234}
PROJECT = {**SHARE, "state": "watching", "checkpoints": 14, "oldest": "2020-01-02T03:04:05.000Z"}
KINDS = {"contents": 5 * MIB, "log": 100, "catalogue": 2 * MIB, "search_index": 0, "unused": 0}


def answer(days: float | None, growth: int | None, reason: str = "r", used: int = 7) -> dict[str, Any]:
    return {
        "bytes": used * MIB,
        "budget_bytes": 10 * MIB,
        "by_kind": KINDS,
        "growth": {"day_bytes": MIB, "week_bytes": 2 * MIB},
        "growth_bytes_per_day": growth,
        "forecast": {"reached_at": "2020-02-03T04:05:06.000Z" if days is not None else None, "days": days,
                     "reason": reason},
        "projects": [
            {**PROJECT, "path": LONG, "growth_bytes_per_day": MIB},
            {**PROJECT, "path": "/b", "state": "removed", "growth_bytes_per_day": None},
        ],
        "directories": [{**SHARE, "path": "src/\x1b", "project": "/b"}],
        "paths": [{**SHARE, "path": "src/x" * 30, "project": "/b"}],
    }  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(("usage", *words)) == 0
    return capsys.readouterr().out


def test_it_fits_into_eighty_columns(
    daemon: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    daemon.answers["store.usage"] = answer(3.2, MIB)
    assert run(capsys) == (
        "store      7.0 MiB of 10.0 MiB (70%)\n"
        "growth     1.0 MiB in the last day, 2.0 MiB in the last week\n"
        "forecast   at this rate the budget is reached in 3 days, on 2020-02-03\n"
        "\n"
        "by kind      bytes\n"
        "contents   5.0 MiB\n"
        "catalogue  2.0 MiB\n"
        "log          100 B\n"
        "\n"
        "project                        bytes  versions  checkpoints      oldest    a day\n"
        "/home/dev/src/a project wi…  3.0 MiB     1,234           14  2020-01-02  1.0 MiB\n"
        "/b (removed)                 3.0 MiB     1,234           14  2020-01-02        -\n"
        "\n"
        "  bytes  versions  directory  project\n"
        "3.0 MiB     1,234  src/\\x1b   /b\n"
        "\n"
        "  bytes  versions  file                                                  project\n"
        "3.0 MiB     1,234  src/xsrc/xsrc/xsrc/xsrc/xsrc/xsrc/xsrc/xsrc/xsrc/xs…  /b\n"
        "\n"
        "What several of them have is counted for each.\n"
    )
    assert daemon.asked == [("store.usage", {})]


@pytest.mark.parametrize(
    ("days", "growth", "reason", "shown"),
    [
        (1.2, 5, "r", "at this rate the budget is reached in 1 day, on 2020-02-03"),
        (0.26, 5, "r", "at this rate the budget is reached in 6 h, on 2020-02-03"),
        (12345.6, 5, "r", "at this rate the budget is reached in 12,346 days, on 2020-02-03"),
        (0.0, 5, "the budget is used up", "the budget is used up"),
        (None, None, "there is less than a day of history", "not known: there is less than a day of history"),
        (None, 0, "nothing has come in the last week", "none: nothing has come in the last week"),
    ],
)
def test_the_forecast_in_words(
    daemon: Any, capsys: pytest.CaptureFixture[str], days: float | None, growth: int | None, reason: str, shown: str
) -> None:
    daemon.answers["store.usage"] = answer(days, growth, reason)
    assert run(capsys).splitlines()[2] == f"forecast   {shown}"


@pytest.mark.parametrize(
    ("days", "used", "yellow"), [(30.0, 7, False), (30.0, 9, True), (6.9, 7, True), (None, 8, False)]
)
def test_what_is_to_be_looked_at_has_its_colour(
    daemon: Any, capsys: pytest.CaptureFixture[str], days: float | None, used: int, yellow: bool
) -> None:
    daemon.answers["store.usage"] = answer(days, 5, used=used)
    assert ("\x1b[33m" in run(capsys, "--color", "always")) == yellow


def test_what_is_asked(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["store.usage"] = {"bytes": 5}
    assert run(capsys, "--json", "--limit", "3", "--project", "/b") == '{"version":1,"bytes":5}\n'
    assert daemon.asked == [("store.usage", {"project": "/b", "limit": 3})]
