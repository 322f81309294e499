"""One line for an agent's status line, whatever is or is not there, and in time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest

PROJECT = {
    "path": "/p",
    "state": "watching",
    "checkpoints": 14,
    "alarms": [],
    "newest_checkpoint": {"description": "add\nrate \x1b[31mlimiting", "timestamp": "2026-01-01T00:00:00.000Z"},
}
TOLD = {"session_id": "9f3c21aa-5d0e-4c1b-8a77-0d2f6be1c9e4", "cwd": "/p/src", "workspace": {"project_dir": "/p"}}


def statusline(data: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mulligan.client.main", *words, "statusline"],
        input=data, capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_what_it_shows(daemon: Any) -> None:
    daemon.answers["daemon.status"] = {"project": PROJECT}
    daemon.answers["state.load"] = {"exists": True, "state": {"title": "Login", "next": "the page"}}
    line = statusline(json.dumps(TOLD))
    assert line.startswith("mulligan 14 checkpoints · Login → the page · newest on 2026-01-01: add")
    assert "\x1b" not in line and line.count("\n") == 1 and len(line) <= 81
    assert daemon.asked[-2:] == [
        ("daemon.status", {"project": "/p"}),
        ("state.load", {"project": "/p", "session": TOLD["session_id"]}),
    ]
    assert json.loads(statusline(json.dumps(TOLD), "--json"))["line"].startswith(line[:-3])


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({"alarms": [{"vanished": 40, "emptied": 2}]}, "42 files LOST: mulligan rescue"),
        ({"state": "paused"}, "NOT protected: paused"),
        ({"state": "baseline"}, "first look at the files"),
        ({"newest_checkpoint": None}, "mulligan 14 checkpoints\n"),
    ],
)
def test_what_is_wrong_is_said(daemon: Any, changed: dict[str, Any], shown: str) -> None:
    daemon.answers["daemon.status"] = {"project": {**PROJECT, **changed}}
    daemon.fails("state.load", "not_found", 5)
    assert shown in statusline(json.dumps(TOLD))


@pytest.mark.parametrize("data", ["", "{", "[]", '{"workspace": 3, "cwd": 4, "session_id": 5}', "\x00"])
def test_an_odd_input_is_as_none(daemon: Any, data: str) -> None:
    daemon.answers["daemon.status"] = {"project": None}
    assert statusline(data) == "mulligan: NOT protected\n"


def test_a_placeholder_is_not_shown(daemon: Any) -> None:
    daemon.answers["daemon.status"] = {"project": PROJECT}
    daemon.answers["state.load"] = {"exists": True, "synthesized": True, "state": {"title": "none"}}
    assert "none" not in statusline(json.dumps(TOLD))


def test_without_a_daemon_and_with_a_slow_one(daemon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(_: dict[str, Any]) -> dict[str, Any]:
        time.sleep(1.5)
        return {"project": PROJECT}

    daemon.answers["daemon.status"] = slow
    began = time.perf_counter()
    assert statusline(json.dumps(TOLD)) == "mulligan: busy\n"
    assert time.perf_counter() - began < 1
    monkeypatch.setenv("MULLIGAN_SOCKET", "/nowhere/control.sock")
    assert statusline(json.dumps(TOLD)) == "mulligan: not running\n"
