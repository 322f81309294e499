"""`mulligan rescue` and the ledger of side effects, against a small daemon on a real socket."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from mulligan.client.main import main
from mulligan.client.render.losses import loss_lines
from mulligan.client.render.plan import other_warnings, side_effect_lines
from mulligan.client.render.text import Palette

NOW = 1_800_000_000.0
AGO = "2027-01-15T07:57:00.000Z"  # three minutes before NOW
PLAN = {"write": ["notes.md"], "delete": [], "chmod": [], "mkdir": [], "rmdir": [], "kept": [], "skipped": []}


def entry(path: str, how: str = "vanished", **more: Any) -> dict[str, Any]:
    whole = {"path": path, "how": how, "kind": "file", "size": 2048, "lost_at": AGO, "now": None, "newer": False}
    return {**whole, "moved_to": None, "call": None, "grade": "", **more}


def result(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    whole = {"since": "2027-01-15T07:55:00.000Z", "entries": list(entries), "left_out": {}, "conflicts": []}
    return {**whole, "plan": PLAN, "operation_id": None, "warnings": [], **more}


def lines(found: dict[str, Any], width: int = 80) -> list[str]:
    return loss_lines(found, NOW, width, Palette(False))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(words)
    found = capsys.readouterr()
    return status, found.out, found.err


def test_the_list_says_how_what_when_and_by_whom() -> None:
    call = {"session_id": "9f3c21aa-5d0e", "tool": "Bash", "command": "rm -rf docs\n", "prompt": "clean up"}
    shown = lines(
        result(
            entry("docs", kind="directory", size=0),
            entry("docs/a", call=call, grade="window"),
            entry("b", "emptied", call={**call, "tool": "Edit", "command": ""}, grade="one of 2"),
            entry("c\x1b", moved_to="lib/c"),
            left_out={"leftovers of editors": 3},
        ),
        120,
    )
    assert shown[0] == "Lost in the last 5 min: 4 paths"
    assert [line.split() for line in shown[3:7]] == [
        ["vanished", "docs/", "0", "B", "3", "min", "ago", "no", "agent's", "call"],
        ["vanished", "docs/a", "2.0", "KiB", "3", "min", "ago", "9f3c21aa", "Bash", '"rm', "-rf", 'docs"'],
        ["emptied", "b", "2.0", "KiB", "3", "min", "ago", "9f3c21aa", "Edit", '"clean', 'up"', "(one", "of", "2)"],
        ["vanished", "c\\x1b", "(now", "at", "lib/c)", "2.0", "KiB", "3", "min", "ago", "no", "agent's", "call"],
    ]
    assert "  left out: 3 leftovers of editors (--all)" in shown
    assert all(len(line) <= 80 for line in lines(result(entry("d" * 200)))[3:4])


def test_what_is_replaced_and_what_is_kept_is_said() -> None:
    there = {"kind": "file", "size": 6, "hash": "00"}
    shown = lines(result(entry("kept", "shrank", now=there, newer=True), entry("over", "shrank", now=there)))
    assert "  kept: something newer is at kept (--force replaces it)" in shown
    assert "  replaces what is there now: over" in shown


def test_a_long_list_ends() -> None:
    shown = lines(result(*(entry(f"f{number}") for number in range(50))))
    assert "  and 10 more" in shown and len(shown) < 60


def test_nothing_lost_asks_nothing(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["operation.rescue"] = result(since=None)
    assert run(capsys, "rescue") == (0, "Lost: nothing\n", "")
    assert daemon.asked == [("operation.rescue", {"project": os.getcwd(), "since": "1h", "dry_run": True})]


def test_without_a_terminal_the_plan_is_shown_and_nothing_done(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["operation.rescue"] = result(entry("notes.md"))
    status, out, err = run(capsys, "rescue", "--since", "5m")
    assert (status, "notes.md" in out) == (4, True)
    assert err == "mulligan: not done: there is no terminal to ask on\n  mulligan rescue --since 5m --yes\n"
    assert [params.get("confirmed") for _, params in daemon.asked] == [None]


def test_yes_rescues_and_exit_3_says_that_something_newer_was_kept(
    daemon: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["operation.rescue"] = result(
        entry("notes.md"),
        entry("x", newer=True),
        operation_id="op1",
        plan={**PLAN, "skipped": ["x"], "reasons": {"x": "something newer is there now"}},
        conflicts=[{"path": "x"}],
        exit_status=3,
    )
    status, out, _ = run(capsys, "rescue", "notes.md", "x", "--all", "--yes")
    assert (status, out) == (3, "rescued: 1 written, 1 skipped\n  skipped x: something newer is there now\n")
    params = daemon.asked[-1][1]
    assert (params["confirmed"], params["all"]) == (True, True)
    assert params["paths"] == [os.path.join(os.getcwd(), name) for name in ("notes.md", "x")]
    assert run(capsys, "rescue", "--yes", "--json")[0] == 3


def effect(command: str, kind: str = "push", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "command": command, "timestamp": AGO, "is_error": False, **more}


def test_the_ledger_is_a_list_with_times() -> None:
    effects = [effect("git push"), effect("npm publish", is_error=True), effect("git push && 'x", "unclear")]
    assert side_effect_lines({"side_effects": effects}, NOW, 80) == [
        "  no restore undoes: git push (3 min ago)",
        "                     npm publish (3 min ago, failed)",
        "                     not understood: git push && 'x (3 min ago)",
    ]
    long = side_effect_lines({"side_effects": [effect("ssh host " + "x" * 200)] * 12}, NOW, 80)
    assert len(long) == 11 and long[-1].endswith("and 2 more (--json lists them)")
    assert all(len(line) <= 80 for line in long)
    assert side_effect_lines({}, NOW, 80) == []


def test_a_restore_ends_with_the_ledger_once(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["checkpoint.restore"] = {
        "checkpoint": {"id": "c11", "ordinal": 11, "trigger": "manual"},
        "plan": PLAN,
        "side_effects": [effect("git push")],
        "warnings": ["no restore undoes: git push", "a: another thing"],
    }
    status, out, err = run(capsys, "restore", "11", "--yes")
    assert (status, err) == (0, "mulligan: a: another thing\n")
    assert out.splitlines()[-1].startswith("  no restore undoes: git push (")
    status, out, _ = run(capsys, "restore", "11", "--dry-run")
    assert out.count("git push") == 1 and "  a: another thing\n" in out
    whole = json.loads(run(capsys, "restore", "11", "--yes", "--json")[1])
    assert len(whole["warnings"]) == 2 and other_warnings(whole) == ["a: another thing"]
